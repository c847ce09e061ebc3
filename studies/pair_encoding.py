"""Table I of galke2022: a pair as one sequence against each sentence apart, on the hybrid from random embeddings."""

from harness.contracts import Published, Row, Study, Told
from harness.registry import study
from harness.studies.matrix_settings import MLP, NOTES, SIZES, SOURCE
from harness.studies.profiles import varied
from harness.studies.told import GALKE

CONSISTENT = 'The text calls the gain of DiffCat "consistent"; WNLI is equal (56.3).'
PAIRS = ("mnli", "mrpc", "qnli", "qqp", "rte", "stsb_classes", "wnli")


def _row(encoding: str, label: str, printed: str) -> Row:
    return Row(encoding, "vanilla_kd", label, printed, settings={**MLP, "student.pair_encoding": encoding})


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
            ("galke2022_table01_pair_encoding.csv",),
            f"{SOURCE}, Table I",
            axes={"embedding": "student", "init": "init"},
            notes=(*NOTES, CONSISTENT),
        ),
        told={**GALKE, "tasks": Told(PAIRS, "Table I"), "inits": Told("random", "Table I")},
        profiles=varied(SIZES, {"quick": ("paraphrase", "entailment"), "paper": PAIRS}),
    )
)
