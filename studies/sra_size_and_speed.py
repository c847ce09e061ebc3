"""Table 2 of wu2020: parameters and encoding speed of pairs, of models with random weights."""

from harness.contracts import ModelRow, Published, Study
from harness.registry import study
from harness.studies.profiles import SIZE_AND_SPEED, measured, of
from harness.studies.sra_settings import NOT_BUILT, SOURCE
from harness.studies.told import WU_SPEED

REMARKS = (
    "Of a pair, 3.33M in the BiLSTM, 0.79M in the linear layer and 0.79M in the task layer of 256 make 4.9 (4.3 of a "
    "single sentence); nothing in the text makes 4.8. 2.4 is the other BiLSTM reading single sentences, with 300 units "
    "and 400 in the last layer; a pair's vector is four times as long. What the published counts of transformers hold "
    "beyond layers and pooler is not said.",
    "The published seconds are those of 100,000 pairs on a P40 in batches of 1,024, ours of all rounds, in the paper's "
    "size 98 batches. Factors are multiples of the size and time of BiLSTM SRA; those printed of PKD, ELMo and DSE "
    "come from their own papers. The length of a sentence is not given: 64 is ours.",
    NOT_BUILT,
)
SRA = of("student", hidden_units=512, head_units=256, projection="teacher_width")
KD = of("student", hidden_units=300, head_units=400, channels="frozen_and_trained")

study(
    Study(
        name="sra_size_and_speed",
        title="Size and speed of sentence representation approximation",
        question="How large is the distilled BiLSTM beside transformers, and how fast does it encode pairs?",
        procedure="speed",
        rows=(
            ModelRow("bert_large", "BERT-large", "BERT_LARGE", checkpoint="bert-large-uncased"),
            ModelRow("bert_base", "BERT-base", "BERT_BASE", checkpoint="bert-base-uncased"),
            ModelRow("bert6", "BERT, 6 layers", "BERT_6-PKD", "transformer", {"student.layers": 6}),
            ModelRow("bert3", "BERT, 3 layers", "BERT_3-PKD", "transformer", {"student.layers": 3}),
            ModelRow("kd", "BiLSTM, KD", "BiLSTM_KD", "bilstm", KD),
            ModelRow("sra", "BiLSTM, SRA", "BiLSTM_SRA", "bilstm", SRA),
        ),
        students=("transformer", "bilstm"),
        metrics={"speed_pairs": SIZE_AND_SPEED},
        relative_to="sra",
        published=Published(("wu2020_table2_size_speed.csv",), f"{SOURCE}, Table 2", notes=REMARKS),
        told=WU_SPEED,
        profiles=measured("bert-base-uncased", "speed_pairs", batch_size=(4, 64, 1024), rounds=(2, 2, 98)),
    )
)
