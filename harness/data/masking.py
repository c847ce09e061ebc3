"""The pieces of a corpus as batches; masked text has some tokens to predict (Devlin et al., 2019, section 3.1)."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from harness.batch import onto, positions
from harness.contracts import IGNORED, Batch, Encoding
from harness.data.corpora import Corpus
from harness.errors import UserError
from harness.seeds import derive_seed


class CorpusText:
    """N pieces of a corpus, as batches for models of the tokenizer that read them."""

    def __init__(self, corpus: Corpus, tokenizer: PreTrainedTokenizerBase):
        self.corpus = corpus
        self.padding: int = tokenizer.pad_token_id or 0
        self.separator = tokenizer.sep_token_id
        self.segments = "token_type_ids" in tokenizer.model_input_names
        self.pairs = corpus.pairs and self.segments and 1 in tokenizer("a", "a")["token_type_ids"]

    def __len__(self) -> int:
        return len(self.corpus)

    @property
    def lengths(self) -> Tensor:
        """(N,) int64 tokens of each piece"""
        return self.corpus.lengths

    def padded(self, index: Tensor) -> tuple[np.ndarray, np.ndarray]:
        """(tokens (B, L) int64, where they are real (B, L) bool) of these pieces, padded to the longest."""
        pieces = [self.corpus.piece(i) for i in index.tolist()]
        lengths = np.array([*map(len, pieces)])
        real = np.arange(lengths.max()) < lengths[:, None]
        tokens = np.full(real.shape, self.padding, np.int64)
        tokens[real] = np.concatenate(pieces)
        return tokens, real

    def encoding(self, tokens: np.ndarray, real: np.ndarray, device: torch.device | None) -> Encoding:
        """What a model reads, on the device. tokens, real: (B, L) each, as `padded` has them."""
        arrays = {"input_ids": tokens, "attention_mask": real.astype(np.int64)}
        if self.segments:
            separators = tokens == self.separator
            before = separators.cumsum(1) - separators  # (B, L) separators before each token
            arrays["token_type_ids"] = (self.pairs & real & (before > 0)).astype(np.int64)
        on_device = {name: onto(torch.from_numpy(array), device) for name, array in arrays.items()}
        return Encoding(on_device, torch.from_numpy(real.sum(1)))


class MaskedText(CorpusText):
    """N pieces of a corpus, masked anew in every epoch.

    A token is chosen with the given probability, a special one never, and in every piece at least one. Of the chosen,
    80% become the mask token, 10% a random ordinary token, 10% stay. All this is decided by the corpus's content, the
    epoch and the piece alone: whatever the batch, the order, the process or the student, the same epoch masks a piece
    the same.
    """

    def __init__(self, corpus: Corpus, tokenizer: PreTrainedTokenizerBase, probability: float = 0.15):
        """Raises UserError if the tokenizer has no mask token."""
        if tokenizer.mask_token_id is None:
            raise UserError(f"the tokenizer of {tokenizer.name_or_path or 'the model'} has no mask token")
        super().__init__(corpus, tokenizer)
        self.probability = probability
        self.mask_token: int = tokenizer.mask_token_id
        self.is_ordinary = np.ones(len(tokenizer), bool)
        self.is_ordinary[tokenizer.all_special_ids] = False
        self.ordinary = np.flatnonzero(self.is_ordinary)

    def batch(self, index: Tensor, device: torch.device | None = None, epoch: int = 0) -> Batch:
        """These pieces as `epoch` masks them, padded to the longest. index: (B,), which are also the batch's ids."""
        seed = derive_seed("masking", self.corpus.content, epoch)
        tokens, real = self.padded(index)
        draws = np.zeros((3, *real.shape))  # in [0, 1): chosen or not, what becomes of it, which random token
        for row, (i, length) in enumerate(zip(index.tolist(), real.sum(1), strict=True)):
            # The piece is the highest word of the counter, so no piece's stream runs into another's.
            generator = np.random.Generator(np.random.Philox(key=seed, counter=[0, 0, 0, i]))
            draws[:, row, :length] = generator.random((3, length))
        choice, fate, which = draws
        allowed = real & self.is_ordinary[tokens]
        choice[~allowed] = 1.0
        chosen = allowed & ((choice < self.probability) | (choice == choice.min(1, keepdims=True)))
        random = self.ordinary[(which * len(self.ordinary)).astype(np.int64)]
        inputs = np.where(chosen & (fate < 0.8), self.mask_token, tokens)
        inputs = np.where(chosen & (fate >= 0.8) & (fate < 0.9), random, inputs)
        targets = onto(torch.from_numpy(np.where(chosen, tokens, IGNORED)), device)
        return Batch(
            index,
            torch.zeros(len(index), device=device),
            (self.encoding(inputs, real, device),),
            targets,
            known_positions=(targets, onto(positions(torch.from_numpy(chosen)), device)),
        )
