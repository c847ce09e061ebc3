"""Plans of joint runs, of distillation on sentences and of shares of the data: what is shared, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.errors import UserError
from harness.ledger import Ledger
from harness.planning.plan import resolve
from harness.planning.planned import Cell, Plan
from harness.planning.request import Request
from harness.runs import CorpusDistillationRun, JointStudentRun, StudentRun, TeacherRun, UntunedRun
from harness.search.frame import cells, runs
from harness.search.progress import progress, specify
from tests.search.builders import of_kind

LSTM = "biattentive_lstm"

STUDIES = f'''
from harness.contracts import Hyperparameter, Profile, Row, Study
from harness.registry import study

def declare(name, procedure, rows, students, inits=("random",), search=None, settings=None, trials=1, seeds=1):
    tasks = ("sentiment", "similarity")
    profile = Profile("embedded", tasks, inits, trials, seeds, settings or {{}}, {{}}, search or {{}}, "embedded")
    study(Study(name, name, name, procedure, rows, students, {{"quick": profile}}))

declare(
    "searched_jointly",
    "multi_task",
    (
        Row("lstm", "logit_mse", "LSTM"),
        Row("one", "logit_mse", "LSTM, one task", training_tasks=("sentiment",)),
    ),
    ("{LSTM}",),
    search={{"learning_rate": Hyperparameter(1e-3, low=1e-4, high=1e-2, log=True)}},
    trials=4,
    seeds=3,
)
declare(
    "after_a_corpus",
    "one_stage",
    (Row("distilled", "vanilla_kd", "Distilled", init="pretrained"), Row("plain", "vanilla_kd", "Plain")),
    ("transformer",),
    inits=("every", "random"),
    settings={{"transformer.layers": 2}},
)
declare(
    "on_text",
    "general",
    (Row("masks", "mlm_kd", "Masks"), Row("vectors", "cosine", "Vectors")),
    ("transformer", "bilstm"),
    settings={{"transformer.layers": 2, "bilstm.projection": "teacher_width"}},
)
'''


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("plugin") / "studies_of_several_tasks.py"
    path.write_text(STUDIES)
    return str(path)


Ours = Callable[..., Plan]


@pytest.fixture(scope="module")
def ours(plugin: str) -> Ours:
    """ours(study, **request): the plan of a study of the plugin file."""
    return lambda study, **request: resolve(Request(study, plugins=(plugin,), **request))


@pytest.fixture(scope="module")
def joint_runs() -> Plan:
    return resolve(Request("multi_task"))


def cell(plan: Plan, row: str, task: str) -> Cell:
    (found,) = [c for c in plan.cells if (c.row, c.task) == (row, task)]
    return found


def made(plan: Plan, run: str) -> Any:
    return plan.first[run].run


def first_seed(plan: Plan, row: str, task: str) -> str:
    """The run of a cell that searches nothing."""
    return specify(cell(plan, row, task), {}, 0, ()).identity(plan.defaults)


# ---------------------------------------------------------------- tasks of a joint run


def test_one_task_is_too_few() -> None:
    plan = resolve(Request("multi_task", tasks=["sentiment"]))
    refused = {c.row: c.refused for c in plan.cells if c.refused}
    assert refused.keys() == {"teacher", "mkd_lstm", "mkd_transformer"}
    for reason in refused.values():
        assert reason == (
            "multi_task trains one model on several tasks, but only sentiment is selected; name more with --tasks"
        )
    assert not cell(plan, "single_lstm", "sentiment").refused


def test_no_teacher_is_made_for_refused_cells_alone() -> None:
    plan = resolve(Request("multi_task_tasks", tasks=["sentiment", "similarity"]))
    assert {c.row for c in plan.cells if c.refused} == {"paraphrase", "inference"}
    assert not of_kind(plan, TeacherRun)
    plan = resolve(Request("objectives_vs_init", objectives=["hid_cls_contrast"], tasks=["sentiment", "similarity"]))
    assert {c.task for c in plan.cells if c.refused} == {"similarity"} == {*plan.tasks} - plan.teachers.keys()
    assert [first.run.task for first in plan.first.values()] == ["sentiment"]


def test_a_row_may_train_on_tasks_of_its_own() -> None:
    plan = resolve(Request("multi_task_tasks", tasks=["sentiment", "paraphrase", "similarity"]))
    expected = {"sentiment": {"sentiment"}, "paraphrase": {"paraphrase"}, "all": set(plan.tasks)}
    for row, tasks in expected.items():
        starts = {tuple(cell(plan, row, task).starts) for task in plan.tasks}
        assert len(starts) == 1  # of every task's cell, trained on or not
        for run in starts.pop():
            assert made(plan, run).tasks.keys() == tasks
            assert made(plan, made(plan, run).teacher).tasks.keys() == tasks
    for task in plan.tasks:
        assert cell(plan, "inference", task).refused.endswith(
            "none of mnli, qnli, qnli_ranking, rte, entailment is selected; name more with --tasks"
        )
        # the teacher that stands above the table is that of all tasks
        assert made(plan, plan.teachers[task]).tasks.keys() == expected["all"]


def test_what_is_not_fine_tuned_answers_no_other_task(ours: Ours) -> None:
    plan = ours("searched_jointly")
    assert cell(plan, "one", "sentiment").run.tasks.keys() == {"sentiment"}
    assert cell(plan, "one", "similarity").refused == "row one trains on sentiment alone, and is not fine-tuned"


# ---------------------------------------------------------------- joint runs and the cells that share them


@pytest.mark.parametrize("row", ["mkd_lstm", "mkd_transformer"])
def test_cells_start_from_the_joint_run_of_their_seed(row: str, joint_runs: Plan) -> None:
    cells = [cell(joint_runs, row, task) for task in joint_runs.tasks]
    (starts,) = {tuple(c.starts) for c in cells}
    assert [made(joint_runs, run).seed for run in starts] == [0, 1] and len(set(starts)) == 2
    for number, run in enumerate(starts):
        joint = made(joint_runs, run)
        assert isinstance(joint, JointStudentRun) and joint.objective == "logit_mse"
        assert joint.tasks.keys() == set(joint_runs.tasks)
        assert joint_runs.first[run].after == [joint.teacher]
        for c in cells:
            assert specify(c, {}, number, ()).init == f"pretrained:{run}" and run in c.after
    first, second = (made(joint_runs, run) for run in starts)
    assert replace(first, seed=1) == second


def test_joint_students_share_a_teacher_that_is_the_teachers_row(joint_runs: Plan) -> None:
    runs = [run for row in ("mkd_lstm", "mkd_transformer") for run in cell(joint_runs, row, "sentiment").starts]
    (teacher,) = {made(joint_runs, run).teacher for run in runs}
    for task in joint_runs.tasks:
        assert first_seed(joint_runs, "teacher", task) == teacher
        assert joint_runs.teachers[task] == teacher


def record_of(run: str, scores: dict[str, float], selection: float) -> dict[str, Any]:
    """A finished joint run that says of each task what `scores` does."""
    by_task = {
        task: {"metrics": {"accuracy": score, "pearson": score}, "selection": score} for task, score in scores.items()
    }
    return {"status": "finished", "metrics": {}, "selection": selection, "by_task": by_task, "curve": [], "run": run}


def scores_of(run: str) -> dict[str, float]:
    """Of each task; where one is good the other is bad, so that they would choose differently."""
    score = int(run[:4], 16) / 0xFFFF
    return {"sentiment": score, "similarity": 1 - score}


def test_cells_of_a_joint_run_propose_the_same_and_show_their_own(ours: Ours, tmp_path: Path) -> None:
    plan = ours("searched_jointly", objectives=["lstm"])
    one, other = (cell(plan, "lstm", task) for task in ("sentiment", "similarity"))
    assert one.id != other.id and one.search == other.search
    ledger = Ledger(tmp_path / "out", create=True)
    for c in (one, other):
        for _ in range(6):  # four trials, one after another, then the seeds
            for missing in progress(c, plan.defaults, ledger.read).missing:
                run = missing.identity(plan.defaults)
                assert c is one, "the second cell asks for a run that the first did not"
                selection = float(int(run[4:8], 16))
                ledger.write(run, record_of(run, scores_of(run), selection), predictions_of(run))
    assert len(list(ledger.runs())) == 4 + 2
    found = {result.task: result for result in cells(plan, runs(plan, ledger))}
    assert len(found) == 2
    first, second = found["sentiment"], found["similarity"]
    assert [t.run for t in first.trials] == [t.run for t in second.trials] and len(first.trials) == 4
    assert len({t.hyperparameters["learning_rate"] for t in first.trials}) == 4
    assert [s.run for s in first.seeds] == [s.run for s in second.seeds]
    assert [s.seed for s in first.seeds] == [0, 1, 2]
    best = max(first.trials, key=lambda trial: trial.selection)
    assert first.seeds[0].run == second.seeds[0].run == best.run
    for task, result in found.items():
        for shown in (*result.trials, *result.seeds):
            assert shown.metrics["accuracy"] == scores_of(shown.run)[task]
            assert shown.selection == float(int(shown.run[4:8], 16))
            ids, predictions, labels = shown.record["predictions"]()
            expected = predictions_of(shown.run)
            for kind, array in (("ids", ids), ("predictions", predictions), ("labels", labels)):
                assert np.array_equal(array, expected[f"{task}/{kind}"])


def predictions_of(run: str) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(int(run[:8], 16))
    return {
        f"{task}/{kind}": draw.integers(0, 99, 5)
        for task in ("sentiment", "similarity")
        for kind in ("ids", "predictions", "labels")
    }


# ---------------------------------------------------------------- shares of the training data


def test_a_share_given_on_the_command_line_reaches_teacher_and_student() -> None:
    plan = resolve(Request("distilled_bilstm", overrides=["train_fraction=0.5"]))
    for found in (c.run for c in plan.cells):
        assert found.settings["train_fraction"] == 0.5
        if isinstance(found, StudentRun):
            assert made(plan, found.teacher).settings["train_fraction"] == 0.5
    assert {made(plan, run).settings["train_fraction"] for run in plan.teachers.values()} == {0.5}


@pytest.mark.parametrize("study", ["objectives_vs_init", "distilled_bilstm", "multi_task"])
def test_a_limit_of_students_is_not_their_teachers_which_has_its_own(study: str) -> None:
    limited = ["train_examples=20", "teacher.train_examples=30"]
    plan = resolve(Request(study, teacher="embedded:train", overrides=limited))
    trained = [c.run for c in plan.cells if isinstance(c.run, StudentRun)]
    assert {run.settings["train_examples"] for run in trained} == {20}
    assert {made(plan, run).settings["train_examples"] for run in plan.teachers.values()} == {30}
    plain = resolve(Request(study, teacher="embedded:train", overrides=limited[:1]))
    assert {made(plain, run).settings["train_examples"] for run in plain.teachers.values()} == {0}


# ---------------------------------------------------------------- what comes before a corpus distillation


@pytest.mark.parametrize(
    ("inits", "start"),
    [
        (None, "every"),
        (("random", "pretrained"), "random"),
        (("pretrained",), "random"),
        (("first", "pretrained"), "first"),
    ],
)
def test_a_distillation_starts_from_the_first_plain_initialisation(
    inits: Sequence[str] | None, start: str, ours: Ours
) -> None:
    plan = ours("after_a_corpus", inits=inits, tasks=["sentiment"])
    ((run, general),) = of_kind(plan, CorpusDistillationRun).items()
    assert general.init == start and general.seed == 0
    for c in plan.cells:
        if c.row == "distilled":
            assert c.run.init == f"pretrained:{run}"


@pytest.mark.parametrize("text", ["masked", "sentences"])
def test_objectives_and_students_that_do_not_suit_the_text(text: str, ours: Ours) -> None:
    plan = ours("on_text", overrides=[f"general.text={text}"], tasks=["sentiment"])
    reasons = {(c.row, c.student): c.refused for c in plan.cells}
    assert not reasons["vectors", "transformer"]
    if text == "sentences":
        assert reasons["masks", "transformer"] == "mlm_kd predicts masked tokens, but general.text is sentences"
        assert not reasons["vectors", "bilstm"]
    else:
        assert not reasons["masks", "transformer"]
        assert reasons["vectors", "bilstm"] == (
            "masked text is that of the teacher's tokenizer, but bilstm has a vocabulary of its own: "
            "general.text=sentences is read by each with its own"
        )
        shared = ours("on_text", overrides=["bilstm.vocabulary=teacher"], students=["bilstm"], objectives=["vectors"])
        assert not any(c.refused for c in shared.cells)


# ---------------------------------------------------------------- settings that have no effect


REFUSED = {
    "masks of sentences": ("sra", "general.mask_probability=0.3", "'general.mask_probability' has no effect"),
    "joint training where there is none": (
        "distilled_bilstm", "multi_task.epochs=2", "'multi_task.epochs' has no effect",
    ),
    "of joint runs that start from nothing": (
        "multi_task_procedures", "multi_task.epochs=2", "'multi_task.epochs' has no effect",
    ),
    "copies where nothing is copied": (
        "multi_task", "multi_task.augmentation_copies=3", "'multi_task.augmentation_copies' has no effect",
    ),
    "a name that is none": ("multi_task", "multi_task.epoch=2", "'multi_task.epoch': did you mean multi_task.epochs"),
    "out of range": ("multi_task", "multi_task.epochs=0", "multi_task.epochs must be at least 1"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_settings_that_act_on_nothing(case: str) -> None:
    study, setting, said = REFUSED[case]
    with pytest.raises(UserError) as error:
        resolve(Request(study, overrides=[setting]))
    assert said in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    "asked",
    [
        {"study": "multi_task", "overrides": ["multi_task.epochs=2"], "tasks": ["sentiment"]},
        {
            "study": "objectives_vs_init", "overrides": ["teacher.epochs=2"], "objectives": ["hid_cls_contrast"],
            "tasks": ["sentiment", "similarity"], "teacher": ["sentiment=embedded", "similarity=embedded:train"],
        },
    ],
)  # fmt: skip
def test_a_setting_of_what_refused_cells_alone_would_start_from(asked: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=f"setting '{asked['overrides'][0][:-2]}' has no effect: no selected cell"):
        resolve(Request(**asked))


def test_a_setting_of_the_joint_training_acts_there_alone() -> None:
    plan = resolve(Request("multi_task", overrides=["multi_task.epochs=2"]))
    found = cell(plan, "mkd_lstm", "sentiment")
    assert [made(plan, run).settings["epochs"] for run in found.starts] == [2, 2]
    assert found.run.settings["epochs"] == 8


def test_masks_act_on_masked_text(ours: Ours) -> None:
    overrides = ["general.mask_probability=0.3"]
    plan = ours("on_text", overrides=overrides, students=["transformer"], tasks=["sentiment"])
    kinds = of_kind(plan, CorpusDistillationRun).values()
    assert len(kinds) == 2 and {found.settings["mask_probability"] for found in kinds} == {0.3}


# ---------------------------------------------------------------- vectors that no task has tuned


@pytest.mark.parametrize("task", ["sentiment", "similarity", "entailment"])
def test_a_cosine_judges_paraphrase_alone(task: str) -> None:
    plan = resolve(Request("untuned_representations", tasks=[task, "paraphrase"]))
    for c in plan.cells:
        if c.task == task:
            assert c.refused == (f"a cosine tells paraphrases from other pairs, which is not what task {task} asks")
        else:
            assert not c.refused and isinstance(c.run, UntunedRun)
