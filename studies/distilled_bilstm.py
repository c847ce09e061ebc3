"""Table 3.1 of liu2020: a BiLSTM trained on labels, on the teacher's logits, and on those of augmented texts too.

The published "Distilled BiLSTM" is the last of the three; without augmentation it is in Table 3.3 (study augmentation).
"""

from harness.contracts import CheckpointRow, Published, Row, Study, TeacherRow
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
from harness.studies.told import LIU_BILSTM

REMARKS = (
    EPOCHS_ARE_OURS,
    "GPT is a decoder and ELMo no model of transformers; neither is built here, and rows that others report are "
    "theirs: all stand under Published only.",
    WORDS_ARE_OURS,
    REPEATS,
    "The metrics printed over the columns are shifted; they are read as GLUE defines them. The gain on STS-B is called "
    "10 points in the text; it is 12.7 and 13.9.",
)
BASE, LABEL = "BERT_BASE [17]", "Distilled BiLSTM"

study(
    Study(
        name="distilled_bilstm",
        title="Distilling into a BiLSTM",
        question="How much of a fine-tuned transformer does a single-layer BiLSTM learn from its logits?",
        procedure="one_stage",
        rows=(
            TeacherRow("teacher", "Teacher", "BERT_LARGE [17]"),
            CheckpointRow("bert_base", "BERT-base", "bert-base-uncased", BASE, "fine-tuned here", reference=True),
            Row("plain", "labels_only", "BiLSTM", "BiLSTM (our implementation)"),
            Row("distilled", "logit_mse", f"{LABEL}, no augmentation", mark="not in the published table"),
            Row("augmented", "logit_mse", LABEL, LABEL, mark=ON_AUGMENTED, settings=AUGMENTED),
        ),
        students=("bilstm",),
        metrics=METRICS,
        published=Published(("liu2020_table3_1_glue_test.csv",), f"{SOURCE}, Table 3.1", notes=REMARKS),
        told=LIU_BILSTM,
        profiles=SIZES,
    )
)
