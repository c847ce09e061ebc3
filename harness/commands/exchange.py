"""Results in the formats that others collect: `.eval_results` of Hugging Face's hub, and Every Eval Ever's.

Both describe models: a file a cell, of the mean that tables show, or a file a run, with its own scores and answers.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import time
import uuid
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from harness import registry, reports
from harness.contracts import CellResult, RunResult, Task
from harness.data.metric_names import ALL
from harness.errors import UserError, counted
from harness.files import JSON, atomic_write, check_writable
from harness.ledger import Ledger
from harness.planning.planned import Plan
from harness.reports.tables.quantities import FROM_NOTHING
from harness.search import frame

FORMATS = ("eval_results", "every_eval_ever")
SCHEMA = "0.2.2"  # of Every Eval Ever: eval.schema.json and instance_level_eval.schema.json
UNBOUNDED = {"r2"}  # what has no least value cannot be told there
SIGNED = FROM_NOTHING - UNBOUNDED  # from -1 to 1; others are fractions
UNKNOWN = "unknown"  # the organisation, which whoever publishes the files fills in; what old records do not tell
HUB = "hub"  # as --tasks NAME=hub:DATASET says it

Document = dict[str, Any]  # as JSON or YAML


def write(plan: Plan, tasks: Mapping[str, Task], ledger: Ledger, form: str, to: Path) -> list[str]:
    """Write the files of every cell that has a finished run of its chosen setting. Returns sentences on them.

    Raises UserError where there is none, or none that the format has a place for.
    """
    cells = [cell for cell in frame.cells(plan, frame.runs(plan, ledger)) if cell.seeds]
    if not cells:
        raise UserError(f"no cell of study {plan.study} has a finished run that could be written")
    others = [name for name in plan.tasks if form == "eval_results" and not on_hub(plan, tasks[name])[0]]
    if len(others) == len(plan.tasks):
        raise UserError(
            "eval_results names data sets of the hub, and no cell here is of one: use --data hub or --tasks "
            "NAME=hub:DATASET, or --format every_eval_ever"
        )
    scored = [cell for cell in cells if form != "eval_results" or cell.metric in ALL]
    metrics = list(dict.fromkeys(cell.metric for cell in cells if cell not in scored))
    if not scored:
        raise UserError(
            f"eval_results holds scores, but all that is here is {', '.join(metrics)}: use --format every_eval_ever"
        )
    check_writable(to, "--to")
    made, written = {"eval_results": _eval_results, "every_eval_ever": _every_eval_ever}[form], set[str]()
    for cell in scored:
        for name, content in made(plan, cell, tasks[cell.task]):
            if name not in written:  # rows that come to the same runs share a cell, which is told of by the first
                atomic_write(to / name, _as_dated(to / name, content))
            written.add(name)
    left_out = [f"left out, for they are no data sets of the hub: {', '.join(others)}"] if others else []
    left_out += [f"left out, for they are no scores: {', '.join(metrics)}"] if metrics else []
    return [f"{counted(len(written), 'file')} written to {to}", *left_out]


# ---------------------------------------------------------------- Hugging Face's .eval_results


def _eval_results(plan: Plan, cell: CellResult, task: Task) -> Iterator[tuple[str, bytes]]:
    """(file, content) of a cell; nothing where its data are not the hub's."""
    import yaml
    from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml

    dataset, config = on_hub(plan, task)
    if not dataset:
        return
    mean, spread = _mean(cell, cell.metric)
    notes = f"{cell.metric} on dev x 100, {_row(cell)}, mean of {counted(len(cell.seeds), 'seed')}"
    notes += f" ± {100 * spread:.2f}" if spread is not None else ""
    entry = EvalResultEntry(dataset, config, round(100 * mean, 2), notes=notes)
    text = yaml.safe_dump(eval_result_entries_to_yaml([entry]), sort_keys=False, allow_unicode=True)
    yield f"{cell.cell}.yaml", text.encode()


def on_hub(plan: Plan, task: Task) -> tuple[str, str]:
    """(data set, configuration of it) on the hub, or ("", "")."""
    if told := plan.declared.get(task.name):
        where, _, place = str(told["place"]).partition(":")
        name, _, config = place.partition(":")
        return (name, config or "default") if where == HUB else ("", "")
    source = registry.SOURCES.get(plan.source) if plan.source in registry.SOURCES.names() else None
    dataset = getattr(source, "dataset", "")
    called = task.folder.replace("-", "").lower()  # as GLUE's is read: qnli, however its candidates are ranked
    return (dataset, called or task.name) if dataset else ("", "")


# ---------------------------------------------------------------- Every Eval Ever


