"""What a student starts from: nothing but its task's answer is left to chance, and what does not fit is refused."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForMaskedLM

from harness.contracts import Task
from harness.data.tasks import CORPUS
from harness.errors import UserError
from harness.jobs.starting import load_pretrained, recorded, started_student
from harness.registry import STUDENTS
from harness.runs import StudentRun
from harness.teaching.outputs import NoTeacher
from harness.testing.student_cases import PAIR, SCORES, SINGLE, Case, named, possible
from harness.training.weights import save
from harness.training.workspace import teacher_tokenizer
from tests.training.builders import a_run, workspace_of

RUN = "0123456789abcdef"
NAMES = STUDENTS.names()


def on_tasks(name: str) -> list[Case]:
    """The student on every labelled task, with every choice of the settings that only shape how a task is answered."""
    plugin, found = STUDENTS.get(name), [Case(name, task) for task in (SINGLE, PAIR, SCORES)]
    for setting in sorted(plugin.head_settings):
        found += [Case(name, PAIR, ((setting, choice),)) for choice in plugin.hyperparameters[setting].choices]
    return [case for case in found if possible(case)]


def body(student: Any) -> dict[str, tuple[int, ...]]:
    """Shapes of the weights that do not answer a task."""
    return {n: tuple(t.shape) for n, t in student.state_dict().items() if n not in student.head_weights()}


each_start = pytest.mark.parametrize("case", [case for name in NAMES for case in on_tasks(name)], ids=named)
each_name = pytest.mark.parametrize("name", NAMES)


@pytest.fixture
def distilled(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The weights of a student that was distilled on a corpus."""
    case: Case | None = request.node.callspec.params.get("case")
    name = case.name if case else request.node.callspec.params["name"]
    folder = tmp_path / RUN / "weights"
    folder.parent.mkdir(parents=True)
    save(Case(name, CORPUS).build(seed=5), folder)
    (folder.parent / "record.json").write_text("{}")
    return folder


@each_start
def test_everything_but_the_head_comes_from_the_distilled_student(case: Case, distilled: Path) -> None:
    """Whatever the head and the pair encoding: those are settings that no corpus distillation depends on."""
    student = case.build(seed=1)
    fresh = {name: tensor.clone() for name, tensor in student.state_dict().items()}
    source = load_file(distilled / "model.safetensors")
    assert load_pretrained(student, distilled, RUN, case.task) == {"pretrained": RUN}
    heads = student.head_weights()
    assert heads and heads < fresh.keys()
    for name, tensor in student.state_dict().items():
        assert torch.equal(tensor, fresh[name] if name in heads else source[name]), name
    moved = [name for name in fresh if name not in heads and not torch.equal(fresh[name], source[name])]
    assert moved, "the distilled student and the fresh one are the same"


@each_name
def test_a_student_of_other_sizes_is_refused_and_left_as_it_was(name: str, distilled: Path) -> None:
    sizes = [n for n, h in STUDENTS.get(name).hyperparameters.items() if type(h.default) is int]
    usual = body(Case(name, SINGLE).build())
    others = {size: Case(name, SINGLE, ((size, 5),)).build(seed=1) for size in sizes}
    changed = {size: student for size, student in others.items() if body(student) != usual}  # not the head's alone
    assert changed
    for student in changed.values():
        before = {key: tensor.clone() for key, tensor in student.state_dict().items()}
        with pytest.raises(UserError, match=rf"run {RUN} cannot start this {name}: (its|it has no weight) \S+"):
            load_pretrained(student, distilled, RUN, SINGLE)
        assert all(torch.equal(tensor, before[key]) for key, tensor in student.state_dict().items())


@each_name
def test_a_weight_that_is_missing_is_named(name: str, distilled: Path) -> None:
    file = distilled / "model.safetensors"
    weights, student = load_file(file), Case(name, SINGLE).build()
    missing = sorted(weights.keys() & (student.state_dict().keys() - student.head_weights()))[0]
    save_file({key: tensor for key, tensor in weights.items() if key != missing}, file)
    with pytest.raises(UserError, match=f"it has no weight {missing}"):
        load_pretrained(student, distilled, RUN, SINGLE)


# ---------------------------------------------------------------- as a run starts its student


class Source:
    """In the place of a run's teacher."""

    def __init__(self, checkpoint: Path):
        self.loaded = AutoModelForMaskedLM.from_pretrained(checkpoint)
        self.asked = 0

    def model(self) -> Any:
        self.asked += 1
        return self.loaded


