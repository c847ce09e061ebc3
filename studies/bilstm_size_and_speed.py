"""Table 3.2 of liu2020: parameters and encoding speed of the distilled BiLSTM, of models with random weights."""

from harness.contracts import Profile, Published, Row, Study
from harness.registry import study
from studies.lstm_settings import SOURCE
from studies.told import LIU_BILSTM_SPEED

SHOWN = ("millions_without_embeddings", "size_factor", "sentences_per_second", "seconds", "time_factor")
TASKS = ("speed", "speed_pairs")


def _profile(batch: int, rounds: int, pairs: int) -> Profile:
    settings = {"batch_size": batch, "rounds": rounds, "bilstm.channels": "frozen_and_trained"}
    own = {"speed_pairs": {"rounds": pairs}}
    return Profile("bert-large-uncased", TASKS, ("random",), trials=1, seeds=1, settings=settings, task_settings=own)


study(
    Study(
        name="bilstm_size_and_speed",
        title="Size and speed of the distilled BiLSTM",
        question="How large is the distilled BiLSTM beside its teacher, and how fast does it encode?",
        procedure="speed",
        rows=(
            Row("bert_large", "", "BERT-large", published="BERT_LARGE", checkpoint="bert-large-uncased"),
            Row(
                "bilstm",
                "",
                "Distilled BiLSTM",
                published="Distilled BiLSTM",
                settings={"student.hidden_units": 150, "student.head_units": 200},
            ),
        ),
        students=("bilstm",),
        metrics=dict.fromkeys(TASKS, SHOWN),
        relative_to="bilstm",
        published=Published(
            files=("liu2020_table3_2_size_speed.csv",),
            source=f"{SOURCE}, Table 3.2",
            row_column="row",
            task_column="workload",
            value_columns={
                "millions_without_embeddings": "parameters_millions",
                "size_factor": "parameters_factor",
                "seconds": "value",
                "time_factor": "factor",
            },
            task_names={
                "speed": "SST-2 training set, single sentences (67,350)",
                "speed_pairs": "QQP training set, sentence pairs (363,850)",
            },
            notes=(
                "The published 335 of BERT-large holds the embeddings, which the students' counts leave out.",
                "0.96 is that of 150 units, two channels and a last layer of 200. Of pairs the same sizes make 1.14, a "
                "last layer of 400 makes 1.38, and 300 units make 2.65 or 3.13: no sizes of the text make 1.59.",
                "The published seconds are those of the training sets on a V100 in batches of 512, ours of all "
                "rounds: in the paper's size of as many sentences, 132 batches, and pairs, 711. Factors are "
                "multiples of the size and time of the distilled BiLSTM. The length of a sentence is not given: 64 "
                "is ours.",
                "ELMo is no model of transformers, and not built here.",
            ),
        ),
        told=LIU_BILSTM_SPEED,
        profiles={"quick": _profile(4, 2, 2), "small": _profile(64, 2, 2), "paper": _profile(512, 132, 711)},
    )
)
