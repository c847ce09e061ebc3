"""Table 3.3 of liu2020: labels against logits, and two ways of augmenting, with ten texts made of each example."""

from harness.contracts import Published, Row, Study, Told
from harness.registry import study
from harness.studies.lstm_settings import (
    AUGMENTED,
    EPOCHS_ARE_OURS,
    METRICS,
    ON_AUGMENTED,
    REPEATS,
    SIZES,
    SOURCE,
    WORDS_ARE_OURS,
)
from harness.studies.profiles import varied
from harness.studies.told import LIU_BILSTM

OF_DEV = "The published scores beside ours are of dev; those of test stand apart."


def _augmented(name: str, label: str, printed: str, augmentation: str) -> Row:
    settings = {**AUGMENTED, "augmentation": augmentation}
    return Row(name, "logit_mse", label, {"row": printed, "split": "dev"}, mark=ON_AUGMENTED, settings=settings)


study(
    Study(
        name="augmentation",
        title="Logits and augmentation",
        question="What do the teacher's logits add to a BiLSTM, and what do masked and replaced words?",
        procedure="one_stage",
        rows=(
            Row("labels", "labels_only", "Labels", {"row": "No Aug. (label)", "split": "dev"}),
            Row("logits", "logit_mse", "Logits", {"row": "No Aug. (logit)", "split": "dev"}),
            _augmented("masking", "Logits, masking", "Aug (Mask only)", "masking"),
            _augmented("masking_pos", "Logits, masking + POS", "Aug (Mask + POS)", "masking+pos"),
        ),
        students=("bilstm",),
        metrics=METRICS,
        published=Published(
            ("liu2020_table3_3_augmentation_ablation.csv",),
            f"{SOURCE}, Table 3.3",
            notes=(EPOCHS_ARE_OURS, WORDS_ARE_OURS, REPEATS, OF_DEV),
        ),
        told={**LIU_BILSTM, "tasks": Told(("sst2", "qqp"), "Table 3.3")},
        profiles=varied(SIZES, {"paper": ("sst2", "qqp")}),
    )
)
