"""A study as it was run, in the words of a paper's section on experiments, with what it cites as BibTeX."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from harness import registry
from harness.commands import declared
from harness.contracts import Study, TableRow
from harness.errors import listed
from harness.planning.planned import Plan, distinct
from harness.planning.recipe import as_known
from harness.reports import Table
from harness.reports.papers.references import Citations
from harness.reports.tables.layout import notes, units
from harness.reports.tables.quantities import written
from harness.runs.told import Record
from harness.search import frame
from harness.search.estimate import words

FORMATS = ("methods", "bibtex")
SOFTWARE = {"python": "Python", "torch": "PyTorch", "transformers": "transformers", "numpy": "NumPy"}
CITED_SETTINGS = ("optimiser", "pruner")  # of which some values are works of their own


def write(plan: Plan, ledger: Any, table: Table, form: str) -> str:
    """The section as Markdown, which cites as pandoc reads it: [@key]; or the entries of what it cites.

    ledger: has `read`. Every sentence is of the plan or of what is recorded.
    """
    citations = Citations()
    study = registry.STUDIES.get(plan.study)
    sections = {
        "Question": _question(plan, study, table, citations),
        "Data": _data(plan, table, citations),
        "Models": _models(plan, table, citations),
        "Objectives": _objectives(plan, study, citations),
        "Training, selection and tests": _training(plan, table, citations),
        "Runs": _runs(plan, ledger, table, citations),
    }
    parts = {name: " ".join(filter(None, sentences)) for name, sentences in sections.items()}
    if form == "bibtex":
        return citations.bibtex() + "\n"
    told = [f"**{name}.** {text}" for name, text in parts.items() if text]
    if citations.unknown:
        told.append(f"**To be added to the references.** {listed(citations.unknown)}.")
    return "\n\n".join(["## Experimental settings", *told]) + "\n"


def _question(plan: Plan, study: Study, table: Table, citations: Citations) -> Iterable[str]:
    yield f"{study.question} This is study `{plan.study}`, in its profile {plan.profile}."
    if study.published:
        works = dict.fromkeys(Path(file).name.partition("_")[0] for file in study.published.files)
        yield f"It asks what was asked in {study.published.source}{citations.cite(*works)}."
    cells = frame.cells(plan, table.runs)
    refused = sum(bool(cell.refused) for cell in cells)
    made = sum(0 < len(cell.seeds) == cell.wanted_seeds for cell in cells)
    rest = len(cells) - refused
    if rest == 1:
        yield f"Its one cell is {'' if made else 'not '}finished."
    else:
        yield f"{made if made < rest else 'All'} of its {rest} cells {'is' if made == 1 else 'are'} finished."
    yield f"{_number(refused, 'further cell')} cannot exist." if refused else ""


def _data(plan: Plan, table: Table, citations: Citations) -> Iterable[str]:
    sizes = _sizes(table)
    labels: dict[str, list[str]] = {}
    for column in table.columns:
        if column.task:
            labels.setdefault(column.task, [column.label]).append(column.metric.replace("_", " "))
    told = []
    for task, (label, *metrics) in labels.items():
        trained, dev = sizes.get(task, ((), 0))
        size = [f"{_range(trained)} examples to train on"] if trained else []
        size += [f"{dev:,} of dev"] if dev else []
        what = "; ".join(filter(None, (", ".join(size), " and ".join(metrics))))
        told.append(f"{label} ({what}){citations.cite(f'task:{task}')}")
    yield f"Tasks: {'; '.join(told)}." if told else ""
    source = plan.source if plan.trains and plan.source else ""
    yield f"They are read from `{_place(source)}`." if told and source and not plan.declared else ""
    if plan.corpus:
        told = [f"`{_place(part)}`{citations.cite(f'corpus:{part}')}" for part in plan.corpus.split("+")]
        yield f"Text without labels: {listed(told)}."


def _sizes(table: Table) -> dict[str, tuple[Sequence[int], int]]:
    """task -> (how many examples its students were trained on, every number; how many dev has), as recorded."""
    found: dict[str, tuple[set[int], int]] = {}
    for run in table.runs:
        if run["chosen"] and run["status"] == "finished":
            task, record = run["task"], run["record"]
            trained, dev = found.get(task, (set(), 0))
            count = record.get("examples")
            count = count.get(task) if isinstance(count, dict) else count  # of several tasks by task
            if isinstance(count, int):
                trained.add(count)
            answers = None if dev else record["predictions"]()
            found[task] = trained, dev or (len(answers[0]) if answers is not None else 0)
    return {task: (sorted(trained), dev) for task, (trained, dev) in found.items()}


def _models(plan: Plan, table: Table, citations: Citations) -> Iterable[str]:
    made = table.provenance
    if plan.trains or made.teacher:
        names = dict.fromkeys((plan.teacher, plan.argument, *(n for pair in plan.checkpoints.values() for n in pair)))
        cited = citations.cite(*(f"teacher:{name}" for name in names if name))
        yield f"Teacher: {plan.label}{cited}." if plan.trains else f"Reference: {plan.label}{cited}."
    scores = [
        f"{written(c.metric, 100 * fmean(s[c.metric] for s in found))} ({c.metric.replace('_', ' ')}) on {c.label}"
        for c in table.columns
        if c.task and c.selects and (found := made.teacher_scores.get(c.task)) and all(c.metric in s for s in found)
    ]
    yield f"It reaches {', '.join(scores)}." if scores and made.tuned and ";" not in plan.label else ""
    if made.teachers > 1:
        yield f"It is fine-tuned {made.teachers} times, and each seed of a student learns from one."
    cells = [cell for cell in plan.cells if cell.student and not cell.refused]
    students = dict.fromkeys(cell.student for cell in cells)
    named = [f"`{s}`{citations.cite('student:' + s.partition(':')[0])}" for s in students]
    yield f"Students: {', '.join(named)}." if named else ""
    inits = dict.fromkeys(cell.init for cell in cells if cell.init)
    yield f"They start from: {', '.join(f'`{_place(init)}`' for init in inits)}." if inits else ""


def _objectives(plan: Plan, study: Study, citations: Citations) -> Iterable[str]:
    """Of every row what it is trained by; which objectives name a work."""
    rows = [row for row in plan.rows if row.name in {cell.row for cell in plan.cells} and not row.improves]
    about = {line.name: line.text for line in declared.lines("objectives", plan.plugins)}
    alone: dict[str, None] = {}

    def told(row: TableRow) -> str:
        names = _terms(row.objective)
        works = [work for name in names for work in declared.works(about.get(name, ""))]
        alone.update(dict.fromkeys(name for name in names if not declared.works(about.get(name, ""))))
        return f"{row.label} (`{row.objective}`){citations.cite(*works)}"

    trained = [row for row in rows if row.objective and not row.teacher]
    rest = [row.label for row in rows if row not in trained]
    yield f"Compared by objective: {'; '.join(map(told, trained))}." if trained else ""
    yield f"{'Beside them' if trained else 'Compared'}: {'; '.join(rest)}." if rest else ""
    yield f"No work is named by {listed(f'`{name}`' for name in alone)}." if alone else ""
    before = [first.run for first in plan.first.values() if first.run.student_name]
    others = list(dict.fromkeys(sum_of for run in before for sum_of in run.expressions()))
    works = [work for sum_of in others for name in _terms(sum_of) for work in declared.works(about.get(name, ""))]
    if others:
        named = listed(f"`{objective}`" for objective in others)
        yield f"Runs that students start from are trained by {named}{citations.cite(*works)}."


def _training(plan: Plan, table: Table, citations: Citations) -> Iterable[str]:
    """The procedures in their own words, then what stands under the table."""
    there = {cell.row for cell in plan.cells if not cell.refused}
    procedures = dict.fromkeys(row.procedure or plan.procedure for row in plan.rows if row.name in there)
    for name in procedures:
        if name in registry.PROCEDURES.names():
            text = " ".join((registry.PROCEDURES.get(name).__doc__ or "").partition("\n\n")[0].split()).rstrip(".")
            cited = citations.cite(f"procedure:{name}", *declared.works(text))
            yield f"Procedure `{name}`: {text[:1].lower()}{text[1:]}{cited}."
    settings = [as_known(plan, cell.run.settings) for cell in distinct(plan.cells)]
    values = [(name, value) for name in CITED_SETTINGS for value in dict.fromkeys(s.get(name) for s in settings)]
    cited = citations.cite(*(f"{name}:{value}" for name, value in values if value))
    bold = any(entry.best for entry in table.entries())
    labels: dict[str, dict[str, None]] = {}
    for block in table.blocks:
        for line in block.lines:
            labels.setdefault(line.mark, {})[line.row.label] = None
    samplers = dict.fromkeys(cell.sampler or "" for cell in plan.cells if not cell.refused and cell.space)
    ranges = any(isinstance(v, Mapping) for cell in plan.cells for v in cell.space.values())
    drawn = citations.cite(*(f"sampler:{s or 'tpe'}" for s in samplers if s or ranges))
    for mark, sentence in notes(table, bold):
        if mark.isdigit():  # why a cell cannot exist
            continue
        text = f"{', '.join(labels[mark])}: {sentence.rstrip('. ')}." if mark in labels and mark else sentence
        extra = {"Training": cited, "Search budget": drawn, "Bold": citations.cite("test:best") if bold else ""}
        yield next((text.rstrip(".") + extra[k] + "." for k in extra if text.startswith(k) and extra[k]), text)
    if table.provenance.protocol == "held_out":
        yield "What is held out is a tenth of the training data, or 2,000 examples where that is more."
    yield units(table, table.columns)


def _runs(plan: Plan, ledger: Any, table: Table, citations: Citations) -> Iterable[str]:
    runs = {row["run"] for row in table.runs if row["run"]}
    records: list[Record] = [r for run in sorted({*runs, *plan.first}) if (r := ledger.read(run))]
    done = [record for record in records if record.get("status") == "finished"]
    if not done:
        yield "Nothing is recorded yet."
        return
    seconds = sum(float(record.get("seconds") or 0.0) for record in done)
    one = len(done) == 1
    yield (
        f"{_number(len(done), 'run')}{', those that others start from among them,' if plan.first else ''} "
        f"{'is' if one else 'are'} finished"
        + (f"; together {'it' if one else 'they'} took {words(seconds)}, each counted by itself." if seconds else ".")
    )
    failed = len(records) - len(done)
    yield f"{_number(failed, 'run')} failed." if failed else ""
    devices = sorted({str(record["device"]) for record in done if record.get("device")})
    memory = max((float(record.get("peak_memory_mib") or 0) for record in done), default=0.0)
    yield f"Device: {listed(devices)}." if devices else ""
    yield f"No run needed more than {memory:,.0f} MiB of memory." if memory else ""
    versions: dict[str, set[str]] = {}
    for record in done:
        for name, version in (record.get("versions") or {}).items():
            versions.setdefault(name, set()).add(str(version))
    told = [
        f"{SOFTWARE.get(name, name)} {' and '.join(sorted(versions[name]))}{citations.cite(f'software:{name}')}"
        for name in sorted(versions, key=lambda name: [*SOFTWARE, name].index(name))
    ]
    yield f"Software: {', '.join(told)}." if told else ""


def _terms(objective: str) -> list[str]:
    """The objectives of a sum, without their weights."""
    return [term.rpartition("*")[2].strip() for term in objective.split("+") if term]


def _place(name: str) -> str:
    """A name; of "FOLDER" or "kind:FILE" that tells where on a machine it lies, the last part alone."""
    kind, colon, path = name.rpartition(":")
    return f"{kind}{colon}{Path(path).name if path.startswith(('/', '.', '~')) else path}"


def _range(numbers: Sequence[int]) -> str:
    return f"{numbers[0]:,}" if len(numbers) == 1 else f"{numbers[0]:,} to {numbers[-1]:,}"


def _number(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"
