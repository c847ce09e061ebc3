"""Settings that are asked for and do nothing, or are called otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.commands import declared
from harness.errors import UserError
from harness.planning.plan import resolve
from harness.planning.request import Request
from harness.runs import TeacherRun
from tests.identities import every_setting


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("vanilla_kd.temperature=3", "setting 'vanilla_kd.temperature' has no effect: it is of vanilla_kd, which no"),
        ("bilstm.hidden_units=64", "setting 'bilstm.hidden_units' has no effect: it is of bilstm, which no selected"),
        ("student.matrix_size=4", "setting 'student.matrix_size' has no effect: it is of bidirectional_hybrid or cmow"),
        ("vanilla_kd.temprature=3", "unknown setting 'vanilla_kd.temprature': did you mean"),
        ("lr=0.1", "unknown setting 'lr': did you mean learning_rate?"),
        ("assistant.layers=2", "setting 'assistant.layers' has no effect: it is of procedure assistant, which no"),
        ("student.head=cnn", "setting 'student.head' has no effect: it is of "),
        ("seed=1", "unknown setting 'seed': did you mean --seeds, which is a flag?"),
        ("trials=2", "unknown setting 'trials': did you mean --trials, which is a flag?"),
        ("teacher.lr=0.1", "unknown setting 'teacher.lr': did you mean teacher.learning_rate?"),
        ("rate=0.1", "unknown setting 'rate': did you mean learning_rate or "),
        ("bs=8", "unknown setting 'bs': did you mean batch_size?"),
    ],
)
def test_what_a_setting_is_of_or_may_be_is_said(setting: str, said: str) -> None:
    with pytest.raises(UserError) as error:
        resolve(Request("objectives_vs_init", objectives=["labels_only"], tasks=["sentiment"], overrides=[setting]))
    assert str(error.value).startswith(said)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("label=mood", "'label': did you mean mine.label?"),
        ("delimeter=tab", "'delimeter': did you mean mine.delimiter?"),
    ],
)
def test_a_setting_of_own_data_is_said_with_the_name_of_the_task(setting: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("text,mood\na fine film,good\ndull,bad\n")
    with pytest.raises(UserError) as error:
        resolve(Request("objectives_vs_init", tasks=[f"mine={tmp_path / 'mine.csv'}"], overrides=[setting]))
    assert str(error.value) == f"unknown setting {said}"


def test_the_setting_that_ends_in_a_word_may_be_meant() -> None:
    asked = Request("objectives_vs_init", students=["cbow"], tasks=["sentiment"], overrides=["dropout=0.1"])
    with pytest.raises(UserError, match="did you mean .*student.hidden_dropout or "):
        resolve(asked)


def test_of_every_setting_some_values_are_none() -> None:
    """Otherwise a negative number or a misspelt word is found out by a run, once its teacher is trained."""
    free = {"TRAINING augmentation", "TRAINING augmentation_vectors"}  # a word and a file, which are read
    numbers = {name: h for name, h in every_setting().items() if not isinstance(h.default, (bool, str))}
    assert [name for name, h in numbers.items() if h.low is None and not h.choices] == []
    words = {name: h for name, h in every_setting().items() if isinstance(h.default, str)}
    assert {name for name, h in words.items() if not h.choices} == free


def test_minus_nothing_is_nothing() -> None:
    def runs(*settings: str) -> list[str]:
        asked = Request("objectives_vs_init", objectives=["labels_only"], tasks=["sentiment"], overrides=settings)
        plan = resolve(asked)
        return [each.run.identity(plan.defaults) for each in plan.cells]

    assert runs("weight_decay=-0.0") == runs("weight_decay=0") != runs()


def test_a_teacher_is_said_to_take_the_settings_of_its_students_that_it_takes() -> None:
    told = next(line.text for line in declared.lines("settings") if line.name == "teacher.NAME")
    names = told.rpartition("; ")[2].partition(" are those of its students")[0].split(", ")
    asked = {"max_length": 24, "protocol": "published", "threads": 2, "precision": "bfloat16"}
    given = [f"{name}={value}" for name, value in (asked | {"batch_size": 8, "patience": 2}).items()]
    plan = resolve(Request("objectives_vs_init", overrides=given, tasks=["sentiment"], teacher="embedded:train"))
    (teacher,) = (first.run for first in plan.first.values() if isinstance(first.run, TeacherRun))
    assert set(names) == asked.keys() and asked.items() <= teacher.settings.items()
    assert teacher.settings["batch_size"] != 8 and teacher.settings["patience"] == 0
