"""Tables XII and XIII of galke2022: parameters of every embedding with every head. Counted, never trained."""

from harness.contracts import Profile, Published, Row, Study
from harness.registry import study
from studies.matrix_heads import ENCODINGS, HEADS

COUNTS = ("parameters", "classifier_parameters")
PROFILE = Profile(
    teacher="bert-base-uncased", tasks=("mrpc", "mnli", "stsb_classes"), inits=("random",), trials=1, seeds=1
)

study(
    Study(
        name="parameter_counts",
        title="Parameters of matrix embeddings",
        question="How many parameters has each embedding with each head, for 2, 3 and 21 classes?",
        procedure="count",
        rows=tuple(
            Row(
                f"{head}_{encoding}",
                "",
                f"{label}, {encoding_label}",
                published={"head": head, "pair_encoding": encoding},
                settings={"student.head": head, "student.pair_encoding": encoding},
            )
            for encoding, encoding_label in ENCODINGS.items()
            for head, label in HEADS.items()
        ),
        students=("cbow", "cmow", "hybrid", "bidirectional_hybrid"),
        metrics={"mrpc": COUNTS, "mnli": COUNTS, "stsb_classes": COUNTS},
        published=Published(
            files=("galke2022_table12_parameters_joint.csv", "galke2022_table13_parameters_diffcat.csv"),
            source="Galke et al., Matrix Embeddings, Tables XII and XIII",
            row_column="row",
            task_column="tasks",
            value_column="parameters",
            axes={"embedding": "student"},
            metric_columns={"parameters": {"scope": "total"}, "classifier_parameters": {"scope": "classifier"}},
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
            notes=(
                "Of the bidirectional hybrid with a BiLSTM head two numbers are printed for three columns; the second "
                "is STS-B's. Misplaced digit groups (4,025,0421 and 110,936,21) are read as they are meant.",
            ),
        ),
        profiles={"quick": PROFILE, "small": PROFILE, "paper": PROFILE},
    )
)
