"""Table 5 of wu2020: the cosine of sentence vectors that no label has tuned, as a judge of paraphrase.

A pair is a paraphrase where the cosine of its sentences' vectors is above a threshold, chosen on the training data.
BiLSTM KD learns the teacher's cosine of the pairs of the task, BiLSTM SRA the teacher's vectors of unlabelled text.
"""

from harness.contracts import ModelRow, Published, Row, Study, TeacherRow, Told
from harness.registry import study
from harness.studies.profiles import LAZY_ADAM, varied
from harness.studies.sra_settings import EPOCHS_ARE_OURS, METRICS, NOT_BUILT, SIZES, SOURCE, TEXT_IS_READ
from harness.studies.told import WU

REMARKS = (
    EPOCHS_ARE_OURS,
    NOT_BUILT,
    TEXT_IS_READ,
    LAZY_ADAM,
    "The split and the threshold of the published numbers are not given; ours are of dev, the threshold the best on "
    "the training data.",
)

study(
    Study(
        name="untuned_representations",
        title="Untuned sentence representations",
        question="Do distilled sentence vectors tell paraphrases apart before any label has been seen?",
        procedure="untuned",
        rows=(
            TeacherRow("first", "Teacher, first token", "BERT_BASE (CLS)", {"untuned.pooling": "first"}),
            TeacherRow("mean", "Teacher, mean of tokens", "BERT_BASE (averaged)", {"untuned.pooling": "mean"}),
            Row("kd", "pair_cosine", "BiLSTM, KD", "BiLSTM_KD"),
            ModelRow("sra", "BiLSTM, SRA", "BiLSTM_SRA", init="pretrained"),
        ),
        students=("bilstm",),
        metrics={"qqp": METRICS["qqp"], "mrpc": METRICS["mrpc"], "paraphrase": ("f1", "accuracy")},
        general="cosine",
        published=Published(("wu2020_table5_untuned_qqp.csv",), f"{SOURCE}, Table 5", notes=REMARKS),
        told={**WU, "tasks": Told("qqp", "Table 5")},
        profiles=varied(SIZES, {"quick": ("paraphrase",), "small": ("mrpc",), "paper": ("qqp",)}),
    )
)
