"""Students that start, are trained and are searched as their family declares, and starts of several families."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.contracts import Hyperparameter, ModelInfo, Signal
from harness.errors import UserError
from harness.planning import merging
from harness.planning.explaining import explained
from harness.planning.plan import resolve
from harness.planning.planned import Cell, Plan, trials_of
from harness.planning.recipe import budget, families, in_float32, recipe, recipes_before
from harness.planning.request import Request
from harness.registry import STUDENTS, STUDIES
from harness.runs import BaseTeacher, UntunedRun
from harness.search.progress import progress

STUDY = "objectives_vs_students"
LENGTH = "teacher.max_length"
THREE = ("transformer:layers=2", "bilstm", "cmow")
EMBEDDED = ModelInfo("embedded", 4, 64, 4, 100, 2, frozenset(Signal), "the teacher's")


def quick(*settings: str, study: str = STUDY, tasks: tuple[str, ...] = ("sentiment",), **asked: Any) -> Plan:
    return resolve(Request(study, "quick", overrides=settings, tasks=tasks, **asked), lenient=True)


def starts(plan: Plan) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for cell in plan.cells:
        if not cell.refused:
            found.setdefault(cell.student, []).append(cell.init)
    return found


def first_trial(cell: Cell) -> dict[str, Any]:
    (missing,) = progress(cell, {}, lambda run: None).missing
    return dict(missing.settings)


def test_each_family_starts_and_is_trained_and_searched_in_its_own_way() -> None:
    plan = quick(objectives=["labels_only", "vanilla_kd"], students=THREE)
    of_kd = {cell.student: cell for cell in plan.cells if cell.row == "vanilla_kd"}
    assert {name: cell.init for name, cell in of_kd.items()} == dict(
        zip(THREE, ("every", "random", "random"), strict=True)
    )
    for name, cell in of_kd.items():
        own = STUDENTS.get(name.partition(":")[0]).recipe(EMBEDDED)
        assert own.settings and {key: cell.run.settings[key] for key in own.settings} == own.settings
        rate = own.search["learning_rate"]
        assert cell.space["learning_rate"] == {"low": rate.low, "high": rate.high, "log": True, "whole": False}
        assert rate.low <= first_trial(cell)["learning_rate"] <= rate.high
        assert {*cell.space} == {"learning_rate", "vanilla_kd.temperature", "vanilla_kd.alpha"}
    labels = [cell for cell in plan.cells if cell.row == "labels_only"]
    assert all({*cell.space} == {"learning_rate"} for cell in labels)
    for cell in labels:  # the same points, with what is searched beside them or without
        assert first_trial(cell)["learning_rate"] == first_trial(of_kd[cell.student])["learning_rate"]
    assert len({(cell.trials, cell.seeds) for cell in plan.cells}) == 1
    said = " ".join(families(plan))
    assert "transformer:layers=2: init every; learning_rate searched from" in said and "bilstm: init random" in said
    assert "learning_rate by student" in budget(plan) and "drawn at random" in budget(plan)
    assert "epochs 5 (transformer:layers=2), 15 (bilstm, cmow)" in recipe(plan)


def test_a_temperature_is_not_searched_where_scores_have_none() -> None:
    plan = quick(objectives=["vanilla_kd"], students=["bilstm"], tasks=("similarity",))
    assert [{*cell.space} for cell in plan.cells] == [{"learning_rate", "vanilla_kd.alpha"}]


def test_what_is_typed_stands_over_what_a_family_declares() -> None:
    plan = quick(
        "learning_rate=1e-3", "epochs=2", "vanilla_kd.temperature=2", objectives=["vanilla_kd"], students=THREE
    )
    assert all({*cell.space} == {"vanilla_kd.alpha"} for cell in plan.cells)
    assert {(c.run.settings["learning_rate"], c.run.settings["epochs"]) for c in plan.cells} == {(1e-3, 2)}


def test_a_student_with_settings_of_its_own_has_the_runs_that_have_them_by_name() -> None:
    asked: dict[str, Any] = {"objectives": ["vanilla_kd"], "inits": ["every", "random"]}
    both = quick(students=["transformer:layers=2", "transformer:layers=1"], **asked)
    named = quick("transformer.layers=2", students=["transformer"], **asked)
    runs = {cell.run.identity({}) for cell in both.cells if cell.student == "transformer:layers=2"}
    assert runs == {cell.run.identity({}) for cell in named.cells} and len(runs) == 2
    assert {(cell.student, cell.run.settings["transformer.layers"]) for cell in both.cells} == {
        ("transformer:layers=2", 2),
        ("transformer:layers=1", 1),
    }
    for words, sentence in (
        (["transformer:layer=2"], "unknown setting 'layer'"),
        (["transformer:layers=0"], "layers must be at least 1"),
        (["transformer:layers"], "a student takes KEY=VALUE"),
        (["transformr:layers=2"], "unknown student 'transformr'"),
    ):
        with pytest.raises(UserError, match=sentence):
            quick(students=words)
    with pytest.raises(UserError, match=r"'transformer\.layers' has no effect"):
        quick("transformer.layers=3", students=["transformer:layers=2"], objectives=["vanilla_kd"])


@pytest.mark.parametrize("study", [STUDY, "objectives_vs_init"])
def test_of_several_initialisations_each_student_takes_those_that_it_knows(study: str) -> None:
    asked: dict[str, Any] = {"study": study, "objectives": ["vanilla_kd"], "students": ["transformer", "bilstm"]}
    found = starts(quick(inits=["every", "random"], **asked))
    assert found == {"transformer": ["every", "random"], "bilstm": ["random"]}
    plan = quick(inits=["every"], **asked)
    assert starts(plan) == {"transformer": ["every"]}
    assert [cell.refused for cell in plan.cells if cell.student == "bilstm"] == [
        "bilstm cannot start from every, which is for other students"
    ]
    with pytest.raises(UserError, match="evry"):
        quick(inits=["every", "evry"], **asked)


def test_a_study_of_other_students_takes_the_initialisations_that_these_know() -> None:
    plan = quick(study="objectives_vs_init", students=["transformer", "bilstm"], objectives=["vanilla_kd"])
    assert starts(plan) == {"transformer": ["every", "first", "last", "random"], "bilstm": ["random"]}


def test_the_sampler_is_chosen_and_is_no_part_of_a_run() -> None:
    asked: dict[str, Any] = {"objectives": ["vanilla_kd"], "students": ["bilstm"]}
    (drawn,), (by_tpe,) = quick(**asked).cells, quick("sampler=tpe", **asked).cells
    assert (drawn.sampler, by_tpe.sampler) == ("random", "") and drawn.search != by_tpe.search
    assert drawn.run.identity({}) == by_tpe.run.identity({}) and "sampler" not in drawn.run.settings
    with pytest.raises(UserError, match="sampler grid tries the values that a study lists, but learning_rate is"):
        quick("sampler=grid", **asked)
    with pytest.raises(UserError, match="'sampler' has no effect"):
        quick("sampler=tpe", "learning_rate=1e-3", "vanilla_kd.temperature=2", "vanilla_kd.soft_weight=0.5", **asked)
    with pytest.raises(UserError, match="sampler is one of grid, random, tpe"):
        quick("sampler=qmc", **asked)
    grid: dict[str, Any] = {"study": "objectives_vs_init", "objectives": ["vanilla_kd"], "inits": ["every"]}
    (usual,), (same,), (other,) = (quick(*word, **grid).cells for word in ((), ("sampler=grid",), ("sampler=random",)))
    assert usual.to_json() == same.to_json() and other.sampler == "random" and other.search != usual.search


def test_numbers_that_a_study_lists_are_drawn_between_the_least_and_the_greatest() -> None:
    asked: dict[str, Any] = {"study": "objectives_vs_init", "objectives": ["vanilla_kd", "att_kl"], "inits": ["every"]}
    plans = [quick(*word, tasks=("acceptability",), **asked, trials=8) for word in ((), ("sampler=random",))]
    listed, drawn = ({name: v for cell in plan.cells for name, v in cell.space.items()} for plan in plans)
    assert listed == {"learning_rate": [2e-3, 1e-3]}
    assert drawn == {"learning_rate": {"low": 1e-3, "high": 2e-3, "log": True, "whole": False}}
    assert [{trials_of(cell) for cell in plan.cells} for plan in plans] == [{2}, {8}]


def test_words_and_whole_numbers_stay_lists() -> None:
    declared = {"rate": Hyperparameter(0.1), "epochs": Hyperparameter(3), "schedule": Hyperparameter("linear")}
    space: dict[str, Any] = {"epochs": [1, 2], "schedule": ["linear", "constant"], "rate": [0.0]}
    assert merging.widened(space, declared) == space  # one value is no range
    assert merging.widened({"rate": [0.5, 0.0]}, declared) == {
        "rate": {"low": 0.0, "high": 0.5, "log": False, "whole": False}
    }


def test_the_budget_says_where_one_seed_is_enough() -> None:
    plan = resolve(Request("untuned_representations", "quick"), lenient=True)
    assert {cell.seeds for cell in plan.cells} == {1, 2}
    assert "2 seeds (1 of what no seed changes), the same for every cell" in budget(plan)
    drawn = resolve(Request("untuned_representations", "quick", overrides=("sampler=random",)), lenient=True)
    assert "drawn at random" in budget(replace(drawn, cells=drawn.cells[::-1]))  # the last has nothing to search
    assert "3 seeds, the same" in budget(quick(objectives=["labels_only"], students=THREE, seeds=3))


def test_the_budget_names_what_only_cells_of_fewer_settings_search() -> None:
    """As the setting of a new objective beside those of vanilla KD."""
    plan = quick(objectives=["labels_only", "vanilla_kd"], students=("transformer",))
    assert "in other cells" not in budget(plan)
    cells = [replace(c, space={**c.space, "epochs": [1, 2]}) if c.row == "labels_only" else c for c in plan.cells]
    assert "vanilla_kd.soft_weight 0.2 to 1; in other cells epochs 1 or 2)" in budget(replace(plan, cells=cells))


def test_how_a_teacher_is_fine_tuned_is_told_as_far_as_its_students_do_not_share_it(
    glue: Path, checkpoint: Path
) -> None:
    """Its own length and share of the data are told, in the notes of tables and beside the text of the work."""
    of_teacher = "teacher.epochs=2", "teacher.max_length=12"

    def told(*settings: str) -> tuple[str, set[str]]:
        request = Request(
            "objectives_vs_init", "quick", tasks=["sst2", "rte"], data=str(glue), teacher=str(checkpoint),
            overrides=settings,
        )  # fmt: skip
        plan = resolve(request, lenient=True)
        (sentence,) = recipes_before(plan)
        lines = {line.name: line.ours for line in explained(plan, STUDIES.get(plan.study))}
        return sentence, {f"{name} {ours}" for name, ours in lines.items() if name in ("teacher.epochs", LENGTH)}

    sentence, lines = told(*of_teacher, "max_length=16")
    assert sentence.startswith(f"Fine-tuning of teacher {checkpoint.name}: ") and sentence.endswith(".")
    settings = sentence.rstrip(".").partition(": ")[2].split("; ")
    assert {"epochs 2", "max_length 12", "train_examples 0", "learning_rate 5e-05"} <= {*settings}
    assert not any(setting.startswith(("precision", "train_fraction", "pruner", "cache")) for setting in settings)
    assert lines == {"teacher.epochs 2", "teacher.max_length 12"}
    sentence, lines = told("max_length=12")
    assert "max_length" not in sentence and LENGTH not in " ".join(lines), "its students' own"


def test_all_distillations_on_a_corpus_are_one_sentence() -> None:
    """What they share is said once, and of what differs whose it is."""
    (told,) = (said for said in recipes_before(quick(students=THREE)) if said.startswith("General distillation"))
    who, _, settings = told.removeprefix("General distillation of ").partition(", once (seed 0), on corpus embedded: ")
    assert who.split("; of ") == [
        "transformer by mlm_kd, cosine, init every",
        "cmow by mlm_kd, cosine, init random",
        "bilstm by cosine, init random",
    ]
    parts = settings.removesuffix(".").split("; ")
    assert len(parts) == len({part.split()[0] for part in parts})
    assert {"student.matrix_size 8", "student.hidden_units 48", "text masked (mlm_kd), sentences (cosine)"} <= {*parts}


def test_files_of_vectors_are_told_by_their_names(tmp_path: Path) -> None:
    """Settings have them by content, which nobody can read."""
    file = tmp_path / "mine.txt"
    file.write_text("good 0.5 0.25\nbad -0.5 0.25\n", encoding="utf-8")
    augmented = (f"augmentation=word_vectors:{file}", "augmentation_copies=2", "bilstm.embedding_size=2")
    asked = quick(*augmented, study="sra", inits=(f"vectors:{file}",), objectives=["kd", "sra"])
    assert "; augmentation word_vectors:mine.txt;" in recipe(asked)
    (general,) = (said for said in recipes_before(asked) if said.startswith("General distillation"))
    assert "by cosine, init vectors:mine.txt, once" in general
    (line,) = (line for line in explained(asked, STUDIES.get(asked.study)) if line.name == "augmentation")
    assert line.ours == "word_vectors:mine.txt"
    (content,) = asked.files
    assert f"vectors:{content}" in {cell.run.init for cell in asked.cells}


def test_an_untuned_teacher_waits_for_its_pre_training() -> None:
    plan = resolve(Request("untuned_representations", teacher="embedded:train", tasks=["paraphrase"]))
    untuned = [(c.run.teacher, c.after) for c in plan.cells if isinstance(c.run, UntunedRun) and not c.refused]
    assert untuned and all(isinstance(who, BaseTeacher) and who.pretrained in after for who, after in untuned)


@pytest.mark.parametrize(
    ("students", "who"),
    [
        (("bilstm", "cbow"), "bilstm, which computes"),
        (("bilstm", "biattentive_lstm"), "bilstm and biattentive_lstm, which compute"),
        (("cbow",), ""),
    ],
)
def test_students_that_precision_does_not_reach_are_told(students: tuple[str, ...], who: str) -> None:
    told = in_float32(quick("precision=bfloat16", students=students))
    assert all(sentence.endswith(f"{who} in float32.") for sentence in told) and len(told) == bool(who)
    assert not in_float32(quick(students=students))
