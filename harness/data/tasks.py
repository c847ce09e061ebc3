"""The tasks: GLUE's nine (Wang et al. 2018), STS-B as classes, QNLI as ranking; the embedded suite. No heavy import."""

from __future__ import annotations

from harness.contracts import Task
from harness.errors import unknown

_ENTAILMENT = ("entailment", "not_entailment")
_PARAPHRASE = ("accuracy_f1_mean", ("accuracy", "f1", "accuracy_f1_mean"))
_SIMILARITY = ("pearson_spearman_mean", ("pearson", "spearman", "pearson_spearman_mean"))
_ACCEPTABILITY = ("matthews", ("matthews", "accuracy"))
_ACCURACY = ("accuracy", ("accuracy",))

_ALL = (
    Task("cola", "CoLA", *_ACCEPTABILITY, labels=("0", "1"), folder="CoLA"),
    Task("sst2", "SST-2", *_ACCURACY, labels=("0", "1"), folder="SST-2"),
    Task("mrpc", "MRPC", *_PARAPHRASE, labels=("0", "1"), pair=True, folder="MRPC"),
    Task("stsb", "STS-B", *_SIMILARITY, pair=True, folder="STS-B"),
    # Scores rounded to steps of 0.2 and clipped to 1..5: 21 classes, as in Raffel et al. (2020), appendix, for T5.
    Task("stsb_classes", "STS-B", *_SIMILARITY, pair=True, folder="STS-B", bins=tuple(k / 5 for k in range(5, 26))),
    Task("qqp", "QQP", *_PARAPHRASE, labels=("0", "1"), pair=True, folder="QQP"),
    Task(
        "mnli",
        "MNLI",
        *_ACCURACY,
        labels=("entailment", "neutral", "contradiction"),
        pair=True,
        folder="MNLI",
        dev_splits=("dev_matched", "dev_mismatched"),
    ),
    Task("qnli", "QNLI", *_ACCURACY, labels=_ENTAILMENT, pair=True, folder="QNLI"),
    # Relevance ranking, as in Liu et al. (2019), MT-DNN, section 3, for liu2020, section 4.1.1.
    Task("qnli_ranking", "QNLI", *_ACCURACY, labels=_ENTAILMENT, pair=True, folder="QNLI", ranking=True),
    Task("rte", "RTE", *_ACCURACY, labels=_ENTAILMENT, pair=True, folder="RTE"),
    Task("wnli", "WNLI", *_ACCURACY, labels=("0", "1"), pair=True, folder="WNLI"),
    Task("acceptability", "Acceptability", *_ACCEPTABILITY, labels=("unacceptable", "acceptable")),
    Task("sentiment", "Sentiment", *_ACCURACY, labels=("negative", "positive")),
    Task("paraphrase", "Paraphrase", *_PARAPHRASE, labels=("not_paraphrase", "paraphrase"), pair=True),
    Task("entailment", "Entailment", *_ACCURACY, labels=_ENTAILMENT, pair=True),
    Task("similarity", "Similarity", *_SIMILARITY, pair=True),
)
CORPUS = Task("corpus", "Corpus", "masked_cross_entropy", ("masked_cross_entropy",), corpus=True)  # never a column
_SPEEDS = ("sentences_per_second", "speed_ratio", "parameters", "millions_without_embeddings")
SPEED = Task("speed", "Encoding", _SPEEDS[0], _SPEEDS)
SPEED_PAIRS = Task("speed_pairs", "Encoding of pairs", _SPEEDS[0], _SPEEDS, pair=True)
TASKS: dict[str, Task] = {task.name: task for task in _ALL}


def get_task(name: str) -> Task:
    """The task called `name`. Raises UserError with near names."""
    if name in (SPEED.name, SPEED_PAIRS.name):
        return SPEED if name == SPEED.name else SPEED_PAIRS
    if name not in TASKS:
        raise unknown("task", name, TASKS)
    return TASKS[name]
