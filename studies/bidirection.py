"""Table II of galke2022: reading in both directions against reading forward."""

from harness.contracts import Published, Row, Study
from harness.registry import study
from harness.studies.matrix_settings import MLP, NOTES, SIZES, SOURCE
from harness.studies.told import GALKE


def _row(name: str, label: str, printed: str) -> Row:
    return Row(name, "vanilla_kd", label, printed, student=name, init="random", settings=MLP)


study(
    Study(
        name="bidirection",
        title="Bidirectional matrix embeddings",
        question="Does a second product of matrices, in reverse order, help?",
        procedure="one_stage",
        rows=(
            _row("hybrid", "Hybrid, random", "Hybrid, rand. init."),
            _row("bidirectional_hybrid", "Bidirectional hybrid, random", "Bidirectional Hybrid, rand. init."),
        ),
        students=("hybrid", "bidirectional_hybrid"),
        published=Published(("galke2022_table02_bidirectional.csv",), f"{SOURCE}, Table II", notes=NOTES),
        told=GALKE,
        profiles=SIZES,
    )
)
