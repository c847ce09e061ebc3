"""Table 3.3 of liu2020: labels against logits, and two ways of augmenting, with ten texts made of each example."""

from harness.contracts import Published, Row, Study, Told
from harness.registry import study
from studies.lstm_settings import AUGMENTED, EPOCHS_ARE_OURS, METRICS, ON_AUGMENTED, SOURCE, WORDS_ARE_OURS, profiles
from studies.told import LIU_BILSTM


def _row(name: str, objective: str, label: str, published: str, augmentation: str = "") -> Row:
    return Row(
        name,
        objective,
        label,
        published={"row": published, "split": "dev"},
        settings={**AUGMENTED, "augmentation": augmentation} if augmentation else {},
        mark=ON_AUGMENTED if augmentation else "",
    )


study(
    Study(
        name="augmentation",
        title="Logits and augmentation",
        question="What do the teacher's logits add to a BiLSTM, and what do masked and replaced words?",
        procedure="one_stage",
        rows=(
            _row("labels", "labels_only", "Labels", "No Aug. (label)"),
            _row("logits", "logit_mse", "Logits", "No Aug. (logit)"),
            _row("masking", "logit_mse", "Logits, masking", "Aug (Mask only)", "masking"),
            _row("masking_pos", "logit_mse", "Logits, masking + POS", "Aug (Mask + POS)", "masking+pos"),
        ),
        students=("bilstm",),
        metrics=METRICS,
        published=Published(
            files=("liu2020_table3_3_augmentation_ablation.csv",),
            source=f"{SOURCE}, Table 3.3",
            row_column="row",
            notes=(
                EPOCHS_ARE_OURS,
                WORDS_ARE_OURS,
                "The published scores beside ours are of dev; those of test stand apart.",
            ),
        ),
        told={**LIU_BILSTM, "tasks": Told(("sst2", "qqp"), "Table 3.3")},
        profiles=profiles(paper=("sst2", "qqp")),
    )
)
