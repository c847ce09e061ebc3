"""The tasks that the embedded grammar generates, in GLUE's shapes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cache

from harness.contracts import Task
from harness.data import embedded
from harness.data.sources import Example, TaskSource, task_source
from harness.data.task_sources.glue import ACCEPTABILITY, ACCURACY, ENTAILMENT, PARAPHRASE, SIMILARITY

SUITE = (
    Task("acceptability", "Acceptability", *ACCEPTABILITY, labels=("unacceptable", "acceptable")),
    Task("sentiment", "Sentiment", *ACCURACY, labels=("negative", "positive")),
    Task("paraphrase", "Paraphrase", *PARAPHRASE, labels=("not_paraphrase", "paraphrase"), pair=True),
    Task("entailment", "Entailment", *ACCURACY, labels=ENTAILMENT, pair=True),
    Task("similarity", "Similarity", *SIMILARITY, pair=True),
)


@task_source("embedded", tasks=SUITE)
class EmbeddedSuite(TaskSource):
    """Five tasks of our own grammar, made where they are asked for: no files, no network."""

    title, hint = "the embedded suite", "leave out --data"
    given, fixed = "name", True

    def examples(self, task: Task, split: str) -> Iterator[Example]:
        for number, (*texts, label) in enumerate(embedded.generate(task.name)[split != "train"]):
            yield f"{split} {number}", texts[: 1 + task.pair], task.labels[int(label)] if task.labels else label

    def content(self, task: Task) -> str:
        return _content(task.name)


@cache
def _content(name: str) -> str:
    return hashlib.sha256(repr(embedded.generate(name)).encode()).hexdigest()
