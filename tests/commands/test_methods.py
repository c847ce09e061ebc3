"""What `harness report --format methods` says of every study is true of it, and all that it cites has an entry."""

from __future__ import annotations

import inspect
import re
from dataclasses import replace
from typing import Any

import pytest

from harness import registry
from harness.commands import declared, methods, recorded
from harness.planning.planned import Plan, distinct
from harness.registry import STUDIES
from harness.reports.papers.references import Citations, key_of, references
from harness.reports.tables.quantities import MEASURED, WHOLE
from tests.conftest import Harness
from tests.studies.builders import declared as planned

TASKS = [registry.TASKS.get(name) for name in registry.TASKS.names()]
SCORES = {metric: 0.5 for task in TASKS for metric in getattr(task, "metrics", ())}
SCORES |= {f"mismatched_{metric}": 0.5 for metric in SCORES}
QUANTITIES = dict.fromkeys(WHOLE | {*MEASURED}, 5.0)


class Finished:
    """A ledger in which every run is finished after an hour."""

    damaged: dict[str, str] = {}

    def __init__(self, plan: Plan) -> None:
        self.metrics = {"speed": QUANTITIES, "count": dict.fromkeys(WHOLE, 5)}.get(plan.procedure, SCORES)

    def read(self, run: str) -> Any:
        versions = {"python": "3.12.1", "torch": "2.9.0", "transformers": "5.20.0", "numpy": "2.3.0", "other": "1"}
        return {
            "status": "finished",
            "metrics": self.metrics,
            "selection": 0.5,
            "best": {"epoch": 1},
            "curve": [],
            "seconds": 3600.0,
            "device": "cpu",
            "examples": 1234,
            "peak_memory_mib": 2000.0,
            "versions": versions,
            "code": {},
        }

    def predictions(self, run: str) -> None:
        return None


class Empty(Finished):
    def read(self, run: str) -> Any:
        return None


def told(study: str, profile: str = "quick", kind: Any = Finished, form: str = "methods") -> str:
    plan = planned(study, profile)
    ledger = kind(plan)
    return methods.write(plan, ledger, recorded.table_of(plan, ledger), form)


@pytest.mark.parametrize(("kind", "sentence"), [(Finished, "Its one cell is finished."), (Empty, "is not finished.")])
def test_one_cell_is_told_in_the_singular(kind: Any, sentence: str) -> None:
    whole = planned("objectives_vs_init", "quick")
    plan = replace(whole, cells=[cell for cell in whole.cells if not cell.refused][:1])
    ledger = kind(plan)
    assert sentence in methods.write(plan, ledger, recorded.table_of(plan, ledger), "methods")


@pytest.mark.parametrize("study", STUDIES.names())
def test_every_study_is_told_as_it_was_run(study: str) -> None:
    plan, text, nothing = planned(study, "quick"), told(study), told(study, kind=Empty)
    possible = [cell for cell in plan.cells if not cell.refused]  # of which some share all their runs
    assert f"study `{study}`" in text and "in its profile quick" in text
    assert f"All of its {len(possible)} cells are finished." in text
    assert f"0 of its {len(possible)} cells are finished." in nothing and "Nothing is recorded yet." in nothing
    refused = len({cell.id for cell in plan.cells if cell.refused})
    assert ("cannot exist" in text) == bool(refused) and (not refused or f"{refused} further cell" in text)
    assert all(f"`{cell.student}`" in text for cell in possible if cell.student)
    assert all(row.label in text for row in plan.rows if not row.improves and row.name in {c.row for c in possible})
    assert ("Teacher: " in text) == plan.trains and ("Search budget of every cell" in text) == plan.trains
    assert ("What is held out is a tenth" in text) == ("protocol held_out" in text) == plan.trains
    runs = sum(min(cell.trials, 99) for cell in distinct(plan.cells) if not cell.space)
    (counted,) = re.findall(r"^\*\*Runs\.\*\* ([\d,]+) runs?,? ", text, re.MULTILINE)
    assert runs <= int(counted.replace(",", ""))
    assert "PyTorch 2.9.0 [@paszke2019]" in text and "other 1" in text
    assert not re.search(r"None|nan|\[\]|\.\.|  |/tmp|results/|To be added", text), text
    cited = set(re.findall(r"@([a-z]+\d{4})", text))
    assert cited <= set(references())
    entries = set(re.findall(r"^@\w+\{(\w+),", told(study, form="bibtex"), re.MULTILINE))
    assert entries == cited and told(study) == text


@pytest.mark.parametrize("study", ["objectives_vs_init", "task_agnostic_objectives", "multi_task"])
def test_the_published_settings_are_told_with_their_works(study: str) -> None:
    text = told(study, "paper")
    assert "protocol published" in text and "What is held out" not in text and "wang2018" in text
    works = {"objectives_vs_init": "liu2019", "task_agnostic_objectives": "zhu2015", "multi_task": "devlin2019"}
    assert f"@{works[study]}" in text


def test_what_is_held_out_is_a_tenth() -> None:
    from harness.data.encoding import hold_out

    parameters = inspect.signature(hold_out).parameters
    assert (parameters["fraction"].default, parameters["most"].default) == (0.1, 2000)


def test_every_work_that_a_plugin_names_has_an_entry() -> None:
    lines = [line for kind in ("objectives", "procedures", "students") for line in declared.lines(kind)]
    named = {work for line in lines for work in declared.works(line.text)}
    assert not {work for work in named if key_of(work) not in references()} and len(named) > 20


def test_every_entry_stands_for_something_that_there_is() -> None:
    kinds: dict[str, Any] = {"task": registry.TASKS, "student": registry.STUDENTS, "procedure": registry.PROCEDURES}
    for entry in references().values():
        for name in entry.names:
            kind, _, rest = name.partition(":")
            assert kind not in kinds or rest in kinds[kind].names(), name
    glue = [n for n in registry.TASKS.names() if registry.TASKS.origin(n).endswith("glue.py")]
    assert all(Citations().cite(f"task:{name}") for name in glue)


def test_entries_are_whole() -> None:
    for key, entry in references().items():
        assert re.fullmatch(r"[a-z]+(19|20)\d\d", key) and f"  year{'':0}" in entry.text
        assert (
            key[-4:] in entry.text and entry.text.count("{") == entry.text.count("}") and "keywords" not in entry.text
        )
        assert all(field in entry.text for field in ("  author", "  title", "  year"))


@pytest.mark.parametrize(
    ("work", "key"),
    [("Hinton et al. (2015)", "hinton2015"), ("Tung and Mori (2019)", "tung2019"), ("wu2020", "wu2020")],
)
def test_works_are_found_by_author_and_year(work: str, key: str) -> None:
    assert key_of(work) == key


def test_a_work_without_an_entry_is_named() -> None:
    citations = Citations()
    assert citations.cite("Nobody et al. (1999)", "hinton2015") == " [@hinton2015]"
    assert list(citations.unknown) == ["Nobody et al. (1999)"] and list(citations.used) == ["hinton2015"]


def test_a_study_that_only_counts_needs_no_records(call: Harness) -> None:
    made = call("report", "--study", "parameter_counts", "--format", "methods")
    assert made.returncode == 0 and "Procedure `count`: the number of their parameters." in made.stdout


def test_a_text_holds_no_place_on_a_machine() -> None:
    names = ("/home/me/glue", "glove:/data/glove.txt", "../wiki", "hub:wikipedia", "embedded", "hub:a/b")
    assert [*map(methods._place, names)] == ["glue", "glove:glove.txt", "wiki", "hub:wikipedia", "embedded", "hub:a/b"]
