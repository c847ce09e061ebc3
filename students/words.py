"""What the LSTM students share: words as vectors, in one channel or two, and LSTMs that never read padding."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from transformers import PreTrainedTokenizerBase

from harness.contracts import Batch, Encoding, Hyperparameter, LayerMap, ModelInfo, Recipe, Task, rates
from harness.errors import UserError
from harness.modeling import word_vectors
from harness.modeling.bases import LoadTeacher, Student, StudentConfig
from harness.modeling.word_tokenizer import word_level
from harness.students import pairs

CHANNELS = {"trained": 1, "frozen_and_trained": 2}
WIDEST = 1024  # input of an LSTM for which oneDNN's kernel trains faster than packed sequences do
RANGE = 0.25  # of a random start, uniform in +-RANGE: near the variance of word2vec's vectors, as Kim (2014)
VOCABULARY = Hyperparameter("words", choices=("words", "teacher"), says="whose tokens it reads; words: its own")
SETTINGS = {
    "embedding_size": Hyperparameter(300, low=1, says="numbers of a word's vector"),
    "channels": Hyperparameter(
        "trained", choices=tuple(CHANNELS), says="frozen_and_trained: beside the word vectors, the same as they start"
    ),
    "vocabulary": VOCABULARY,
    "vocabulary_size": Hyperparameter(
        50_000, low=0, says="of words of its own, so many of the commonest in the training texts; 0: all"
    ),
}


def lstm_operations(width: int, hidden: int) -> int:
    """Multiplications of a step of an LSTM in both directions, from inputs of this width."""
    return 2 * 4 * hidden * (width + hidden)


class WordEmbedding(nn.Module):
    """A vector for each word. Padding's is zero, and is never trained.

    channels: "trained", or "frozen_and_trained", two copies of the same vectors of which one is never trained, side by
    side (liu2020, section 3.4.1, after Kim 2014).
    """

    def __init__(self, words: int, padding: int, size: int, channels: str):
        super().__init__()
        self.padding, self.width = padding, CHANNELS[channels] * size
        self.trained = nn.Embedding(words, size, padding_idx=padding, sparse=True)  # a batch uses few of the rows
        with torch.no_grad():
            self.trained.weight.uniform_(-RANGE, RANGE)[padding] = 0.0
        frozen = self.trained.weight.detach().clone() if channels == "frozen_and_trained" else None
        self.register_buffer("frozen", frozen)
        self.frozen: Tensor | None

    def load(self, path: Path, tokenizer: PreTrainedTokenizerBase) -> dict[str, Any]:
        """Fill, in each channel, the rows of the tokenizer's words that a file of vectors holds, except padding's.

        The others keep their random start, the same in both channels. Returns how many were found and their share of
        the vocabulary. Raises UserError as `word_vectors.read`, also for vectors of another size.
        """
        table = self.trained.weight
        words = tokenizer.convert_ids_to_tokens(list(range(min(len(tokenizer), len(table)))))
        rows, found = word_vectors.read(path, words, table.size(1))
        found[self.padding : self.padding + 1] = False
        with torch.no_grad():
            for channel in (table, self.frozen):
                if channel is not None:
                    channel[: len(words)][found] = rows[found].to(channel)
        count = int(found.sum())
        return {"coverage": count / len(table), "vectors_found": count, "filled": "vectors"}

    def forward(self, encoding: Encoding) -> tuple[Tensor, Tensor]:
        """The words of padded sequences, (B, L, width), and the sequences' lengths, (B,) on the CPU.

        L is the longest length, at least 1: a text without tokens is read as one padding token.
        """
        mask = encoding["attention_mask"]
        lengths = encoding.lengths.clamp(min=1)
        ids = encoding["input_ids"].masked_fill(mask == 0, self.padding)
        if not torch.onnx.is_in_onnx_export():  # whose graphs hold no number that follows from the lengths
            ids = F.pad(ids, (0, 1), value=self.padding)[:, : int(lengths.max())]
        words = self.trained(ids)
        return (words if self.frozen is None else torch.cat([F.embedding(ids, self.frozen), words], 2)), lengths


def run(lstm: nn.LSTM, inputs: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """A bidirectional LSTM over sequences (B, L, W) of these lengths; what is past a sequence's end is not read.

    Returns every state, (B, L, 2h), zero past the end, and the last state of each direction, (B, 2h).
    """
    in_float32 = inputs.dtype == torch.float32 and not torch.is_autocast_enabled("cpu")  # others need instructions
    if inputs.device.type == "cpu" and in_float32 and torch.is_grad_enabled() and lstm.input_size <= WIDEST:
        return _in_one_piece(lstm, inputs, lengths)
    packed = pack_padded_sequence(inputs, lengths, batch_first=True, enforce_sorted=False)
    found, (last, _) = lstm(packed)
    states = pad_packed_sequence(found, batch_first=True)[0]
    if torch.onnx.is_in_onnx_export():  # which knows packed sequences only where every state is used
        ends = (lengths - 1).view(-1, 1, 1).expand(-1, 1, states.size(2))
        forwards, backwards = states.gather(1, ends)[:, 0], states[:, 0]  # (B, 2h)
        return states, torch.cat([forwards[:, : lstm.hidden_size], backwards[:, lstm.hidden_size :]], 1)
    return states, last.transpose(0, 1).flatten(1)  # (2, B, h) -> (B, 2h)


def _in_one_piece(lstm: nn.LSTM, inputs: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """`run`, equal to 2e-7, by oneDNN's kernel, which takes no packed sequences: each text is turned by its own length.

    A step of training, one thread, time of packed sequences over this: 1.2 to 2.3 at widths of 24 and 48, 1.0 to 1.3 at
    150, 1.2 to 1.5 at 256 and 300; 0.8 to 0.9 where 1,536 numbers are read, and in inference from 150 on 0.7 to 1.1.
    """
    inputs = inputs[:, : int(lengths.max())]
    positions = torch.arange(inputs.size(1))
    inside = positions < lengths[:, None]  # (B, L)
    turned = torch.where(inside, lengths[:, None] - 1 - positions, positions)[..., None]  # (B, L, 1)
    start = inputs.new_zeros(1, len(inputs), lstm.hidden_size)
    found, ends = [], []
    for suffix, given in (("", inputs), ("_reverse", inputs.gather(1, turned.expand_as(inputs)))):
        weights = [getattr(lstm, f"{name}_l0{suffix}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
        states = torch.lstm(given, (start, start), weights, True, 1, 0.0, lstm.training, False, True)[0]  # (B, L, h)
        ends.append(states[torch.arange(len(states)), lengths - 1])
        found.append(states)
    found[1] = found[1].gather(1, turned.expand_as(found[1]))
    return torch.cat(found, 2).masked_fill(~inside[..., None], 0.0), torch.cat(ends, 1)


class WordStudent(Student):
    """A student that reads word vectors, with the settings SETTINGS among its own.

    not_of_pairs: what it does not emit of a pair, by the reason.
    """

    not_of_pairs: ClassVar[Mapping[str, str]] = dict.fromkeys(("embeddings", "hidden_states"), pairs.APART)
    autocasts = False

    def __init__(self, config: StudentConfig):
        super().__init__(config)
        self.own = self.checked(config.settings)
        words = config.vocabulary or config.source.get("vocab_size")
        padding = 0 if config.vocabulary else config.source.get("pad_token_id")
        if words is None or padding is None:
            raise UserError(f"{self.name} needs the teacher's vocab_size and pad_token_id; it lacks one of them")
        self.embedding = WordEmbedding(words, padding, self.own["embedding_size"], self.own["channels"])

    def _init_weights(self, module: nn.Module) -> None:
        """Everything starts as it was constructed."""

    @classmethod
    def sentence_width(cls, own: Mapping[str, Any], teacher: int) -> int:
        """Width of the sentence vector with these settings, from a teacher of this width."""
        raise TypeError(f"student {cls.name} has no sentence_width")

    @classmethod
    def operations(cls, own: Mapping[str, Any]) -> int:
        """Multiplications that reading a word takes with these settings."""
        raise TypeError(f"student {cls.name} has no operations")

    @classmethod
    def describe(cls, settings: Mapping[str, Any], teacher: ModelInfo, task: Task) -> ModelInfo:
        own = cls.checked(settings)
        words, lacks = own["vocabulary"] == "words", {**cls.not_of_pairs} if task.pair else {}
        own_words = f"it has its own words, not the teacher's tokens: --set {cls.name}.vocabulary=teacher"
        lacks |= {"hidden_states": own_words} if words else {}
        return ModelInfo(
            name=cls.name,
            layers=1,
            width=cls.sentence_width(own, teacher.width),
            embedding_width=CHANNELS[own["channels"]] * own["embedding_size"],
            operations=cls.operations(own),
            heads=0,
            vocabulary=0 if words else teacher.vocabulary,
            labels=task.outputs,
            emits=cls.emits - {*lacks},
            lacks={signal: why for signal, why in lacks.items() if signal in cls.emits},
            tokenizer="words" if words else teacher.tokenizer,
            pair_encoding=cls.pair_encodings[0] if task.pair else "joint",
        )

    def at_tokens(self, batch: Batch, vectors: Tensor) -> Tensor:
        """What a batch of single texts has for each token, zero at padding: (B, at most L, D) -> (B, L, D)."""
        if len(batch.encodings) > 1:
            raise UserError(f"{self.name} reads the two sentences of a pair apart: a pair has no one row of tokens")
        whole = F.pad(vectors, (0, 0, 0, batch.mask.size(1) - vectors.size(1)))
        return whole.masked_fill(~batch.mask.unsqueeze(2), 0.0)

    @classmethod
    def recipe(cls, teacher: ModelInfo) -> Recipe:
        """Adam at a constant rate about that of wu2020 (4.3) and liu2020 (4.3.2), or above; epochs are ours."""
        settings = {"epochs": 15, "schedule": "constant", "warmup_ratio": 0.0, "weight_decay": 0.0}
        return Recipe("random", settings, {"learning_rate": rates(5e-4, 5e-3)})

    @classmethod
    def idle(cls, settings: Mapping[str, Any]) -> frozenset[str]:
        return frozenset({"vocabulary_size"}) if cls.checked(settings)["vocabulary"] == "teacher" else frozenset()

    @classmethod
    def tokenizer(
        cls, settings: Mapping[str, Any], teacher: PreTrainedTokenizerBase, texts: Iterable[str]
    ) -> PreTrainedTokenizerBase:
        own = cls.checked(settings)
        return word_level(texts, own["vocabulary_size"]) if own["vocabulary"] == "words" else teacher

    @classmethod
    def canonical_init(cls, init: str) -> str:
        return word_vectors.canonical_init(cls.name, init)

    @classmethod
    def refuse_init(cls, init: str, settings: Mapping[str, Any]) -> str:
        own, (kind, _, file) = cls.checked(settings), init.partition(":")
        if init == "random" and own["channels"] == "frozen_and_trained":
            return f"{cls.name} with a frozen channel needs word vectors to freeze: start it from vectors:FILE"
        if kind == "vectors" and (width := word_vectors.width_of(Path(file))) != own["embedding_size"]:
            return f"{file} holds vectors of {width} numbers, but {cls.name}.embedding_size is {own['embedding_size']}"
        return ""

    @classmethod
    def layer_map(cls, init: str, student: ModelInfo, teacher: ModelInfo) -> LayerMap:
        cls.canonical_init(init)
        return LayerMap(((1, teacher.layers),))

    def initialise(self, init: str, teacher: LoadTeacher, tokenizer: PreTrainedTokenizerBase) -> dict[str, Any]:
        """vectors:FILE is read by `WordEmbedding.load`, which tells what is recorded."""
        init = self.canonical_init(init)
        return {} if init == "random" else self.embedding.load(Path(init.partition(":")[2]), tokenizer)