def _every_eval_ever(plan: Plan, cell: CellResult, task: Task) -> Iterator[tuple[str, bytes]]:
    """(file, content) of each run of a cell: what it scored, and what it answers every dev example with."""
    for run in cell.seeds:
        ended = run.record.get("made_on", {}).get("ended")
        model = f"{UNKNOWN}/{re.sub(r'[^A-Za-z0-9._-]+', '-', _row(cell))}-{run.run}"
        results = [_result(plan, cell, run, task, name) for name in run.metrics if name in {*ALL} - {*UNBOUNDED}]
        if not results:
            continue  # measurements of speed or size
        log: Document = {
            "schema_version": SCHEMA,
            # The format asks for what stays when a log is written again; the moment of writing does not.
            "evaluation_id": f"{plan.study}/{model.replace('/', '_')}/{cell.cell}",
            # Records of before do not tell it; files that hold them are copied and unpacked.
            **({"evaluation_timestamp": str(int(datetime.fromisoformat(ended).timestamp()))} if ended else {}),
            "retrieved_timestamp": str(int(time.time())),  # when the log is written
            "source_metadata": {
                "source_name": f"study {plan.study}, profile {plan.profile}",
                "source_type": "evaluation_run",
                "source_organization_name": UNKNOWN,
                "evaluator_relationship": "first_party",
            },
            "eval_library": {"name": "distill-harness", "version": version_of(run.record) or UNKNOWN},
            "model_info": {
                "name": _row(cell),
                "id": model,
                "developer": UNKNOWN,
                "additional_details": _texts(
                    {"run": run.run, "cell": cell.cell, "seed": run.seed, "teacher": plan.label, **run.hyperparameters}
                ),
            },
            "evaluation_results": results,
        }
        # The name that the format asks for, a UUID of version 4, follows from the run: written again, it is the same.
        name = str(uuid.UUID(hashlib.sha256(f"{cell.cell} {run.run}".encode()).hexdigest()[:32], version=4))
        folder = f"data/{plan.study}/{model}"
        lines = list(_samples(run, task, log, _id(run, cell, cell.metric)))
        if lines:
            content = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode()
            log["detailed_evaluation_results"] = {
                "format": "jsonl",
                "file_path": f"{folder}/{name}_samples.jsonl",
                "hash_algorithm": "sha256",
                "checksum": hashlib.sha256(content).hexdigest(),
                "total_rows": len(lines),
            }
            yield f"{folder}/{name}_samples.jsonl", content
        yield f"{folder}/{name}.json", json.dumps(log, indent=2, ensure_ascii=False).encode() + b"\n"


def _as_dated(path: Path, content: bytes) -> bytes:
    """The content of a log, or what `path` holds where that differs in nothing but when it was written."""
    if path.suffix != ".json":
        return content
    try:
        before = path.read_bytes()
        both = [json.loads(text) | {"retrieved_timestamp": ""} for text in (before, content)]
    except (OSError, ValueError, TypeError):  # none there, or none of ours
        return content
    return before if both[0] == both[1] else content


def version_of(record: Mapping[str, Any]) -> str:
    """The version that made a run, which may be another than the one at work; "" where an old record has none."""
    return str(record.get("made_on", {}).get("harness", "")).partition(" ")[0]


def _id(run: RunResult, cell: CellResult, metric: str) -> str:
    return f"{run.run}/{cell.task}/{metric}"


def _result(plan: Plan, cell: CellResult, run: RunResult, task: Task, metric: str) -> JSON:
    """What a run scored by a metric, beside the mean over its seeds that tables show."""
    value, (mean, spread) = float(run.metrics[metric]), _mean(cell, metric)
    details = {"mean_over_seeds": mean, "seeds": len(cell.seeds)}
    details |= {} if spread is None else {"standard_deviation_over_seeds": spread}
    score: Document = {"score": value, "details": _texts(details)}
    answers = run.record["predictions"]()
    n = 0 if answers is None else len(answers[0])
    if metric == "accuracy" and n > 1:
        deviation = math.sqrt(value * (1 - value) * n / (n - 1))
        score["uncertainty"] = {
            "standard_error": {"value": deviation / math.sqrt(n), "method": "analytic"},
            "standard_deviation": deviation,
            "num_samples": n,
        }
    dataset, config = on_hub(plan, task)
    own = plan.declared.get(task.name)  # of which dev is whatever split there is, as it tells
    data: Document = {"dataset_name": task.name, "source_type": "other"}
    if dataset:
        data |= {"source_type": "hf_dataset", "hf_repo": dataset} | ({} if own else {"hf_split": "val"})
    more = {"configuration": config} if dataset else {}
    data["additional_details"] = {"split": "dev", **more, **({"examples": str(own["told"])} if own else {})}
    return {
        "evaluation_result_id": _id(run, cell, metric),
        "evaluation_name": task.name,
        "source_data": data,
        "metric_config": {
            "evaluation_description": f"{metric} on dev",
            "lower_is_better": False,
            "score_type": "continuous",
            "min_score": -1.0 if metric in SIGNED else 0.0,
            "max_score": 1.0,
        },
        "score_details": score,
    }


def _samples(run: RunResult, task: Task, log: JSON, result: str) -> Iterator[JSON]:
    """What a run answers each dev example with. Of scores nothing: the format asks of an answer whether it is right.

    The ledger holds no texts: `input.raw` is empty, and the example is told by its number.
    """
    answers = run.record["predictions"]() if task.labels else None
    if answers is None:
        return
    for number, predicted, label in zip(*(part.tolist() for part in answers), strict=True):
        said, right = task.labels[int(predicted)], predicted == label
        yield {
            "schema_version": f"instance_level_eval_{SCHEMA}",
            "evaluation_id": log["evaluation_id"],
            "evaluation_result_id": result,
            "model_id": log["model_info"]["id"],
            "evaluation_name": task.name,
            "sample_id": f"{task.name}_dev_{number}",
            "interaction_type": "single_turn",
            "input": {"raw": "", "reference": [task.labels[int(label)]], "choices": list(task.labels)},
            "output": {"raw": [said]},
            "answer_attribution": [
                {
                    "turn_idx": 0,
                    "source": "output.raw",
                    "extracted_value": said,
                    "extraction_method": "exact_match",
                    "is_terminal": True,
                }
            ],
            "evaluation": {"score": float(right), "is_correct": bool(right)},
            "metadata": {"split": "dev", "example": str(number)},
        }


# ---------------------------------------------------------------- shared


def _row(cell: CellResult) -> str:
    return f"{cell.row.name} {cell.init} {cell.student} {cell.task}"


def _mean(cell: CellResult, metric: str) -> tuple[float, float | None]:
    return reports.mean_std([run.metrics[metric] for run in cell.seeds])


def _texts(told: Document) -> dict[str, str]:
    """As the format has details: every value a text."""
    return {name: str(value) for name, value in told.items()}
