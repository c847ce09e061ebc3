"""What teachers emit, found out once for the same weights and the same code, and kept."""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import PreTrainedModel

from harness import registry
from harness.answers import Faulty, ask
from harness.code_versions import fingerprint, of_teacher
from harness.contracts import ModelInfo, Signal, Task
from harness.errors import UserError
from harness.files import digest, read_sealed, write_sealed
from harness.modeling import caught, examination, initialisation, layers, signals
from harness.modeling.examination import Findings
from harness.threads import one_thread

_found: dict[str, Findings] = {}  # in this process


def narrowed(
    info: ModelInfo, source: Any, task: Task, masked: bool, content: str, cache: Path | None, lenient: bool
) -> ModelInfo:
    """`info` without the signals that the teacher's model does not really emit.

    content: a hash of its base weights. masked: it is used as a masked language model. cache: where findings are kept
    beyond this process. With `lenient` nothing is written, and a model that cannot be had is believed. Raises UserError
    for one that cannot be used.
    """
    code = [fingerprint(str(part.__file__)) for part in (signals, caught, layers, initialisation, examination)]
    code += [of_teacher(source.name), transformers.__version__, torch.__version__]
    key = digest([source.name, content, masked, code])
    if key not in _found:
        file = cache / "examined" / f"{key[:16]}.json" if cache else None
        known = _read(file, key)
        if known is None:
            with one_thread():
                try:
                    model = _model(source, task, masked)
                except UserError as error:
                    if not lenient or isinstance(error, Faulty):
                        raise
                    return info
                known = examination.examine(model, masked)
            if file and not lenient:
                write_sealed(file, {"key": key, **asdict(known)})
        _found[key] = known
    found = _found[key]
    emits = info.emits - {Signal(name) for name in found.lacks}
    return replace(info, emits=emits, lacks=found.lacks, uncopied=found.uncopied, traits=found.traits)


def _model(source: Any, task: Task, masked: bool) -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # of what is random before training
        method, call = "model", partial(source.model, task, None)
        if masked:
            method, call = "masked_language_model", source.masked_language_model
        return ask(registry.TEACHERS, source.name, method, PreTrainedModel, call)


def _read(file: Path | None, key: str) -> Findings | None:
    """What a file holds of this very model and code; None where it does not, or is damaged."""
    known = read_sealed(file) if file else {}
    return Findings(known["lacks"], known["uncopied"], tuple(known["traits"])) if known.get("key") == key else None
