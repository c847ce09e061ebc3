"""Figure 2 of wu2020: accuracy on QQP after more and more epochs, on 30% and on all of the training data.

The figure's points are not in the text, which says only that SRA on 30% of the data equals the plain BiLSTM on all, and
that on all of it the first epoch passes the plain BiLSTM's last. Each point is a run of its own that ends there and
keeps its best epoch until then.
"""

from harness.contracts import Row, Study
from harness.registry import study
from studies.sra_settings import FROM_CORPUS, METRICS, profiles
from studies.told import CURVE

PERCENTS = (30, 100)
EPOCHS = (1, 2, 4, 8)
SETTINGS = {"patience": 0, "train_examples": 0}


def _point(
    percent: int, epochs: int, name: str, objective: str, label: str, procedure: str = "", mark: str = ""
) -> Row:
    return Row(
        f"{name}_{percent}_{epochs}",
        objective,
        f"{label}, {percent}%, {epochs} epoch{'s' if epochs > 1 else ''}",
        procedure=procedure,
        settings={"train_fraction": percent / 100, "epochs": epochs},
        mark=mark,
        point=(f"{label}, {percent}%", epochs),
    )


study(
    Study(
        name="sra_learning_curve",
        title="Learning curves",
        question="Does a student distilled on unlabelled text converge in fewer epochs?",
        procedure="one_stage",
        rows=(
            *(_point(p, epochs, "bilstm", "labels_only", "BiLSTM") for p in PERCENTS for epochs in EPOCHS),
            *(
                _point(p, epochs, "sra", "cosine", "BiLSTM, SRA", "general", FROM_CORPUS)
                for p in PERCENTS
                for epochs in EPOCHS
            ),
        ),
        students=("bilstm",),
        metrics={"qqp": METRICS["qqp"][1]},
        general="cosine",
        figure="epochs",
        told=CURVE,
        profiles=profiles(quick=("similarity",), small=("sst2",), paper=("qqp",), settings=SETTINGS),
    )
)
