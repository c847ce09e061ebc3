"""Figure 3.3 (right) of liu2020: dev scores against the number of BiLSTM units, distilled and not.

The figure's points are not in the text, which says that they begin at two. Whether its distilled line has augmented
texts is not said: ours has none, so that the two lines differ in the objective alone.
"""

from harness.contracts import Row, Study
from harness.registry import study
from studies.lstm_settings import METRICS, profiles
from studies.told import UNITS_TOLD

LINES = (("plain", "labels_only", "BiLSTM"), ("distilled", "logit_mse", "Distilled BiLSTM"))
UNITS = (2, 8, 32, 150, 300)

study(
    Study(
        name="hidden_units",
        title="Size of the BiLSTM",
        question="How few units does a BiLSTM need, with and without a teacher?",
        procedure="one_stage",
        rows=tuple(
            Row(
                f"{name}_{units}",
                objective,
                f"{label}, {units} units",
                settings={"student.hidden_units": units},
                point=(label, units),
            )
            for name, objective, label in LINES
            for units in UNITS
        ),
        students=("bilstm",),
        metrics={"qqp": METRICS["qqp"][1]},
        figure="units in each direction",
        told=UNITS_TOLD,
        profiles=profiles(paper=("sst2", "qqp"), seeds=1, sizes=False),
    )
)
