"""What a teacher's tokenizer does not see of a task's texts, by a sample of them: what is cut, unknown or masked."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

from harness.answers import Faulty, ask
from harness.contracts import Task
from harness.errors import UserError
from harness.registry import TEACHERS

if TYPE_CHECKING:
    from harness.data.sources import Split

SAMPLE = 200  # texts
LEAST = 0.01  # share of them, or of their tokens, that is told


def sample(split: Split) -> list[tuple[str, ...]]:
    """At most SAMPLE of the texts, or pairs of texts, at equal distances."""
    texts = [split.text_a] if split.text_b is None else [split.text_a, split.text_b]
    size = len(split.text_a)
    return [tuple(part[i] for part in texts) for i in range(0, size, max(1, -(-size // SAMPLE)))]


def unseen(
    task: Task, texts: Sequence[tuple[str, ...]], teacher: Any, most: int, masked: bool = False, called: str = ""
) -> list[str]:
    """Sentences on the texts of more than `most` tokens, and on tokens that stand for what is unknown.

    teacher: a plugin, of an ensemble whoever sees least; nothing is told of one whose tokenizer cannot be had. masked:
    words of further texts are, which is told of a tokenizer that has no token for it. called: as tables call the
    teacher; by default by its plugin's name. Raises Faulty for a tokenizer that is none.
    """
    from transformers import PreTrainedTokenizerBase

    from harness.data.encoding import MASK

    found: list[str] = []
    every = teacher.members or [teacher]
    try:
        readers = [ask(TEACHERS, one.name, "tokenizer", PreTrainedTokenizerBase, one.tokenizer) for one in every]
    except Faulty:
        raise
    except UserError:
        return found
    by = f"teacher {called or teacher.name}"
    read = [_read(reader, texts) for reader in readers]
    cut, lengths = max((sum(size > most for size in sizes) / len(sizes), sizes) for sizes, _ in read)
    if cut >= LEAST:
        pairs = "pairs" if task.pair else "texts"
        found.append(
            f"about {cut:.0%} of the {pairs} of {task.name} have more tokens than max_length {most}, as {by} reads "
            f"them, and are cut: the median has {median(lengths):.0f}, the longest of a sample {max(lengths)}"
        )
    if (unknown := max(share for _, share in read)) >= LEAST:
        found.append(
            f"about {unknown:.0%} of the tokens of {task.name} are unknown to the tokenizer of {by}: another may know "
            "them, as --teacher minilm (harness list teachers)"
        )
    if masked and (without := sum(reader.mask_token is None for reader in readers)):
        who = by if without == len(readers) else f"{without} of the {len(readers)} members of {by}"
        found.append(
            f"the masked words of {task.name} are read as the letters {MASK} by {who}, for want of a mask token: "
            "encoders such as BERT have one"
        )
    return found


def _read(reader: Any, texts: Sequence[tuple[str, ...]]) -> tuple[list[int], float]:
    """(tokens of each text; the share of unknown ones among all but the special tokens)."""
    given = [list(part) for part in zip(*texts, strict=True)]
    rows = reader(*given, truncation=False, padding=False, verbose=False)["input_ids"]
    # Of byte-pair encodings it may be what ends a text: then there is nothing that they do not know.
    unk = reader.unk_token_id
    unk = None if unk in (reader.bos_token_id, reader.eos_token_id, reader.pad_token_id) else unk
    special = {*reader.all_special_ids} - {unk}  # which a tokenizer works out anew each time it is asked
    words = [token for row in rows for token in row if token not in special]
    unknown = sum(token == unk for token in words)
    return [len(row) for row in rows], unknown / max(1, len(words))
