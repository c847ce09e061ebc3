"""One step of every student with every objective, or a sentence: of a plugin file, with all that there are."""

from __future__ import annotations

import functools

import pytest
import torch

from harness import combine, pairing
from harness.contracts import ModelInfo, Signal
from harness.registry import OBJECTIVES, STUDENTS
from harness.runs.settings import Settings
from harness.teaching.outputs import Encoder
from harness.testing import chosen
from harness.testing.student_cases import HEADS, SCORES, Case, cases, named, plain, possible, small_bert
from harness.training.optimisation import Optimisation
from harness.training.sums import Sum

SETTINGS = Settings({"learning_rate": 0.01, "warmup_ratio": 0.0})


PLAIN = [case for name in STUDENTS.names() for case in cases(name) if possible(case) and plain(case)]
MEANT = chosen(STUDENTS), chosen(OBJECTIVES)


def differs(case: Case, objective: str) -> bool:
    """Whether a step says what one on pairs does not: that the answer is a score, only objectives of logits can tell,
    and of how a pair is read they see nothing there.
    """
    return case.task is not SCORES or not case.choices and Signal.LOGITS in OBJECTIVES.get(objective).needs


PAIRS = [
    (case, objective)
    for case in PLAIN
    for objective in OBJECTIVES.names()
    if (case.name in MEANT[0] or objective in MEANT[1]) and differs(case, objective)
]


@pytest.mark.parametrize(
    ("case", "objective"), PAIRS, ids=lambda value: value if isinstance(value, str) else named(value)
)
def test_one_step_with_every_objective_or_a_sentence(case: Case, objective: str) -> None:
    """From a teacher as wide as the student's sentence vector; of single texts also from one of another width."""
    described = case.describe()
    width = described.sentence_width or described.width
    for teacher_width in {width if width % HEADS == 0 else 32} | (set() if case.task.pair else {32}):
        described, teacher = case.describe(teacher_width), case.teacher_info(teacher_width)
        # An intermediate objective trains alone on a corpus and in the first of two stages.
        procedure = "general" if case.task.corpus else "two_stage"
        reason = pairing.refusal(objective, procedure, described, teacher, case.task)
        if reason:
            assert objective in reason and len(reason.split()) > 5 and "\n" not in reason
        else:
            _step(case, objective, described, teacher)


@functools.cache
def teacher_of(corpus: bool, width: int, labels: int) -> Encoder:
    return Encoder(small_bert(corpus, width, labels, seed=1)).eval()


def _step(case: Case, objective: str, described: ModelInfo, teacher: ModelInfo) -> None:
    student = case.build(teacher_width=teacher.width).train()
    layers = case.plugin.layer_map("random", described, teacher)
    loss_of = Sum(combine.parse(objective), described, teacher, layers, {})
    batch = case.batch()
    if not case.task.corpus:
        loss_of.prepare(batch.labels, len(batch.labels))
    imitated = teacher_of(case.task.corpus, teacher.width, case.task.outputs or 2)
    ours, theirs = loss_of.wants()
    with torch.no_grad():
        said = imitated(case.batch(apart=False), theirs)
    before = {name: tensor.clone() for name, tensor in student.state_dict().items()}
    loss, terms = loss_of(student(batch, ours), said, batch)
    Optimisation(student, loss_of, SETTINGS, 10).step(loss)
    after = student.state_dict()
    assert loss.isfinite() and terms.keys() == {objective}
    body = student.state_dict().keys() - student.head_weights()
    assert any(not torch.equal(after[name], before[name]) for name in body), "nothing but the head was trained"
    assert all(tensor.isfinite().all() for tensor in after.values())
