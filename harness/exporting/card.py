"""The model card of an exported student: README.md with the metadata that Hugging Face's hub reads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import EvalResult, ModelCardData

from harness import registry
from harness.contracts import Task
from harness.exporting.opened import Opened
from harness.files import JSON

ANSWERS, LABELS = "answers", "labels"
LICENCE = "# license: to be filled in, see the section Licence\n"
BFLOAT16 = ", as they were computed in bfloat16; the folder computes in float32, which moves probabilities a little"
# What hf.co/metrics calls them, by which the hub finds scores; of others our own names stand.
HUB_METRICS = {
    "matthews": "matthews_correlation",
    "pearson": "pearsonr",
    "spearman": "spearmanr",
    "r2": "r_squared",
}
SAID = ("student", "objective", "row", "init", "data", "speed", "version")
CARD = """---
{yaml}
{licence}---

# {student}, {trained}

A `{kind}` that reads {reads} and answers {answers}. {how}

Made with distill-harness {version}.

| | |
|---|---|
| Teacher | {teacher} |
| Objective | {objective} (row `{row}`) |
| Student | {student}, initialisation {init} |
| Data | {data} |
| Size | {parameters:,} parameters, {megabytes:.1f} MB |
| Speed | {speed} |

## Scores

{table} The scores of these weights themselves, on dev{arithmetic}:

| metric | x 100 |
|---|---:|
{scores}

## How to use

```python
{use}
```

Texts are cut to {max_length} tokens, as they were in training.

## How it was trained

| setting | value |
|---|---|
{settings}

`harness_student.json` has all that the run is, by which the harness makes it again.

## How to cite

Cite the works that the teacher, the objective and the data come from, and the harness:

```bibtex
@software{{distill_harness,
  title = {{distill-harness: comparing objectives for distilling language models}},
  version = {{{version}}}
}}
```

## Licence

To be filled in by whoever publishes this: {bound}. Put it as `license:` into the lines at the top, too.
"""


@dataclass(frozen=True)
class About:
    """What a card tells of a run.

    name: how people open it, a folder or a name on the hub. teacher, data: as people call them; base: the teacher's
    name on the hub, or "", as where nothing is taken from it. objective: the row's label. table: the sentence on the
    row of the table; metrics: the run's own on dev, as fractions. recipe: setting -> value; speed: the sentence on it;
    made: as JSON, which run it is. learnt: from a teacher's ANSWERS, from LABELS alone, or from nothing (""); starts:
    from whose weights, as in "its layers start from minilm", or "". dataset, configuration: as the hub calls the data,
    or "" where they are not from there; split: as it calls what is reported, or "" of a user's own data.
    """

    name: str
    row: str
    objective: str
    student: str
    init: str
    teacher: str
    base: str
    data: str
    table: str
    metrics: Mapping[str, float]
    recipe: Mapping[str, object]
    speed: str
    version: str
    made: JSON
    learnt: str
    starts: str
    dataset: str = ""
    configuration: str = ""
    split: str = ""


def text(about: About, opened: Opened, kind: str, plain: bool, size: int) -> str:
    """The card. kind: the model's class; plain: transformers opens it; size: bytes of its weights."""
    task, taught = opened.task, about.learnt == ANSWERS
    results = [
        EvalResult(
            "text-classification",
            about.dataset or task.name,
            task.label,
            HUB_METRICS.get(name, name),
            round(value, 6),
            dataset_config=about.configuration or None,
            dataset_split=about.split or None,
            metric_name=name,
        )
        for name, value in sorted(about.metrics.items())
    ]
    data = ModelCardData(
        model_name=f"{about.row}-{about.student}-{task.name}",
        library_name="transformers" if plain else "distill-harness",
        pipeline_tag="text-classification",
        tags=[*(["knowledge-distillation"] * taught), "distill-harness", *(() if plain else ("pytorch",))],
        base_model=about.base or None,
        eval_results=results,
    )
    return CARD.format(
        yaml=data.to_yaml(),
        licence=LICENCE,
        kind=kind,
        reads="a pair of sentences" if task.pair else "a text",
        answers=f"one of {', '.join(task.labels)}" if task.labels else "a score",
        **_learnt(about, task),
        parameters=sum(part.numel() for part in opened.model.parameters()),
        megabytes=size / 1e6,
        table=about.table,
        arithmetic=BFLOAT16 if about.recipe.get("precision") == "bfloat16" else "",
        use=_use(about.name, task, "" if plain else str(opened.model.name)),
        max_length=opened.max_length,
        scores="\n".join(f"| {name} | {100 * value:.1f} |" for name, value in sorted(about.metrics.items())),
        settings="\n".join(f"| {name} | {_cell(value)} |" for name, value in sorted(about.recipe.items())),
        **{name: _cell(getattr(about, name)) for name in SAID},
    )


def _learnt(about: About, task: Task) -> dict[str, str]:
    """How it came to answer the task: whoever had no teacher has none in the card."""
    teacher, starts = _cell(about.teacher), about.starts
    data = "the licence of that model and that of the data bind it" if starts else "the licence of the data binds it"
    told = {"teacher": "none", "bound": f"{starts}, so {data}" if starts else data}
    more = f"; {starts}." if starts else "."
    if about.learnt == ANSWERS:
        return {
            "trained": f"distilled by {_cell(about.objective)} for {task.label}",
            "how": "It was distilled from a larger model.",
            "teacher": teacher,
            "bound": "a student learns from its teacher's answers and often starts from its weights, so the licence of "
            f"the teacher ({teacher}) and that of the data bind it",
        }
    if about.learnt == LABELS:
        how = "It was trained on the labels alone, without a teacher's answers"
        return {**told, "trained": f"trained on the labels of {task.label}", "how": how + more}
    return {**told, "trained": f"as it answers {task.label}", "how": "Nothing of it was trained here" + more}


def _use(name: str, task: Task, student: str) -> str:
    """student: the plugin that the weights belong to, "" of transformers' own model."""
    example = '("A text.", "Another.")' if task.pair else '"A text."'
    if student:
        told, file = "", Path(registry.STUDENTS.origin(student)).name
        if not registry.STUDENTS.ships(student):
            told = f"# {student} is of a plugin, {file}: install its distribution, or add plugins=[its file]\n"
        return f'import harness\n\n{told}student = harness.load("{name}")\nprint(student.predict([{example}]))'
    asked = '{"text": "A text.", "text_pair": "Another."}' if task.pair else example
    more = "" if task.outputs > 1 else ', function_to_apply="none"'
    return (
        "from transformers import pipeline\n\n"
        f'student = pipeline("text-classification", model="{name}")\nprint(student({asked}, truncation=True{more}))'
    )


def _cell(value: object) -> str:
    """For a cell of a Markdown table."""
    return (value if isinstance(value, str) else json.dumps(value)).replace("|", "\\|").replace("\n", " ")
