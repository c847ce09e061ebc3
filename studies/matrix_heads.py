"""Tables IX, X and XI of galke2022: every embedding with every head, pair encoding and initialisation."""

from harness.contracts import Published, Row, Study
from harness.registry import study
from harness.studies.matrix_settings import BOTH_STARTS, GENERAL, NOTES, RELU, SOURCE
from harness.studies.profiles import of
from harness.studies.told import GALKE_HEADS

REMARKS = (
    *NOTES,
    *GENERAL,
    RELU,
    "Pretrained unidirectional embeddings are those of Mai et al., which cover about half of the vocabulary; ours are "
    "generally distilled, or a file's with --inits vectors:FILE.",
    "The paper's own teacher stands under Published only; ours is above the rows.",
    "CoLA 0 and STS-B 0 look like collapsed models; RTE 54.0 is no multiple of 1/277.",
)
HEADS = {"linear": "Linear probe", "mlp": "MLP", "cnn": "CNN", "bilstm": "BiLSTM"}
ENCODINGS = {"joint": "joint", "diffcat": "DiffCat"}
# Every head with every encoding: (name, label, what both are).
MODELS = tuple(
    (f"{head}_{encoding}", f"{label}, {encoding_label}", {"head": head, "pair_encoding": encoding})
    for encoding, encoding_label in ENCODINGS.items()
    for head, label in HEADS.items()
)

study(
    Study(
        name="matrix_heads",
        title="Heads and pair encodings of matrix embeddings",
        question="Which head and pair encoding suits which matrix embedding?",
        procedure="one_stage",
        rows=tuple(
            Row(name, "vanilla_kd", label, {**own, "distillation": "task_specific"}, settings=of("student", own))
            for name, label, own in MODELS
        ),
        students=("cbow", "cmow", "hybrid", "bidirectional_hybrid"),
        published=Published(
            (
                "galke2022_table09_joint_encoding.csv",
                "galke2022_table10_diffcat_encoding.csv",
                "galke2022_table11_bidirectional_diffcat.csv",
            ),
            f"{SOURCE}, Tables IX, X and XI",
            axes={"embedding": "student", "init": "init"},
            notes=REMARKS,
        ),
        told=GALKE_HEADS,
        profiles=BOTH_STARTS,
    )
)