def start(
    checkpoint: Path, runs: Path, init: str, task: Task = SINGLE, teacher: Any = None, name: str = "transformer"
) -> tuple[Any, dict[str, Any]]:
    workspace = workspace_of(runs, checkpoint)
    settings = {f"{name}.{setting}": value for setting, value in Case(name, task).settings.items()}
    run = a_run(StudentRun, student=name, init=init, settings=settings)
    return started_student(run, workspace, task, teacher or Source(checkpoint), teacher_tokenizer(workspace))


@each_name
def test_a_pretrained_start_asks_no_teacher(name: str, checkpoint: Path, tmp_path: Path) -> None:
    """Its sizes are those of the teacher's configuration, its weights those of the run."""
    first, _ = start(checkpoint, tmp_path, "random", CORPUS, name=name)
    folder = tmp_path / RUN / "weights"
    folder.parent.mkdir()
    save(first, folder)
    (folder.parent / "record.json").write_text("{}")
    student, recorded = start(checkpoint, tmp_path, f"pretrained:{RUN}", teacher=NoTeacher(), name=name)
    assert recorded == {"pretrained": RUN} and student.config.outputs == SINGLE.outputs
    source = first.state_dict()
    assert all(torch.equal(t, source[n]) for n, t in student.state_dict().items() if n not in student.head_weights())


@pytest.mark.parametrize("lack", ["the run", "its weights", "its record"])
def test_a_run_that_is_not_finished_is_refused(lack: str, checkpoint: Path, tmp_path: Path) -> None:
    folder = tmp_path / RUN
    if lack != "the run":
        (folder / "weights").mkdir(parents=True)
        (folder / "weights" / "model.safetensors").write_bytes(b"")
        (folder / "record.json").write_text("{}")
    if lack == "its weights":
        shutil.rmtree(folder / "weights")
    elif lack == "its record":  # killed between its weights and its record
        (folder / "record.json").unlink()
    with pytest.raises(UserError, match=f"no finished run {RUN}"):
        start(checkpoint, tmp_path, f"pretrained:{RUN}")


@each_name
def test_the_global_generator_decides_a_random_start(name: str, checkpoint: Path, tmp_path: Path) -> None:
    weights, source = [], Source(checkpoint)
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        student, _ = start(checkpoint, tmp_path, "random", SINGLE, source, name)
        weights.append(torch.cat([tensor.flatten() for tensor in student.state_dict().values()]))
    assert torch.equal(weights[0], weights[1]) and not torch.equal(weights[0], weights[2])
    assert not source.asked, "no teacher's weights are needed"


class Drawing(Source):
    """A teacher that draws from torch's global generator where it is loaded, as fairseq's do: the first time alone."""

    def model(self) -> Any:
        if not self.asked:
            torch.rand(5)
        return super().model()


def test_what_a_teacher_draws_is_not_missing_from_its_students(checkpoint: Path, tmp_path: Path) -> None:
    """A student is the same whether its teacher was loaded before, for its signals, or is for its weights."""
    source, heads = Drawing(checkpoint), []
    for _ in range(2):
        torch.manual_seed(3)
        student, _ = start(checkpoint, tmp_path, "every", SINGLE, source)
        heads.append([student.state_dict()[name] for name in sorted(student.head_weights())] + [torch.rand(2)])
    assert source.asked == 2
    assert all(torch.equal(first, second) for first, second in zip(*heads, strict=True))


@pytest.mark.parametrize(
    ("started", "said"),
    [
        (None, "initialise returned None, but must return a mapping to record, {} if there is nothing"),
        ([1], r"initialise returned \[1\], but must return"),
        ({"layer": torch.ones(2)}, "which cannot be recorded as JSON: Object of type Tensor"),
        ({"share": float("nan")}, "which cannot be recorded as JSON"),
        ({1: 2}, "initialise returned 1 as a key, but the keys of a record must be strings"),
        ({"coverage": "all"}, "coverage must be a share of the vocabulary, and filled must say"),
    ],
)
def test_what_a_student_says_of_its_start_can_be_recorded(started: Any, said: str) -> None:
    """Otherwise it would train, and every table of it end in a traceback."""
    with pytest.raises(UserError, match=f"student transformer: .*{said}"):
        recorded("transformer", started)
    assert recorded("transformer", {"layers": (1, 2)}) == {"layers": (1, 2)}
