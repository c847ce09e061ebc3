"""Table 4.2 of liu2020: what the bi-attentive LSTM owes to distillation, to several tasks, to attention, to WordPiece.

No row is trained further on its task after the joint distillation.
"""

from typing import Any

from harness.contracts import Published, Row, Study
from harness.registry import study
from harness.studies.lstm_settings import METRICS, OF_JOINT, SOURCE, joint_sizes
from harness.studies.told import LIU_JOINT

REMARKS = (
    *OF_JOINT,
    "The published teacher is always that of all tasks; ours of the second line is of its task alone.",
)
LSTM = "biattentive_lstm"
ALONE = "Single Task Distilled Biatt LSTM"
ORIGINAL = {"augmentation": "none"}


def _joint(name: str, label: str, printed: str, student: str = LSTM, **settings: Any) -> Row:
    return Row(name, "logit_mse", label, printed, student=student, procedure="multi_task", settings=settings)


study(
    Study(
        name="multi_task_procedures",
        title="Procedures of multi-task distillation",
        question="Which part of multi-task distillation makes the student better?",
        procedure="one_stage",
        rows=(
            Row("plain", "labels_only", "Bi-attentive LSTM", "Biatt LSTM", student=LSTM, settings=ORIGINAL),
            Row("single", "logit_mse", "Distilled on the task alone", ALONE, student=LSTM),
            _joint("bilstm", "BiLSTM, all tasks", "BiLSTM_MTL", "bilstm"),
            _joint("words", "MKD-LSTM, words", "MKD-LSTM Word-level Tokenizer", **{"student.vocabulary": "words"}),
            _joint("mkd_lstm", "MKD-LSTM", "MKD-LSTM"),
        ),
        students=(LSTM, "bilstm"),
        metrics=METRICS,
        general="logit_mse",
        published=Published(("liu2020_table4_2_procedure_ablation.csv",), f"{SOURCE}, Table 4.2", notes=REMARKS),
        told=LIU_JOINT,
        profiles=joint_sizes(fine_tuned=False),
    )
)
