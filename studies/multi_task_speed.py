"""Table 4.4 of liu2020: encoding speed of pairs of 128 tokens in batches of 128, of models with random weights."""

from harness.contracts import ModelRow, Published, Study
from harness.registry import study
from harness.studies.lstm_settings import SOURCE
from harness.studies.profiles import measured, of
from harness.studies.told import LIU_JOINT_SPEED

REMARKS = (
    "No sizes of the text make 1.59 (study bilstm_size_and_speed); 21.3 has no pooler, ours has.",
    "The published seconds are those of 100 batches on a V100, ours of all rounds, in the paper's size "
    '100; the text calls MKD-LSTM "of the same magnitude" as the BiLSTM, whose time it takes 2.2 times. '
    "Whether 128 tokens are of a pair or of each sentence is not said: ours are of each.",
)
BILSTM = of("student", hidden_units=150, head_units=200, channels="frozen_and_trained")
SHOWN = ("millions_without_embeddings", "sentences_per_second", "seconds", "time_factor")
TINYBERT = "huawei-noah/TinyBERT_General_4L_312D"

study(
    Study(
        name="multi_task_speed",
        title="Speed of multi-task distilled students",
        question="How fast does the bi-attentive LSTM encode beside other distilled students?",
        procedure="speed",
        rows=(
            ModelRow("bert_large", "BERT-large", checkpoint="bert-large-uncased", mark="not in the published table"),
            ModelRow("bilstm", "Distilled BiLSTM", "Distilled BiLSTM", "bilstm", BILSTM),
            ModelRow("bert3", "BERT, 3 layers", "BERT-PKD", "transformer", {"student.layers": 3}),
            ModelRow("tinybert", "TinyBERT", "TinyBERT", checkpoint=TINYBERT),
            ModelRow("mkd_lstm", "MKD-LSTM", "MKD-LSTM", "biattentive_lstm"),
        ),
        students=("bilstm", "transformer", "biattentive_lstm"),
        metrics={"speed_pairs": SHOWN},
        relative_to="bilstm",
        published=Published(
            ("liu2020_table4_4_inference_time.csv",),
            f"{SOURCE}, Table 4.4",
            quotients={"time_factor": "Distilled BiLSTM"},
            notes=REMARKS,
        ),
        told=LIU_JOINT_SPEED,
        profiles=measured(
            "bert-base-uncased", "speed_pairs", batch_size=(2, 32, 128), max_length=(32, 64, 128), rounds=(2, 2, 100)
        ),
    )
)
