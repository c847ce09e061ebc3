"""Figure 3.3 (right) of liu2020: dev scores against the number of BiLSTM units, distilled and not.

The figure's points are not in the text, which says that they begin at two. Whether its distilled line has augmented
texts is not said: ours has none, so that the two lines differ in the objective alone.
"""

from harness.contracts import Row, Study
from harness.registry import study
from harness.studies.lstm_settings import METRICS, ONE_SIZE
from harness.studies.told import UNITS_TOLD

UNITS = (2, 8, 32, 150, 300)


def _row(name: str, objective: str, line: str, units: int) -> Row:
    settings = {"student.hidden_units": units}
    return Row(f"{name}_{units}", objective, f"{line}, {units} units", settings=settings, point=(line, units))


study(
    Study(
        name="hidden_units",
        title="Size of the BiLSTM",
        question="How few units does a BiLSTM need, with and without a teacher?",
        procedure="one_stage",
        rows=(
            *(_row("plain", "labels_only", "BiLSTM", units) for units in UNITS),
            *(_row("distilled", "logit_mse", "Distilled BiLSTM", units) for units in UNITS),
        ),
        students=("bilstm",),
        metrics={"qqp": METRICS["qqp"][1]},
        figure="units in each direction",
        told=UNITS_TOLD,
        profiles=ONE_SIZE,
    )
)
