"""How a model does on a task: what epochs are chosen by, and what the table reports."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from torch import Tensor, nn

from harness.contracts import AGREEMENT, Task
from harness.data import loading, sources
from harness.data.encoding import Encoded, Reader, encode
from harness.data.sources import Split
from harness.errors import UserError
from harness.evaluation import masked_words
from harness.evaluation.metrics import graded, predictions_of, score
from harness.jobs.examples import Examples, encoding_of
from harness.runs import TaskRun
from harness.runs.told import Record
from harness.training import machine
from harness.training.loop import Clock, predict
from harness.training.work import Work

EVALUATION_BATCH = 64
Predictions = dict[str, np.ndarray]


def selector(task: Task, run: TaskRun, examples: Examples, clock: Clock) -> Callable[[nn.Module], float]:
    """What epochs are chosen by: the metric on the selection examples."""
    settings, metric = run.settings, run.metric
    theirs = examples.answers[0] if examples.answers else None

    def select(model: nn.Module) -> float:
        logits = predict(model, examples.selection, EVALUATION_BATCH, settings, machine.device(), clock)
        return scores(task, logits, examples.selection, theirs)[metric]

    return select


def scores(task: Task, logits: Tensor, data: Encoded, theirs: np.ndarray | None = None) -> dict[str, float]:
    """The task's metrics, where there are labels, and the agreement with `theirs`, (N,), where that is given."""
    predictions, labels = predictions_of(task, logits.numpy()), data.labels.numpy()
    found = score(task, predictions, labels) if sources.told(labels) else {}
    if theirs is not None:
        imitated = task.imitated
        found[AGREEMENT] = score(imitated, predictions, theirs)[imitated.metric]
    return found


def evaluate(
    model: nn.Module, task: Task, run: TaskRun, work: Work, examples: Examples, reader: Reader
) -> tuple[Record, Predictions]:
    """(record, predictions) of how a run's model does on a task, with what the run tells `further`.

    Metrics on every dev split, the speed of encoding the first, and its predictions with what they rest on.
    """
    metrics: dict[str, float] = {}
    theirs = examples.answers[1:] or (None,) * len(examples.dev)
    for name, data, answers in reversed(list(zip(task.dev_splits, examples.dev, theirs, strict=True))):
        own = Clock()
        logits = predict(model, data, EVALUATION_BATCH, run.settings, machine.device(), own)
        work.clock.seconds += own.seconds
        prefix = "" if name == task.dev_splits[0] else name.removeprefix("dev_") + "_"
        metrics |= {prefix + metric: value for metric, value in scores(task, logits, data, answers).items()}
    first = examples.dev[0]
    predictions = {
        "ids": first.ids.numpy(),
        "predictions": np.asarray(predictions_of(task, logits.numpy())),
        "labels": first.labels.numpy(),
        **graded(task, logits.numpy()),
        **({} if answers is None else {"teacher": answers}),
    }
    more, others = further(model, task, run, work, reader)
    record: Record = {"metrics": metrics, "examples_per_second": len(first) / own.seconds}
    if examples.recreated:
        record["recreated"] = examples.recreated
    return record | more, predictions | others


def further(model: nn.Module, task: Task, run: TaskRun, work: Work, reader: Reader) -> tuple[Record, Predictions]:
    """What a run tells beyond the scores: (more of the record, more predictions).

    analysis "masked_word_entropy" gives record["masked_word_entropy"], see `masked_words.masked_word_entropy`, of
    some dev sentences. test, a mapping from tasks to the content of their test splits, gives
    predictions["test/predictions"], (N,) in the order of that file, or "test_matched/predictions" and
    "test_mismatched/predictions". reader: the model's tokenizer. Raises UserError if the test splits are missing or are
    not those that were asked for.
    """
    record: Record = {}
    source = work.workspace.source

    def logits_of(split: Split) -> Tensor:
        data = encode(split, reader, encoding_of(run), run.settings["max_length"])
        return predict(model, data, EVALUATION_BATCH, run.settings, machine.device(), work.clock)

    if run.analysis == "masked_word_entropy":
        sentences = masked_words.chosen(loading.load(task, source).dev[0].text_a)
        record["masked_word_entropy"] = masked_words.masked_word_entropy(
            lambda texts: logits_of(Split("masked", list(texts), None, np.zeros(len(texts), np.int64))), sentences
        )
    asked = (run.test or {}).get(task.name)
    if asked is None:
        return record, {}
    tests, content = loading.load_test(task, source)
    if content != asked:
        raise UserError(f"the test files of {task.name} in {source} changed meanwhile; give the command again")
    return record, {
        f"{test.split.name}/predictions": np.asarray(predictions_of(task, logits_of(test.split).numpy()))
        for test in tests
    }
