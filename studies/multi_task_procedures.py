"""Table 4.2 of liu2020: what the bi-attentive LSTM owes to distillation, to several tasks, to attention, to WordPiece.

No row is trained further on its task after the joint distillation.
"""

from harness.contracts import Published, Row, Study
from harness.registry import study
from studies.lstm_settings import METRICS, RANKED, SOURCE, TEACHER_IS_OURS, joint_profiles
from studies.told import LIU_JOINT

LSTM = "biattentive_lstm"
JOINT = "multi_task"

study(
    Study(
        name="multi_task_procedures",
        title="Procedures of multi-task distillation",
        question="Which part of multi-task distillation makes the student better?",
        procedure="one_stage",
        rows=(
            Row(
                "plain",
                "labels_only",
                "Bi-attentive LSTM",
                published="Biatt LSTM",
                student=LSTM,
                settings={"augmentation": "none"},
            ),
            Row(
                "single",
                "logit_mse",
                "Distilled on the task alone",
                published="Single Task Distilled Biatt LSTM",
                student=LSTM,
            ),
            Row("bilstm", "logit_mse", "BiLSTM, all tasks", published="BiLSTM_MTL", student="bilstm", procedure=JOINT),
            Row(
                "words",
                "logit_mse",
                "MKD-LSTM, words",
                published="MKD-LSTM Word-level Tokenizer",
                student=LSTM,
                procedure=JOINT,
                settings={"student.vocabulary": "words"},
            ),
            Row("mkd_lstm", "logit_mse", "MKD-LSTM", published="MKD-LSTM", student=LSTM, procedure=JOINT),
        ),
        students=(LSTM, "bilstm"),
        metrics=METRICS,
        general="logit_mse",
        published=Published(
            files=("liu2020_table4_2_procedure_ablation.csv",),
            source=f"{SOURCE}, Table 4.2",
            row_column="row",
            notes=(
                TEACHER_IS_OURS,
                RANKED,
                "The published teacher is always that of all tasks; ours of the second line is of its task alone.",
            ),
        ),
        told=LIU_JOINT,
        profiles=joint_profiles(fine_tuned=False),
    )
)
