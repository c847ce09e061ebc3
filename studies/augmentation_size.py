"""Figure 3.3 (left) of liu2020: dev scores against the size of the augmented data.

The figure's points are not in the text, which says that the gain saturates at ten times the original corpus. Its axis
is the size; ours is the copies made of each example, of which those that repeat are dropped: of 10 of SST-2 6.5 remain.
"""

from harness.contracts import Row, Study
from harness.registry import study
from harness.studies.lstm_settings import AUGMENTED, METRICS, ON_AUGMENTED, ONE_SIZE
from harness.studies.told import COPIES_TOLD

LINE = "Distilled BiLSTM"


def _row(copies: int) -> Row:
    settings = {**AUGMENTED, "augmentation_copies": copies}
    name, label = f"copies_{copies}", f"{LINE}, {copies}×"
    return Row(name, "logit_mse", label, mark=ON_AUGMENTED, settings=settings, point=(LINE, copies))


study(
    Study(
        name="augmentation_size",
        title="Size of the augmented data",
        question="How many augmented texts of each example does the distillation need?",
        procedure="one_stage",
        rows=(
            Row("copies_0", "logit_mse", f"{LINE}, no augmentation", point=(LINE, 0)),
            *(_row(copies) for copies in (1, 2, 5, 10, 20)),
        ),
        students=("bilstm",),
        metrics={"qqp": METRICS["qqp"][1]},
        figure="augmented texts of each example",
        told=COPIES_TOLD,
        profiles=ONE_SIZE,
    )
)
