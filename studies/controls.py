"""What of the help of a teacher is its knowledge? Every reader of a table of objectives asks for these rows beside it.

Label smoothing softens labels without a teacher (Szegedy et al., 2016; Yuan et al., 2020, compare the two). Outputs
shuffled within the classes keep what the teacher says of classes and lose what it says of examples. A teacher of random
weights knows nothing; one of the student's own kind knows no more than the labels (Furlanello et al., 2018).
"""

from dataclasses import replace

from harness.contracts import BASELINES, CONTROLS, Row, Study, TeacherRow
from harness.registry import study
from harness.studies.profiles import PAPER, QUICK, SMALL

# The same with no label in the loss: whatever such a student learns, it learns from whom it imitates.
ALONE = {"vanilla_kd.soft_weight": 1.0}
NO_LABELS = "no label in the loss"


def _beside(row: Row, short: str) -> list[Row]:
    """A row, and the same by each teacher that knows less, where it is named in short."""
    others = [
        replace(
            row,
            name=control.name.replace("control", short),
            label=f"{row.label},{control.label.partition(',')[2]}",
            procedure=control.procedure,
            mark="; ".join(filter(None, (control.mark, row.mark))),
            reference=True,
        )
        for control in CONTROLS
        if control.procedure
    ]
    return [row, *others]


study(
    Study(
        name="controls",
        title="Controls of distillation",
        question="Does a student gain by what its teacher knows of each example, or would less do?",
        procedure="two_stage",
        rows=(
            TeacherRow("random_teacher", "Teacher of random weights", procedure="random_teacher", mark="never trained"),
            Row("labels_only", "labels_only", "Labels only"),
            CONTROLS[0],
            Row("vanilla_kd", "vanilla_kd", "Vanilla KD"),
            *CONTROLS[1:],
            *_beside(Row("soft_labels", "vanilla_kd", "Soft labels alone", settings=ALONE, mark=NO_LABELS), "soft"),
            *_beside(Row("hid_cls", "hid_cls", "Hid-CLS"), "hid_cls"),
            *BASELINES,
        ),
        students=("transformer",),
        relative_to="vanilla_kd",
        profiles={
            "quick": replace(
                QUICK,
                tasks=("acceptability", "entailment"),
                inits=("every", "random"),
                seeds=3,
                settings={
                    "transformer.layers": 2,
                    "epochs": 5,
                    "batch_size": 16,
                    "max_length": 32,
                    "learning_rate": 2e-3,
                    "warmup_ratio": 0.1,
                    "train_examples": 256,  # so few that labels alone leave doubt
                },
            ),
            "small": replace(
                SMALL,
                tasks=("sst2", "mrpc", "rte"),
                inits=("every",),
                seeds=3,
                settings={"transformer.layers": 3, "epochs": 3, "learning_rate": 1e-4, "train_examples": 1000},
            ),
            "paper": replace(
                PAPER,
                tasks=("sst2", "mrpc", "rte", "qnli"),
                inits=("every",),
                seeds=4,
                settings={"protocol": "published", "transformer.layers": 6, "epochs": 3, "learning_rate": 5e-5},
            ),
        },
    )
)
