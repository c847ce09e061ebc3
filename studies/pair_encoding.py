"""Table I of galke2022: a pair as one sequence against each sentence apart, on the hybrid from random embeddings."""

from harness.contracts import Published, Row, Study, Told
from harness.registry import study
from studies.matrix_settings import NOTES, profiles
from studies.told import GALKE


def _row(encoding: str, label: str, published: str) -> Row:
    settings = {"student.head": "mlp", "student.pair_encoding": encoding}
    return Row(encoding, "vanilla_kd", label, published=published, settings=settings)


study(
    Study(
        name="pair_encoding",
        title="Pair encodings of matrix embeddings",
        question="Should a matrix embedding read a pair of sentences as one sequence, or each apart?",
        procedure="one_stage",
        rows=(
            _row("joint", "BERT-like joint encoding", "BERT-like Joint Encoding"),
            _row("diffcat", "DiffCat separate encoding", "DiffCat Separate Encoding"),
        ),
        students=("hybrid",),
        published=Published(
            files=("galke2022_table01_pair_encoding.csv",),
            source="Galke et al., Matrix Embeddings, Table I",
            row_column="row",
            axes={"embedding": "student", "init": "init"},
            notes=(
                *NOTES,
                'The text calls the gain of DiffCat "consistent"; WNLI is equal (56.3).',
            ),
        ),
        told={
            **GALKE,
            "tasks": Told(("mnli", "mrpc", "qnli", "qqp", "rte", "stsb_classes", "wnli"), "Table I"),
            "inits": Told("random", "Table I"),
        },
        profiles=profiles(
            quick=("paraphrase", "entailment"),
            paper=("mnli", "mrpc", "qnli", "qqp", "rte", "stsb_classes", "wnli"),
        ),
    )
)
