"""A tokenizer of whole words, its vocabulary made of the texts it is to read."""

from __future__ import annotations

from collections.abc import Iterable

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from harness.errors import UserError

PADDING, UNKNOWN = "[PAD]", "[UNK]"  # ids 0 and 1
WORD = r"\w+(?:['’]\w+)*|['’]\w+|[^\w\s]"  # "don't" is one word, the "'s" of "his 's" another; marks stand alone


def word_level(texts: Iterable[str], size: int) -> PreTrainedTokenizerFast:
    """A tokenizer of lower-cased words that knows the `size` commonest of the texts, 0: all; ties go by the word.

    The mask token is the unknown token (liu2020, section 3.3: a masked word is an unknown one to the student). Nothing
    is put before or after a text, so an empty one has no tokens. Raises UserError if no text holds a word.
    """
    tokenizer = Tokenizer(models.WordLevel(unk_token=UNKNOWN))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(WORD), "removed", invert=True)
    special = [PADDING, UNKNOWN]
    most = size + len(special) if size else 2**62
    trainer = trainers.WordLevelTrainer(vocab_size=most, min_frequency=0, show_progress=False, special_tokens=special)
    # counting knows no special tokens: it would take "[UNK]" for a word between brackets
    tokenizer.train_from_iterator((text.replace(UNKNOWN, " ") for text in texts), trainer)
    if tokenizer.get_vocab_size() == len(special):
        raise UserError("a word-level vocabulary is built from the training texts, but none of them contains a word")
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PADDING,
        unk_token=UNKNOWN,
        mask_token=UNKNOWN,
        model_input_names=["input_ids", "attention_mask"],
    )
