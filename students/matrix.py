"""Students that embed words as vectors (CBOW), matrices (CMOW) or both, read in one or both directions (galke2022)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import nn
from transformers import PreTrainedTokenizerBase

from harness.contracts import (
    Batch,
    Hyperparameter,
    LayerMap,
    ModelInfo,
    Outputs,
    Recipe,
    Signal,
    Task,
    Want,
    rates,
)
from harness.errors import UserError
from harness.modeling import static_vectors, word_vectors
from harness.modeling.bases import LoadTeacher, Student, StudentConfig
from harness.registry import student
from harness.students import heads, pairs, products
from harness.students.matrix_embedding import MatrixEmbedding, filled_by, misfit, widths, word_sizes

SETTINGS = {
    "embedding_dropout": Hyperparameter(0.1, low=0.0, high=0.9, says="of words, as they are looked up"),
    "hidden_dropout": Hyperparameter(0.2, low=0.0, high=0.9, says="of what the head reads"),
    "head": Hyperparameter("mlp", choices=heads.HEADS, says="what answers from the vector of a text"),
}
LOOK_UP = 300  # multiplications that take as long as it takes to look a number up in a table, and to update it
PRODUCT = {"product": Hyperparameter("auto", choices=products.FORMS, says="order in which matrices are multiplied")}
VECTORS = {"vectors": Hyperparameter("trained", choices=("trained", "frozen"), says="of words; frozen: as they start")}
VECTOR_SIZE = Hyperparameter(400, low=1, says="numbers of a word's vector")
MATRIX_SIZE = Hyperparameter(20, low=1, says="rows, and columns, of a word's matrix")


class MatrixStudent(Student):
    """What the four have in common; directions is how many products are taken.

    Raises FloatingPointError where a long product overflows or vanishes: see `students.products`, also for 512 tokens.
    """

    directions: ClassVar[int]

    def __init__(self, config: StudentConfig):
        super().__init__(config)
        words, padding = config.source.get("vocab_size"), config.source.get("pad_token_id")
        own = self.checked(config.settings)
        shape = own.get("vector_size", 0), own.get("matrix_size", 0), self.directions
        self.embedding = MatrixEmbedding(words, padding, *shape, own["embedding_dropout"], own.get("product", "auto"))
        self.dropout = nn.Dropout(own["hidden_dropout"])
        self.pair_encoding, self.reads_tokens = own["pair_encoding"], own["head"] == "bilstm"
        sentence, state = widths(*shape)
        parts = (state if self.reads_tokens else sentence) * pairs.PARTS[self.pair_encoding]
        self.head: nn.Module = (
            heads.build(own["head"], parts, config.outputs)
            if config.outputs
            else nn.Linear(sum(state), self.embedding.words)  # predicts masked tokens
        )
        self.post_init()
        if self.embedding.vectors is not None:
            self.embedding.vectors.requires_grad_(own["vectors"] == "trained")

    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, nn.Embedding):  # heads start as torch makes them
            self.embedding.initialise(module)

    @classmethod
    def describe(cls, settings: Mapping[str, Any], teacher: ModelInfo, task: Task) -> ModelInfo:
        own = cls.checked(settings)
        sentence, state = widths(own.get("vector_size", 0), own.get("matrix_size", 0), cls.directions)
        if task.outputs:
            heads.check(own["head"], sentence)
        apart = task.pair and own["pair_encoding"] != "joint"
        unread = {Signal.SENTENCE.value, Signal.EMBEDDINGS.value, Signal.HIDDEN_STATES.value} if apart else set()
        return ModelInfo(
            name=cls.name,
            layers=1,
            width=sum(state),
            heads=0,
            vocabulary=teacher.vocabulary,
            labels=task.outputs,
            emits=cls.emits - unread,
            lacks=dict.fromkeys(unread, pairs.APART),
            tokenizer=teacher.tokenizer,
            pair_encoding=own["pair_encoding"] if task.pair else "joint",
            sentence_width=sum(sentence),
            operations=LOOK_UP * sum(state) + cls.directions * own.get("matrix_size", 0) ** 3,
            first_token_sees_all=cls.directions == 2,
        )

    @classmethod
    def recipe(cls, teacher: ModelInfo) -> Recipe:
        """No warm-up (galke2022, appendix B); rates from about the largest of its Table VI on, and epochs, are ours."""
        return Recipe("random", {"epochs": 15, "warmup_ratio": 0.0}, {"learning_rate": rates(1e-3, 2e-2)})

    @classmethod
    def canonical_init(cls, init: str) -> str:
        others = (static_vectors.INIT,) if "vector_size" in cls.hyperparameters else ()
        return word_vectors.canonical_init(cls.name, init, others)

    @classmethod
    def refuse_init(cls, init: str, settings: Mapping[str, Any]) -> str:
        kind, _, file = init.partition(":")
        own, path, filled = cls.checked(settings), Path(file), ""
        if kind == "vectors":
            sizes = word_sizes(own.get("vector_size", 0), own.get("matrix_size", 0), cls.directions)
            filled = filled_by(word_vectors.width_of(path), sizes)
            if not filled:
                return misfit(path, sizes)
        if own.get("vectors") == "frozen" and init != static_vectors.INIT and filled in ("", "matrices"):
            return f"{cls.name} needs vectors to freeze: start it from {static_vectors.INIT} or vectors:FILE"
        return ""

    @classmethod
    def refuse_teacher(cls, init: str, settings: Mapping[str, Any], teacher: ModelInfo) -> str:
        if init != static_vectors.INIT:
            return ""
        refused = static_vectors.refusal(cls.checked(settings)["vector_size"], teacher)
        return refused and f"{cls.name} cannot start from {init}: {refused}"

    @classmethod
    def layer_map(cls, init: str, student: ModelInfo, teacher: ModelInfo) -> LayerMap:
        cls.canonical_init(init)
        return LayerMap(((1, teacher.layers),))  # its only layer learns from the last

    def initialise(self, init: str, teacher: LoadTeacher, tokenizer: PreTrainedTokenizerBase) -> dict[str, Any]:
        """A file is read by `MatrixEmbedding.load` or `load_static`, which tell what is recorded."""
        kind, _, file = init.partition(":")
        if kind == "static":
            return self.embedding.load_static(Path(file))
        return {} if self.canonical_init(init) == "random" else self.embedding.load(Path(file), tokenizer)

    def forward(self, batch: Batch, want: Want) -> Outputs:
        if not want.hidden_states <= {0, 1}:
            raise UserError(f"{self.name} has hidden_states of layers 0 and 1, not of {max(want.hidden_states)}")
        if len(batch.encodings) > 1 and (want.sentence or want.hidden_states or want.embeddings):
            raise UserError(f"{self.name} reads the two sentences of a pair apart: the pair has no sentence or states")
        ids = [self.embedding.ids(encoding) for encoding in batch.encodings]
        by_token = want.mlm_logits or 1 in want.hidden_states or (want.logits and self.reads_tokens)
        # bfloat16 would round away most of what tells a matrix near the identity from it
        with torch.autocast(ids[0].device.type, enabled=False):
            states = [self.embedding.states(i) for i in ids] if by_token else []
            sentences = [self.embedding.sentence_of(s) for s in states] or [self.embedding.sentence(i) for i in ids]
            alone = self.embedding.alone(ids[0]) if want.embeddings or 0 in want.hidden_states else None
        outputs = Outputs()
        if alone is not None:
            outputs.hidden_states |= {0: alone} if 0 in want.hidden_states else {}
            outputs.embeddings = alone if want.embeddings else outputs.embeddings
        if 1 in want.hidden_states:
            outputs.hidden_states[1] = states[0]
        if want.sentence:
            outputs.sentence = sentences[0]
        if want.mlm_logits and batch.targets is not None:
            outputs.mlm_logits = self.head(self.dropout(states[0].flatten(0, 1)[batch.predicted]))
        if want.logits and self.reads_tokens:
            aligned = pairs.align(states, [encoding["attention_mask"].bool() for encoding in batch.encodings])
            longer = torch.stack([encoding.lengths for encoding in batch.encodings]).amax(0)  # (B,) of a pair
            outputs.logits = self.head(self.dropout(pairs.combine(self.pair_encoding, aligned)), longer)
        elif want.logits:
            outputs.logits = self.head(self.dropout(pairs.combine(self.pair_encoding, sentences)))
        return outputs


SIZES = {"vector_size": VECTOR_SIZE, "matrix_size": MATRIX_SIZE}
HYBRID = SIZES | SETTINGS | PRODUCT | VECTORS
registered = partial(
    student,
    emits={Signal.LOGITS, Signal.SENTENCE, Signal.EMBEDDINGS, Signal.HIDDEN_STATES, Signal.MLM_LOGITS},
    pair_encodings=("joint", "diffcat"),
    head_settings=("head",),
    file_inits=("vectors",),
)


@registered("cbow", hyperparameters={"vector_size": replace(VECTOR_SIZE, default=784)} | SETTINGS | VECTORS)
class CBOW(MatrixStudent):
    """Words as vectors, which are added: a text is the sum of its words, in whatever order."""

    directions = 0


@registered("cmow", hyperparameters={"matrix_size": replace(MATRIX_SIZE, default=28)} | SETTINGS | PRODUCT)
class CMOW(MatrixStudent):
    """Words as matrices, which are multiplied one after another: the order of words counts."""

    directions = 1


@registered("hybrid", hyperparameters=HYBRID)
class Hybrid(MatrixStudent):
    """Words as vectors and as matrices: CBOW's sum beside CMOW's product."""

    directions = 1


@registered("bidirectional_hybrid", hyperparameters=HYBRID)
class BidirectionalHybrid(MatrixStudent):
    """`hybrid` with a second product, of further matrices, of the text read backwards."""

    directions = 2
