"""Table 3 of wu2020: how much each way of training needs of the labelled data, the teacher too."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from harness.contracts import Published, Row, Study, TableRow, TeacherRow, Told
from harness.registry import study
from harness.studies.profiles import FROM_CORPUS, varied
from harness.studies.sra_settings import NOTES, SIZES, SOURCE
from harness.studies.told import WU, WU_KD_TEACHER

REMARKS = (
    *NOTES,
    "The published first line, and the teacher of its KD, is BERT-large, that of SRA BERT-base; ours have one teacher. "
    "As published, the teacher of KD has the same share of the training data.",
)
PERCENTS = (20, 30, 50, 100)
FRACTIONS = varied(SIZES, {"quick": ("sentiment",), "small": ("sst2",), "paper": ("sst2",)}, {"train_examples": 0})


def _rows(kind: Callable[..., TableRow], name: str, label: str, printed: str, **rest: Any) -> tuple[TableRow, ...]:
    """The row with each share of the training data."""
    return tuple(
        kind(
            name=f"{name}_{percent}",
            label=f"{label}, {percent}%",
            published={"row": printed, "train_fraction_percent": str(percent)},
            settings={"train_fraction": percent / 100},
            **rest,
        )
        for percent in PERCENTS
    )


study(
    Study(
        name="sra_data_fraction",
        title="Share of the training data",
        question="Does a student distilled on unlabelled text need fewer labelled examples?",
        procedure="one_stage",
        rows=(
            *_rows(TeacherRow, "teacher", "Teacher", "BERT_LARGE"),
            *_rows(Row, "bilstm", "BiLSTM", "BiLSTM", objective="labels_only"),
            *_rows(Row, "kd", "BiLSTM, KD", "BiLSTM_KD", objective="logit_mse"),
            *_rows(Row, "sra", "BiLSTM, SRA", "BiLSTM_SRA", objective="cosine", procedure="general", mark=FROM_CORPUS),
        ),
        students=("bilstm",),
        general="cosine",
        published=Published(("wu2020_table3_data_fraction.csv",), f"{SOURCE}, Table 3", notes=REMARKS),
        told={**WU, "tasks": Told("sst2", "Table 3"), "teacher": WU_KD_TEACHER},
        # The shipped teacher has read all of the training data.
        profiles=FRACTIONS | {"quick": replace(FRACTIONS["quick"], teacher="embedded:train")},
    )
)
