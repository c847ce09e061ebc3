"""Table 2 of wu2020: parameters and encoding speed of pairs, of models with random weights."""

from harness.contracts import Profile, Published, Row, Study
from harness.registry import study
from studies.sra_settings import NOT_BUILT, SOURCE
from studies.told import WU_SPEED

SRA = {
    "student.hidden_units": 512,
    "student.head_units": 256,
    "student.projection": "teacher_width",
}
KD = {"student.hidden_units": 300, "student.head_units": 400, "student.channels": "frozen_and_trained"}


def _profile(batch: int, rounds: int) -> Profile:
    settings = {"batch_size": batch, "rounds": rounds}
    return Profile("bert-base-uncased", ("speed_pairs",), ("random",), trials=1, seeds=1, settings=settings)


study(
    Study(
        name="sra_size_and_speed",
        title="Size and speed of sentence representation approximation",
        question="How large is the distilled BiLSTM beside transformers, and how fast does it encode pairs?",
        procedure="speed",
        rows=(
            Row("bert_large", "", "BERT-large", published="BERT_LARGE", checkpoint="bert-large-uncased"),
            Row("bert_base", "", "BERT-base", published="BERT_BASE", checkpoint="bert-base-uncased"),
            Row("bert6", "", "BERT, 6 layers", "BERT_6-PKD", student="transformer", settings={"student.layers": 6}),
            Row("bert3", "", "BERT, 3 layers", "BERT_3-PKD", student="transformer", settings={"student.layers": 3}),
            Row("kd", "", "BiLSTM, KD", published="BiLSTM_KD", student="bilstm", settings=KD),
            Row("sra", "", "BiLSTM, SRA", published="BiLSTM_SRA", student="bilstm", settings=SRA),
        ),
        students=("transformer", "bilstm"),
        metrics={
            "speed_pairs": (
                "millions_without_embeddings",
                "size_factor",
                "sentences_per_second",
                "seconds",
                "time_factor",
            )
        },
        relative_to="sra",
        published=Published(
            files=("wu2020_table2_size_speed.csv",),
            source=f"{SOURCE}, Table 2",
            row_column="row",
            task_column="workload",
            value_columns={
                "millions_without_embeddings": "parameters_millions",
                "size_factor": "parameters_factor",
                "seconds": "value",
                "time_factor": "factor",
            },
            task_names={"speed_pairs": "100k samples of QQP"},
            notes=(
                "Of a pair, 3.33M in the BiLSTM, 0.79M in the linear layer and 0.79M in the task layer of 256 make 4.9 "
                "(4.3 of a single sentence); nothing in the text makes 4.8. 2.4 is the other BiLSTM reading "
                "single sentences, with 300 units and 400 in the last layer; a pair's vector is four times as long. "
                "What the published counts of transformers hold beyond layers and pooler is not said.",
                "The published seconds are those of 100,000 pairs on a P40 in batches of 1,024, ours of all rounds, "
                "in the paper's size 98 batches. Factors are multiples of the size and time of BiLSTM SRA; those "
                "printed of PKD, ELMo and DSE come from their own papers. The length of a sentence is not given: 64 "
                "is ours.",
                NOT_BUILT,
            ),
        ),
        told=WU_SPEED,
        profiles={"quick": _profile(4, 2), "small": _profile(64, 2), "paper": _profile(1024, 98)},
    )
)
