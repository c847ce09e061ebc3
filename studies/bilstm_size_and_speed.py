"""Table 3.2 of liu2020: parameters and encoding speed of the distilled BiLSTM, of models with random weights."""

from dataclasses import replace

from harness.contracts import ModelRow, Published, Study
from harness.registry import study
from harness.studies.lstm_settings import SOURCE
from harness.studies.profiles import SIZE_AND_SPEED, measured, of
from harness.studies.told import LIU_BILSTM_SPEED

REMARKS = (
    "The published 335 of BERT-large holds the embeddings, which the students' counts leave out.",
    "0.96 is that of 150 units, two channels and a last layer of 200. Of pairs the same sizes make 1.14, a last layer "
    "of 400 makes 1.38, and 300 units make 2.65 or 3.13: no sizes of the text make 1.59.",
    "The published seconds are those of the training sets on a V100 in batches of 512, ours of all rounds: in the "
    "paper's size of as many sentences, 132 batches, and pairs, 711. Factors are multiples of the size and time of the "
    "distilled BiLSTM. The length of a sentence is not given: 64 is ours.",
    "ELMo is no model of transformers, and not built here.",
)
BILSTM = "Distilled BiLSTM"
TASKS = ("speed", "speed_pairs")
CHANNELS = {"bilstm.channels": ("frozen_and_trained",) * 3}
SIZES = measured("bert-large-uncased", *TASKS, batch_size=(4, 64, 512), rounds=(2, 2, 132), **CHANNELS)

study(
    Study(
        name="bilstm_size_and_speed",
        title="Size and speed of the distilled BiLSTM",
        question="How large is the distilled BiLSTM beside its teacher, and how fast does it encode?",
        procedure="speed",
        rows=(
            ModelRow("bert_large", "BERT-large", "BERT_LARGE", checkpoint="bert-large-uncased"),
            ModelRow("bilstm", BILSTM, BILSTM, settings=of("student", hidden_units=150, head_units=200)),
        ),
        students=("bilstm",),
        metrics=dict.fromkeys(TASKS, SIZE_AND_SPEED),
        relative_to="bilstm",
        published=Published(("liu2020_table3_2_size_speed.csv",), f"{SOURCE}, Table 3.2", notes=REMARKS),
        told=LIU_BILSTM_SPEED,
        profiles=SIZES | {"paper": replace(SIZES["paper"], task_settings={"speed_pairs": {"rounds": 711}})},
    )
)
