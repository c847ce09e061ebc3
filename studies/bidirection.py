"""Table II of galke2022: reading in both directions against reading forward."""

from harness.contracts import Published, Row, Study
from harness.registry import study
from studies.matrix_settings import NOTES, profiles
from studies.told import GALKE

HEAD = {"student.head": "mlp", "student.pair_encoding": "diffcat"}

study(
    Study(
        name="bidirection",
        title="Bidirectional matrix embeddings",
        question="Does a second product of matrices, in reverse order, help?",
        procedure="one_stage",
        rows=(
            Row(
                "hybrid",
                "vanilla_kd",
                "Hybrid, random",
                published="Hybrid, rand. init.",
                student="hybrid",
                init="random",
                settings=HEAD,
            ),
            Row(
                "bidirectional_hybrid",
                "vanilla_kd",
                "Bidirectional hybrid, random",
                published="Bidirectional Hybrid, rand. init.",
                student="bidirectional_hybrid",
                init="random",
                settings=HEAD,
            ),
        ),
        students=("hybrid", "bidirectional_hybrid"),
        published=Published(
            files=("galke2022_table02_bidirectional.csv",),
            source="Galke et al., Matrix Embeddings, Table II",
            row_column="row",
            notes=NOTES,
        ),
        told=GALKE,
        profiles=profiles(),
    )
)
