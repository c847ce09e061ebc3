"""Table 4.1 of liu2020: students distilled on all tasks together, then trained on each."""

from dataclasses import replace

from harness.contracts import Published, Row, Study, TeacherRow
from harness.registry import study
from harness.studies.lstm_settings import AUGMENTED, JOINTLY, METRICS, OF_JOINT, ON_AUGMENTED, SOURCE, joint_sizes
from harness.studies.profiles import FROM_EVEN_LAYERS, PATIENT_KD, PATIENT_SETTINGS, SLOWLY, of
from harness.studies.told import LIU_TUNED

REMARKS = (
    *OF_JOINT,
    PATIENT_SETTINGS,
    "The published MKD-Transformer has the first layers of BERT-base as it was pretrained, 21.3M; ours has those of "
    "the teacher, refined on the tasks, which of BERT-large are 38.3M with the head, 1.8 times as many. With "
    "--teacher bert-base-uncased it has 21.7M, of which the head is 0.4M.",
    "BERT_EXTREME is distilled by another work's method, which is not built here; GPT is a decoder and ELMo no model "
    "of transformers. A released TinyBERT is in matrix_literature.",
    "The distilled BiLSTM reads the teacher's vocabulary and is trained as the students beside it are, with as many "
    "augmented texts of STS-B and MRPC as of the others; the study distilled_bilstm has it as its own chapter does.",
    "The text's gains do not all follow from the table: MKD-Transformer is 1.2 below BERT-PKD on QNLI and at most 8.8 "
    "above it, MKD-LSTM 0.6 below the distilled BiLSTM on SST-2.",
)
LSTM, TRANSFORMER = "biattentive_lstm", "averaged_transformer"
ALONE = (
    "not in the published table: distilled on the task alone, from a teacher of that task alone, and on the original "
    "texts"
)
FIRST = f"{JOINTLY}; starts from the refined teacher's first layers"


def _joint(name: str, label: str, student: str, init: str, mark: str) -> Row:
    return Row(name, "labels_only", label, label, student=student, init=init, mark=mark)


study(
    Study(
        name="multi_task",
        title="Multi-task distillation",
        question="Does a student learn more from a teacher's logits on several tasks together than on each alone?",
        procedure="one_stage",
        rows=(
            TeacherRow("teacher", "Teacher of all tasks", "MTL-BERT (Teacher)", procedure="multi_task"),
            Row(
                "single_lstm",
                "logit_mse",
                "Bi-attentive LSTM, each task alone",
                student=LSTM,
                init="random",
                mark=ALONE,
            ),
            Row(
                "distilled_bilstm",
                "logit_mse",
                "Distilled BiLSTM, each task alone",
                "Distilled BiLSTM",
                student="bilstm",
                init="random",
                mark=f"from a teacher of that task alone; {ON_AUGMENTED}",
                settings=AUGMENTED,
            ),
            Row(
                "pkd",
                PATIENT_KD,
                "BERT, 3 layers, PKD, each task alone",
                "BERT-PKD",
                student="transformer",
                init="every",
                mark=f"from a teacher of that task alone; {FROM_EVEN_LAYERS}",
            ),
            _joint("mkd_lstm", "MKD-LSTM", LSTM, "multi_task", JOINTLY),
            _joint("mkd_transformer", "MKD-Transformer", TRANSFORMER, "multi_task:first", FIRST),
        ),
        students=(LSTM, TRANSFORMER, "bilstm", "transformer"),
        metrics={**METRICS, "": "millions_without_embeddings"},
        general="logit_mse",
        published=Published(("liu2020_table4_1_glue_test.csv",), f"{SOURCE}, Table 4.1", notes=REMARKS),
        told=LIU_TUNED,
        profiles={
            size: replace(
                profile,
                row_settings={
                    "distilled_bilstm": {"augmentation_copies": 3 if size == "quick" else 10},
                    "pkd": {} if size == "quick" else SLOWLY,
                    "mkd_transformer": {**SLOWLY, **of("multi_task", SLOWLY)} if size == "small" else {},
                },
            )
            for size, profile in joint_sizes().items()
        },
    )
)
