"""Table 3 of wu2020: how much each way of training needs of the labelled data, the teacher too."""

from harness.contracts import Published, Row, Study, Told
from harness.registry import study
from studies.sra_settings import FROM_CORPUS, NOTES, SAME_SCORE_TWICE, SOURCE, profiles
from studies.told import WU, WU_KD_TEACHER

PERCENTS = (20, 30, 50, 100)


def _row(percent: int, name: str, objective: str, label: str, published: str, **rest: object) -> Row:
    return Row(
        f"{name}_{percent}",
        objective,
        f"{label}, {percent}%",
        published={"row": published, "train_fraction_percent": str(percent)},
        settings={"train_fraction": percent / 100},
        **rest,  # type: ignore[arg-type]
    )


study(
    Study(
        name="sra_data_fraction",
        title="Share of the training data",
        question="Does a student distilled on unlabelled text need fewer labelled examples?",
        procedure="one_stage",
        rows=(
            *(_row(percent, "teacher", "labels_only", "Teacher", "BERT_LARGE", teacher=True) for percent in PERCENTS),
            *(_row(percent, "bilstm", "labels_only", "BiLSTM", "BiLSTM") for percent in PERCENTS),
            *(_row(percent, "kd", "logit_mse", "BiLSTM, KD", "BiLSTM_KD") for percent in PERCENTS),
            *(
                _row(percent, "sra", "cosine", "BiLSTM, SRA", "BiLSTM_SRA", procedure="general", mark=FROM_CORPUS)
                for percent in PERCENTS
            ),
        ),
        students=("bilstm",),
        general="cosine",
        published=Published(
            files=("wu2020_table3_data_fraction.csv",),
            source=f"{SOURCE}, Table 3",
            row_column="row",
            notes=(
                *NOTES,
                SAME_SCORE_TWICE,
                "The published first line, and the teacher of its KD, is BERT-large, that of SRA BERT-base; ours have "
                "one teacher. As published, the teacher of KD has the same share of the training data.",
            ),
        ),
        told={**WU, "tasks": Told("sst2", "Table 3"), "teacher": WU_KD_TEACHER},
        profiles=profiles(
            quick=("sentiment",),
            small=("sst2",),
            paper=("sst2",),
            settings={"train_examples": 0},
            teacher="embedded:train",  # the shipped one has read all of the training data
        ),
    )
)
