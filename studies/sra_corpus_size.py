"""Table 4 of wu2020: how much unlabelled text the distillation needs. The paper's corpora have 1, 2 and 4 million."""

from harness.contracts import GainRow, Published, Row, Study, Told
from harness.registry import study
from harness.studies.profiles import FROM_CORPUS, varied
from harness.studies.sra_settings import METRICS, NOTES, SIZES, SOURCE
from harness.studies.told import WU

REMARKS = (
    *NOTES,
    "The plain BiLSTM has 70.8 on MNLI-m in Table 1 and 70.23 here. The text calls the scores proportional to the "
    "loss; they rise as it falls.",
)
WITH_LOSS = ("accuracy", "distillation_loss")


def _row(name: str, label: str, published: str, fraction: float) -> Row:
    settings = {"general.fraction": fraction}
    return Row(name, "cosine", label, published, procedure="general", settings=settings, mark=FROM_CORPUS)


def _gain(name: str, label: str, published: str) -> GainRow:
    return GainRow(f"{name}_gain", f"Gain of {label}", (name, "none"), published)


study(
    Study(
        name="sra_corpus_size",
        title="Size of the corpus",
        question="How much unlabelled text does the distillation of sentence vectors need?",
        procedure="one_stage",
        rows=(
            Row("none", "labels_only", "No distillation", "0M"),
            _row("quarter", "A quarter of the sentences", "1M", 0.25),
            _row("half", "Half of the sentences", "2M", 0.5),
            _row("all", "All sentences", "4M", 1.0),
            _gain("quarter", "a quarter", "1M"),
            _gain("half", "half", "2M"),
            _gain("all", "all sentences", "4M"),
        ),
        students=("bilstm",),
        metrics={"sentiment": WITH_LOSS, "sst2": WITH_LOSS, "mnli": METRICS["mnli"][0]},
        general="cosine",
        published=Published(("wu2020_table4_distillation_data_size.csv",), f"{SOURCE}, Table 4", notes=REMARKS),
        told={**WU, "tasks": Told(("sst2", "mnli"), "Table 4")},
        profiles=varied(SIZES, {"paper": ("sst2", "mnli")}),
    )
)
