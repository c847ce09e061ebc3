"""Table 1 of wu2020: a BiLSTM distilled on unlabelled sentences, on the task, and on one after the other."""

from collections.abc import Mapping

from harness.contracts import Published, Row, Study
from harness.registry import study
from studies.sra_settings import (
    AUGMENTED,
    FROM_CORPUS,
    FROM_SRA,
    METRICS,
    NOT_BUILT,
    NOTES,
    SAME_SCORE_TWICE,
    SOURCE,
    profiles,
)
from studies.told import WU

ON_AUGMENTED = "trained on augmented texts too"


def _distilled(name: str, label: str, published: str, init: str, settings: Mapping[str, object], mark: str) -> Row:
    return Row(name, "logit_mse", label, published=published, init=init, settings=settings, mark=mark)


def _gain(name: str, label: str, better: str, published: str) -> Row:
    return Row(name, "", label, published=published, improves=(better, "bilstm"))


study(
    Study(
        name="sra",
        title="Sentence representation approximation",
        question="Does a BiLSTM that has learnt a teacher's sentence vectors from unlabelled text learn tasks better?",
        procedure="one_stage",
        rows=(
            Row("bert_base", "labels_only", "Teacher", published="BERT_BASE (Devlin et al., 2019)", teacher=True),
            Row(
                "bert_large",
                "labels_only",
                "BERT-large",
                published="BERT_LARGE (Devlin et al., 2019)",
                checkpoint="bert-large-uncased",
                reference=True,
                mark="fine-tuned here",
            ),
            Row("bilstm", "labels_only", "BiLSTM", published="BiLSTM (our implementation)"),
            _distilled("kd", "BiLSTM, KD", "BiLSTM_KD (Tang et al., 2019a)", "", {}, ""),
            Row("sra", "cosine", "BiLSTM, SRA", published="BiLSTM_SRA (Ours)", procedure="general", mark=FROM_CORPUS),
            _distilled("sra_kd", "BiLSTM, SRA + KD", "BiLSTM_SRA+KD", "pretrained", {}, FROM_SRA),
            _distilled("kd_ts", "BiLSTM, KD + TS", "BiLSTM_KD+TS (Tang et al., 2019b)", "", AUGMENTED, ON_AUGMENTED),
            _distilled(
                "sra_kd_ts",
                "BiLSTM, SRA + KD + TS",
                "BiLSTM_SRA+KD+TS",
                "pretrained",
                AUGMENTED,
                f"{FROM_SRA}; {ON_AUGMENTED}",
            ),
            _gain("kd_gain", "Gain of KD", "kd", "KD (Tang et al., 2019a)"),
            _gain("sra_gain", "Gain of SRA", "sra", "SRA(Ours)"),
            _gain("sra_kd_gain", "Gain of SRA + KD", "sra_kd", "SRA(Ours)+KD"),
            _gain("kd_ts_gain", "Gain of KD + TS", "kd_ts", "KD+TS (Tang et al., 2019a)"),
            _gain("sra_kd_ts_gain", "Gain of SRA + KD + TS", "sra_kd_ts", "SRA(Ours)+KD+TS"),
        ),
        students=("bilstm",),
        metrics=METRICS,
        general="cosine",
        published=Published(
            files=("wu2020_table1_glue_test.csv",),
            source=f"{SOURCE}, Table 1",
            row_column="row",
            notes=(
                *NOTES,
                SAME_SCORE_TWICE,
                NOT_BUILT,
                "The text says that SRA + KD beats BERT_3-PKD on MRPC, but its F1 is lower (80.2 against 80.7).",
            ),
        ),
        told=WU,
        profiles=profiles(),
    )
)
