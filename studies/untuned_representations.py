"""Table 5 of wu2020: the cosine of sentence vectors that no label has tuned, as a judge of paraphrase.

A pair is a paraphrase where the cosine of its sentences' vectors is above a threshold, chosen on the training data.
BiLSTM KD learns the teacher's cosine of the pairs of the task, BiLSTM SRA the teacher's vectors of unlabelled text.
"""

from harness.contracts import Published, Row, Study, Told
from harness.registry import study
from studies.sra_settings import EPOCHS_ARE_OURS, METRICS, NOT_BUILT, SOURCE, TEXT_IS_READ, profiles
from studies.told import WU


def _teacher(name: str, label: str, published: str, pooling: str) -> Row:
    return Row(name, "labels_only", label, published, teacher=True, settings={"untuned.pooling": pooling})


study(
    Study(
        name="untuned_representations",
        title="Untuned sentence representations",
        question="Do distilled sentence vectors tell paraphrases apart before any label has been seen?",
        procedure="untuned",
        rows=(
            _teacher("first", "Teacher, first token", "BERT_BASE (CLS)", "first"),
            _teacher("mean", "Teacher, mean of tokens", "BERT_BASE (averaged)", "mean"),
            Row("kd", "pair_cosine", "BiLSTM, KD", published="BiLSTM_KD"),
            Row("sra", "", "BiLSTM, SRA", published="BiLSTM_SRA", init="pretrained"),
        ),
        students=("bilstm",),
        metrics={"qqp": METRICS["qqp"], "mrpc": METRICS["mrpc"], "paraphrase": ("f1", "accuracy")},
        general="cosine",
        published=Published(
            files=("wu2020_table5_untuned_qqp.csv",),
            source=f"{SOURCE}, Table 5",
            row_column="row",
            notes=(
                EPOCHS_ARE_OURS,
                NOT_BUILT,
                TEXT_IS_READ,
                "The split and the threshold of the published numbers are not given; ours are of dev, the threshold "
                "the best on the training data.",
            ),
        ),
        told={**WU, "tasks": Told("qqp", "Table 5")},
        profiles=profiles(quick=("paraphrase",), small=("mrpc",), paper=("qqp",)),
    )
)
