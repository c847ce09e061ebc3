"""Every objective of the four works, and their sums, against every student of the four works.

None of the works compares across families. So a family starts, is trained and is searched here as it declares for
itself (`Student.recipe`), over ranges that are alike for all objectives, and every cell has the same number of trials.
Of a student all objectives see the same settings where these are drawn at random: they differ by the pair alone.

`pair_cosine` stands in no row: it compares sentences that a student reads apart with those that the teacher read apart,
and this teacher reads a pair as one. The two general ways distil on a corpus: MLM-KD (galke2022) and SRA (wu2020).
"""

from dataclasses import replace
from typing import Any

from harness.contracts import Row, Study
from harness.registry import study
from harness.studies.objectives_vs_init import OF_LAYERS
from harness.studies.profiles import FROM_CORPUS, PAPER, QUICK, SMALL, of

LAST_STAGE = "the prediction stage alone, half the epochs of the rows with two stages"
ROWS = (
    Row("labels_only", "labels_only", "Labels only", mark=f"no teacher; {LAST_STAGE}"),
    Row("vanilla_kd", "vanilla_kd", "Vanilla KD", mark=LAST_STAGE),
    Row("vanilla_kd_equal_epochs", "vanilla_kd", "Vanilla KD (equal epochs)", equal_epochs=True),
    Row("logit_mse", "logit_mse", "Logit-MSE", mark=LAST_STAGE),
    Row("cosine", "cosine", "Cosine"),
    Row("hid_cls_contrast", "hid_cls_contrast", "Hid-CLS-Contrast"),
    *(replace(row, published="") for row in OF_LAYERS),
    Row("mlm_kd", "mlm_kd", "MLM-KD, general", mark=FROM_CORPUS, procedure="general"),
    Row(
        "sra",
        "cosine",
        "Cosine SRA, general",
        mark=FROM_CORPUS,
        procedure="general",
        settings={"general.text": "sentences"},
    ),
)
LSTMS, MATRICES = ("bilstm", "biattentive_lstm"), ("cbow", "cmow", "hybrid", "bidirectional_hybrid")


def _students(layers: tuple[int, ...], averaged: int) -> tuple[str, ...]:
    """layers: how many the transformers have; averaged: the averaged one."""
    return (*(f"transformer:layers={n}" for n in layers), *LSTMS, f"averaged_transformer:layers={averaged}", *MATRICES)


def _sizes(hidden: int, head: int, embedding: int, matrix: int, vector: int) -> dict[str, Any]:
    """hidden: of each direction of the BiLSTM; half of it in each LSTM of the bi-attentive one, which has three."""
    lstm = {"hidden_units": hidden, "head_units": head, "embedding_size": embedding}
    settings = {**of("bilstm", lstm), **of("biattentive_lstm", lstm), "averaged_transformer.head_units": head}
    settings["biattentive_lstm.hidden_units"] = hidden // 2
    settings |= {"biattentive_lstm.projection_units": embedding, "bilstm.projection": "teacher_width"}
    for name in MATRICES:
        settings |= of(name, matrix_size=matrix) if name != "cbow" else {}
        settings |= of(name, vector_size=vector) if name != "cmow" else {}
    return settings


FREE: dict[str, Any] = {"inits": (), "families": True}
study(
    Study(
        name="objectives_vs_students",
        title="Distillation objectives against students",
        question="Which objective distils which student best, each family started, trained and searched in its own "
        "way?",
        procedure="two_stage",
        rows=ROWS,
        students=_students((3, 6), averaged=3),
        layout="matrix",
        relative_to="vanilla_kd_equal_epochs",
        metrics={"mrpc": ("f1", "accuracy"), "cola": ("matthews", "accuracy"), "qqp": "accuracy"},
        profiles={
            "quick": replace(
                QUICK,
                **FREE,
                tasks=("sentiment",),  # `--tasks sentiment similarity` takes twice as long
                students=_students((1, 2), averaged=2),
                trials=4,
                seeds=2,
                sampler="random",
                settings=(
                    _sizes(48, 32, 48, 8, 64)
                    | of("student", embedding_dropout=0.0, hidden_dropout=0.1)
                    | {"batch_size": 32, "max_length": 32, "train_examples": 800}
                    | of("general", epochs=1, pieces=3000, max_length=32, learning_rate=2e-3)
                ),
                corpus="embedded",
            ),
            "small": replace(
                SMALL,
                **FREE,
                tasks=("rte", "mrpc", "sst2"),
                trials=8,
                seeds=2,
                settings=(
                    _sizes(150, 200, 300, 20, 400)
                    | {"train_examples": 1000}
                    | of("general", epochs=1, learning_rate=5e-4, max_length=64)
                ),
                corpus="pydoc",
            ),
            "paper": replace(
                PAPER,
                **FREE,
                tasks=("sst2", "qqp", "mnli", "mrpc", "rte", "cola", "stsb"),
                trials=16,
                seeds=4,
                settings={"protocol": "published", "bilstm.projection": "teacher_width"}
                | of("general", learning_rate=5e-4, batch_size=128, pack=True),
                corpus="hub:wikipedia+hub:bookcorpus",
            ),
        },
    )
)
