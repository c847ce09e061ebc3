"""Figure 2 of wu2020: accuracy on QQP after more and more epochs, on 30% and on all of the training data.

The figure's points are not in the text, which says only that SRA on 30% of the data equals the plain BiLSTM on all, and
that on all of it the first epoch passes the plain BiLSTM's last. Each point is a run of its own that ends there and
keeps its best epoch until then.
"""

from typing import Any

from harness.contracts import Row, Study
from harness.registry import study
from harness.studies.profiles import FROM_CORPUS, varied
from harness.studies.sra_settings import METRICS, SIZES
from harness.studies.told import CURVE


def _points(name: str, objective: str, label: str, **more: Any) -> tuple[Row, ...]:
    return tuple(
        Row(
            f"{name}_{percent}_{epochs}",
            objective,
            f"{label}, {percent}%, {epochs} epoch{'s' if epochs > 1 else ''}",
            settings={"train_fraction": percent / 100, "epochs": epochs},
            point=(f"{label}, {percent}%", epochs),
            **more,
        )
        for percent in (30, 100)
        for epochs in (1, 2, 4, 8)
    )


study(
    Study(
        name="sra_learning_curve",
        title="Learning curves",
        question="Does a student distilled on unlabelled text converge in fewer epochs?",
        procedure="one_stage",
        rows=(
            *_points("bilstm", "labels_only", "BiLSTM"),
            *_points("sra", "cosine", "BiLSTM, SRA", procedure="general", mark=FROM_CORPUS),
        ),
        students=("bilstm",),
        metrics={"qqp": METRICS["qqp"][1]},
        general="cosine",
        figure="epochs",
        told=CURVE,
        profiles=varied(
            SIZES,
            {"quick": ("similarity",), "small": ("sst2",), "paper": ("qqp",)},
            {"patience": 0, "train_examples": 0},
        ),
    )
)
