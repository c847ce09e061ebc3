"""Words as vectors and matrices, sentences as their sums and products (galke2022, section III-A)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase, initialization

from harness.errors import UserError
from harness.modeling import static_vectors, word_vectors
from harness.students import products

NOISE = 0.01  # standard deviation of a random start: the paper's for matrices, ours for vectors


def widths(vector: int, side: int, directions: int) -> tuple[list[int], list[int]]:
    """Widths of the parts of (a sentence vector, a token's state), in order; the arguments are MatrixEmbedding's."""
    vectors, matrices = [vector] * (vector > 0), [side * side] * directions
    return vectors + matrices, (vectors + matrices[:1]) * max(1, directions)


def word_sizes(vector: int, side: int, directions: int) -> list[int]:
    """Widths of the parts of a word, its vector's (0 for none) first; arguments as in `widths`."""
    return [vector, *[side * side] * directions]


def filled_by(width: int, sizes: list[int]) -> str:
    """What rows of this width fill of words of these sizes, the vector's first: "" if nothing."""
    if width == sum(sizes):
        return "whole words"
    if width == sizes[0]:
        return "vectors"
    return "matrices" if width in sizes[1:] else ""


def misfit(path: Path, sizes: list[int]) -> str:
    """The sentence for a file whose rows fill nothing."""
    own = [size for size in sizes if size]
    parts = f"{' + '.join(map(str, own))} = {sum(own)}" if len(own) > 1 else str(sum(own))
    return f"{path} holds rows of {word_vectors.width_of(path)} numbers, but a word of this student has {parts}"


class MatrixEmbedding(nn.Module):
    """Tables of vectors (0 wide: none) and of side x side matrices, one for each direction of reading (0, 1 or 2).

    A sentence is [sum of vectors | product of matrices | product of the second table's, last token first]. The state
    of a token is [sum | product] of the tokens up to it, then, with two directions, of those from the last down to it.
    Padding is a zero vector and the identity, which change neither, and is never trained.

    Dropout takes entries of a vector, but of a matrix entries of its deviation from the identity: one diagonal entry
    lost in every tenth token would leave nothing of the product of a sentence.
    """

    def __init__(
        self,
        words: int | None,
        padding: int | None,
        vector: int,
        side: int,
        directions: int,
        dropout: float,
        product: str,
    ):
        super().__init__()
        if words is None or padding is None:
            raise UserError("matrix embeddings need the teacher's vocab_size and pad_token_id; it lacks one of them")
        self.words, self.padding, self.side, self.dropout, self.product = words, padding, side, dropout, product
        table = partial(nn.Embedding, words, padding_idx=padding, sparse=True)  # a batch uses few of the rows
        self.vectors = table(vector) if vector else None
        self.matrices = nn.ModuleList(table(side * side) for _ in range(directions))
        self.state_widths = widths(vector, side, directions)[1]

    def initialise(self, table: nn.Embedding) -> None:
        """Fill one of the tables with noise around what padding is, unless transformers has just loaded it."""
        start = self._neutral(table) + NOISE * torch.randn_like(table.weight)
        start[self.padding] = self._neutral(table)
        initialization.copy_(table.weight, start)

    def tables(self) -> list[nn.Embedding]:
        """The table of vectors, where there is one, then those of matrices, whose rows are the matrices row by row."""
        return [table for table in (self.vectors, *self.matrices) if isinstance(table, nn.Embedding)]

    def load(self, path: Path, tokenizer: PreTrainedTokenizerBase) -> dict[str, Any]:
        """Fill the rows of the words of the tokenizer that a file of vectors holds, except padding's.

        The file's rows fill what they are as wide as: all of a word, in the order of `tables`, or else its vector, or
        else its matrices. Both directions then start from the same matrices, and differ by the order of the product
        alone. Words that the file lacks keep their random start. Returns how many words were found, their share of
        the vocabulary, and what was filled. Raises UserError if no part is so wide.
        """
        width, tables = word_vectors.width_of(path), self.tables()
        sizes = [table.embedding_dim for table in tables]
        filled = filled_by(width, sizes if self.vectors is not None else [0, *sizes])
        if not filled:
            raise UserError(misfit(path, sizes))
        chosen = {"whole words": tables, "vectors": tables[:1]}.get(filled, tables[self.vectors is not None :])
        words = tokenizer.convert_ids_to_tokens(list(range(min(len(tokenizer), self.words))))
        rows, found = word_vectors.read(path, words, width)
        found[self.padding : self.padding + 1] = False
        columns = rows.split(sizes, 1) if chosen == tables else [rows] * len(chosen)
        with torch.no_grad():
            for table, part in zip(chosen, columns, strict=True):
                table.weight[: len(words)][found] = part[found]
        return {"coverage": int(found.sum()) / self.words, "vectors_found": int(found.sum()), "filled": filled}

    def load_static(self, path: Path) -> dict[str, Any]:
        """Fill the vectors with the teacher's static ones, except padding's; of entries without any they stay random.

        Returns as `load`, and the share of the variance of the teacher's that the student's width keeps.
        """
        table = self.tables()[0]
        rows, given, share = static_vectors.read(path, table.embedding_dim, self.words)
        given[self.padding] = False
        with torch.no_grad():
            table.weight[given] = rows[given]
        number = int(given.sum())
        return {"coverage": number / self.words, "vectors_found": number, "filled": "vectors", "variance": share}

    def ids(self, encoding: Mapping[str, Tensor]) -> Tensor:
        """(B, L) token ids, padding wherever the attention mask says so."""
        return encoding["input_ids"].masked_fill(encoding["attention_mask"] == 0, self.padding)

    def sentence(self, ids: Tensor) -> Tensor:
        """(B, L) token ids -> (B, D); the prefixes are not computed. Raises as `products.check`."""
        form = products.choose(self.product, ids.device)
        parts = [] if self.vectors is None else [self._sum(self.vectors, ids)]
        for direction, table in enumerate(self.tables()[len(parts) :]):
            look, order = partial(self._look, table), ids.flip(1) if direction else ids
            matrices = map(look, order.unbind(1)) if self._step_by_step(form) else look(order)
            parts.append(products.product(matrices, form).flatten(1))  # (B, n, n) -> (B, n * n)
        sentence = torch.cat(parts, 1)
        return self._checked(sentence, sentence, ids)

    def states(self, ids: Tensor) -> Tensor:
        """(B, L) token ids -> (B, L, W), the state of every token in its place. Raises as `products.check`."""
        form = products.choose(self.product, ids.device)
        if self._step_by_step(form):
            states = self._states_step_by_step(ids)
        else:
            words, parts = {table: self._look(table, ids) for table in self.tables()}, []
            for table, backwards in self._parts():
                found = words[table].flip(1) if backwards else words[table]
                part = _sums(found) if table is self.vectors else products.prefixes(found, form).flatten(2)
                parts.append(part.flip(1) if backwards else part)
            states = torch.cat(parts, 2)
        return self._checked(states, self.sentence_of(states), ids)

    def alone(self, ids: Tensor) -> Tensor:
        """(B, L) token ids -> (B, L, W), the states as if every token stood alone."""
        words = {table: self._look(table, ids).flatten(2) for table in self.tables()}
        return torch.cat([words[table] for table, _ in self._parts()], 2)

    def sentence_of(self, states: Tensor) -> Tensor:
        """The sentence vectors (B, D) that the states (B, L, W) of the tokens hold."""
        parts = zip(self._parts(), states.split(self.state_widths, 2), strict=True)
        ends = [part[:, 0 if back else -1] for (table, back), part in parts if not (back and table is self.vectors)]
        return torch.cat(ends, 1)

    def _parts(self) -> list[tuple[nn.Embedding, bool]]:
        """(table, whether it is read backwards) of each part of a token's state."""
        vectors, turns = self.tables()[: self.vectors is not None], range(max(1, len(self.matrices)))
        return [(table, turn == 1) for turn in turns for table in [*vectors, *self.matrices[turn : turn + 1]]]

    def _step_by_step(self, form: str) -> bool:
        """Whether to look up position by position: what is looked up then never leaves the processor's cache.

        Not with a gradient, of which every look-up in a table would give a part of its own, to be added up.
        """
        return form == "sequential" and not torch.is_grad_enabled()

    def _states_step_by_step(self, ids: Tensor) -> Tensor:
        states = self.tables()[0].weight.new_empty(*ids.shape, sum(self.state_widths))
        for (table, back), part in zip(self._parts(), states.split(self.state_widths, 2), strict=True):
            places = range(ids.size(1))[:: -1 if back else 1]
            words = (self._look(table, ids[:, place]) for place in places)
            running = accumulate(words, torch.add if table is self.vectors else torch.bmm)
            for place, state in zip(places, running, strict=True):
                part[:, place] = state.flatten(1)
        return states

    def _look(self, table: nn.Embedding, ids: Tensor) -> Tensor:
        """(...) token ids -> (..., v) vectors or (..., n, n) matrices, with dropout."""
        found, rate = table(ids), self.dropout if self.training else 0.0
        if table is self.vectors:
            return F.dropout(found, rate) if rate else found
        if rate:
            identity = self._neutral(table)
            found = identity + F.dropout(found - identity, rate)
        return found.unflatten(-1, (self.side, self.side))

    def _sum(self, table: nn.Embedding, ids: Tensor) -> Tensor:
        """(B, L) token ids -> (B, v)"""
        if (self.training and self.dropout) or torch.onnx.is_in_onnx_export():
            return self._look(table, ids).sum(1)
        return F.embedding_bag(ids, table.weight, mode="sum", sparse=table.sparse, padding_idx=self.padding)

    def _neutral(self, table: nn.Embedding) -> Tensor:
        """The row of padding."""
        if table is self.vectors:
            return torch.zeros_like(table.weight[0])
        return torch.eye(self.side, dtype=table.weight.dtype, device=table.weight.device).flatten()

    def _checked(self, found: Tensor, sentence: Tensor, ids: Tensor) -> Tensor:
        """What was found, (B, ...), if the products among the sentence vectors (B, D) can be computed with."""
        if not self.matrices:
            return found
        directions, size = len(self.matrices), self.side**2
        # (B, D) -> (B * directions, n * n): either product alone may overflow or vanish
        factor = products.check(sentence[:, -directions * size :].reshape(-1, size), ids.size(1))
        if factor is None:
            return found
        return found * factor.view(-1, directions).prod(1).view(-1, *(1,) * (found.ndim - 1))


def _sums(vectors: Tensor) -> Tensor:
    """(B, L, D) -> (B, L, D), of each prefix. A GPU's cumsum does not give the same numbers twice."""
    if vectors.device.type == "cpu":
        return vectors.cumsum(1)
    length = vectors.size(1)
    return torch.ones(length, length, dtype=vectors.dtype, device=vectors.device).tril() @ vectors
