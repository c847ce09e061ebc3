"""Table 4.1 of liu2020: students distilled on all tasks together, then trained on each."""

from harness.contracts import Published, Row, Study
from harness.registry import study
from studies.lstm_settings import JOINTLY, METRICS, RANKED, SOURCE, TEACHER_IS_OURS, joint_profiles
from studies.told import LIU_TUNED

study(
    Study(
        name="multi_task",
        title="Multi-task distillation",
        question="Does a student learn more from a teacher's logits on several tasks together than on each alone?",
        procedure="one_stage",
        rows=(
            Row(
                "teacher",
                "labels_only",
                "Teacher of all tasks",
                published="MTL-BERT (Teacher)",
                procedure="multi_task",
                teacher=True,
            ),
            Row(
                "single_lstm",
                "logit_mse",
                "Bi-attentive LSTM, each task alone",
                student="biattentive_lstm",
                init="random",
                mark="not in the published table: distilled on the task alone, from a teacher of that task alone, "
                "and on the original texts",
            ),
            Row(
                "mkd_lstm",
                "labels_only",
                "MKD-LSTM",
                published="MKD-LSTM",
                student="biattentive_lstm",
                init="multi_task",
                mark=JOINTLY,
            ),
            Row(
                "mkd_transformer",
                "labels_only",
                "MKD-Transformer",
                published="MKD-Transformer",
                student="averaged_transformer",
                init="multi_task:first",
                mark=f"{JOINTLY}; starts from the teacher's first layers",
            ),
        ),
        students=("biattentive_lstm", "averaged_transformer"),
        metrics={**METRICS, "": "millions_without_embeddings"},
        general="logit_mse",
        published=Published(
            files=("liu2020_table4_1_glue_test.csv",),
            source=f"{SOURCE}, Table 4.1",
            row_column="row",
            value_columns={"millions_without_embeddings": "parameters_millions"},
            notes=(
                TEACHER_IS_OURS,
                RANKED,
                "The published MKD-Transformer has the first layers of BERT-base, 21.3M; ours has those of the "
                "teacher, which of BERT-large are 38.3M with the head, 1.8 times as many. With --teacher "
                "bert-base-uncased it has 21.7M, of which the head is 0.4M.",
                "BERT-PKD and BERT_EXTREME are distilled by other works' methods, which are not built here; GPT is a "
                "decoder and ELMo no model of transformers. The distilled BiLSTM is in the study distilled_bilstm, a "
                "released TinyBERT in matrix_literature.",
                "The text's gains do not all follow from the table: MKD-Transformer is 1.2 below BERT-PKD on QNLI and "
                "at most 8.8 above it, MKD-LSTM 0.6 below the distilled BiLSTM on SST-2.",
            ),
        ),
        told=LIU_TUNED,
        profiles=joint_profiles(),
    )
)
