"""The embedded teacher's weights as they are shipped: one file of about a megabyte, and how it is made.

embedded.safetensors holds the pre-trained encoder with its masked-language-model head as float16, named
pretrained.NAME, and of the classifier of each task, TASK.NAME, what fine-tuning added to the encoder as float8 (e4m3)
and the rest as float16. Sums are taken in float32.

`make embedded-teacher` trains the teacher anew (embedded:train) and packs it with

python -m teachers.embedded_weights RESULTS   RESULTS: a folder of results with the runs of that teacher alone
"""

from __future__ import annotations

import functools
import hashlib
import json
import sys
from pathlib import Path

import torch
from safetensors.torch import load, load_file, save
from torch import Tensor

from harness.errors import UserError

FILE = Path(__file__).with_name("embedded.safetensors")
SHA256 = "caebc068df51584cbc66e5661ed81f6b32a1dba9b366a40407accb975259525c"
PRETRAINED = "pretrained"


def shipped(name: str) -> dict[str, Tensor]:
    """The float32 weights of "pretrained", or of the classifier of a task. Raises UserError as `verify` does."""
    packed = _packed()
    encoder = {key: weight.float() for key, weight in _of(packed, PRETRAINED).items()}
    if name == PRETRAINED:
        return encoder
    own = {key: weight.float() for key, weight in _of(packed, name).items()}
    return {key: encoder[key] + weight if key in encoder else weight for key, weight in own.items()}


def verify() -> bytes:
    """The file's bytes. Raises UserError if it is missing or is not what this version was released with."""
    try:
        content = FILE.read_bytes()
    except OSError as error:
        raise UserError(f"the embedded teacher's weights, {FILE}, cannot be read: {_AGAIN}") from error
    if hashlib.sha256(content).hexdigest() != SHA256:
        raise UserError(f"{FILE} is not the embedded teacher's weights: its SHA-256 differs; {_AGAIN}")
    return content


_AGAIN = "reinstall distill-harness, or train the teacher anew with --teacher embedded:train"


@functools.cache
def _packed() -> dict[str, Tensor]:
    return load(verify())


def _of(packed: dict[str, Tensor], name: str) -> dict[str, Tensor]:
    prefix = f"{name}."
    return {key.removeprefix(prefix): weight for key, weight in packed.items() if key.startswith(prefix)}


def pack(results: Path) -> bytes:
    """The file's bytes, from the runs in a folder of results that pre-trained and fine-tuned the teacher."""
    found: dict[str, dict[str, Tensor]] = {}
    made_of = ""
    for path in sorted(results.glob("ledger/*/record.json")):
        specification = json.loads(path.read_bytes())["record"]["specification"]
        if specification["kind"] in ("pretraining", "teacher"):
            made_of = specification["teacher"]["content"]
            found[specification.get("task", PRETRAINED)] = load_file(path.parent / "weights" / "model.safetensors")
    encoder = {key: weight.half() for key, weight in found.pop(PRETRAINED).items()}
    packed = {f"{PRETRAINED}.{key}": weight for key, weight in encoder.items()}
    for task, weights in found.items():
        for key, weight in weights.items():
            added = (weight - encoder[key].float()).to(torch.float8_e4m3fn) if key in encoder else weight.half()
            packed[f"{task}.{key}"] = added
    return save(packed, {"made_of": made_of})


if __name__ == "__main__":
    content = pack(Path(sys.argv[1]))
    FILE.write_bytes(content)
    print(f"{FILE}: {len(content)} bytes; what SHA256 in {Path(__file__).name} must be:")
    print(hashlib.sha256(content).hexdigest())
