"""Tables XII and XIII of galke2022: parameters of every embedding with every head. Counted, never trained."""

from harness.contracts import ModelRow, Published, Study
from harness.registry import study
from harness.studies.matrix_heads import MODELS
from harness.studies.matrix_settings import SOURCE
from harness.studies.profiles import measured, of

REMARKS = (
    "Of the bidirectional hybrid with a BiLSTM head two numbers are printed for three columns; the second is STS-B's. "
    "Misplaced digit groups (4,025,0421 and 110,936,21) are read as they are meant.",
)
TASKS = ("mrpc", "mnli", "stsb_classes")

study(
    Study(
        name="parameter_counts",
        title="Parameters of matrix embeddings",
        question="How many parameters has each embedding with each head, for 2, 3 and 21 classes?",
        procedure="count",
        rows=tuple(ModelRow(name, label, own, settings=of("student", own)) for name, label, own in MODELS),
        students=("cbow", "cmow", "hybrid", "bidirectional_hybrid"),
        metrics=dict.fromkeys(TASKS, ("parameters", "classifier_parameters")),
        published=Published(
            ("galke2022_table12_parameters_joint.csv", "galke2022_table13_parameters_diffcat.csv"),
            f"{SOURCE}, Tables XII and XIII",
            axes={"embedding": "student"},
            reasons=(
                (
                    {"head": "bilstm", "pair_encoding": "joint"},
                    "the published BiLSTM heads with joint encoding follow sizes of their own, which the text does not "
                    "give (that of CMOW for STS-B alone has the size of the DiffCat heads, at width 784)",
                ),
                (
                    {"embedding": "cbow", "scope": "total"},
                    "the published totals of CBOW hold 23,929,248 parameters (30,522 x 784) of a matrix table that "
                    "CBOW does not use",
                ),
            ),
            notes=REMARKS,
        ),
        profiles=measured("bert-base-uncased", *TASKS),
    )
)
