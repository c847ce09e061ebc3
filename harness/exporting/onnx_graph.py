"""A student as an ONNX graph, for any number of texts of any length, compared with torch before it is kept."""

from __future__ import annotations

import importlib.util
import logging
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from harness.contracts import Batch, Encoding
from harness.errors import UserError
from harness.exporting.opened import Opened
from harness.modeling.bases import Student
from harness.modeling.signals import own_inputs

NAME = "model.onnx"
OPSET = 18
CLOSE = 1e-4
NEEDED = ("onnx", "onnxruntime", "onnxscript")
SHAPES = ((3, 8), (1, 1), (5, 13))  # (texts, tokens): the first is traced, all are compared


class _Traced(nn.Module):
    """The model as a function of tensors: those of the first sequence, then those of the second, by these names."""

    def __init__(self, opened: Opened, names: list[list[str]]):
        super().__init__()
        self.model, self._opened, self._names = opened.model, opened, names

    def forward(self, *tensors: Tensor) -> Tensor:
        left = iter(tensors)
        encodings = tuple(Encoding({name: next(left) for name in names}) for names in self._names)
        rows = tensors[0].size(0)
        return self._opened.of_batch(Batch(torch.arange(rows), torch.zeros(rows), encodings))


def check_installed() -> None:
    """Raise UserError if what writes and runs ONNX graphs is not installed."""
    if missing := [name for name in NEEDED if importlib.util.find_spec(name) is None]:
        raise UserError(f'--onnx needs {" and ".join(missing)}: pip install "distill-harness[onnx]"')


def write(opened: Opened, path: Path) -> None:
    """Write the graph: inputs input_ids, attention_mask and what else the model reads, (B, L) int64, output logits.

    Of a pair that is read apart there is a second input of each name, ending in _2, padded to the same length. Raises
    UserError if it cannot be written, or does not say what torch says. `check_installed` comes before it.
    """
    traced, flat = _inputs(opened)
    model = _Traced(opened, traced).eval()
    names = [name + (f"_{i + 1}" if i else "") for i, part in enumerate(traced) for name in part]
    # What transformers' models do is traced as a whole. LSTMs over packed sequences, and products of as many matrices
    # as there are words, only torch's older tracer knows as nodes of a graph.
    whole = any(isinstance(m, PreTrainedModel) and not isinstance(m, Student) for m in model.modules())
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # it tells what it skips, such as torchvision's nodes
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        inputs = flat(*SHAPES[0])
        model(*inputs)  # what a model finds out when it is first used is no part of the graph
        try:
            _trace(model, inputs, names, path, whole)
        except Exception as error:  # the exporters raise anything
            raise UserError(f"--onnx: no graph can be made of this student: {str(error).strip()[:300]}") from error
    if not whole:
        _forget_shapes(path)
    _compare(model, names, flat, path)


def _inputs(opened: Opened) -> tuple[list[list[str]], Any]:
    """(the names of each sequence's inputs, a function from a shape to these inputs of random tokens, in one tuple)."""

    def read(rows: int, length: int) -> list[dict[str, Tensor]]:
        found = opened.probe(rows, length).encodings
        if isinstance(opened.model, Student):  # it takes of them what it reads, see `_compare`
            return [dict(part) for part in found]
        return [own_inputs(opened.model, part) for part in found]

    def flat(rows: int, length: int) -> tuple[Tensor, ...]:
        return tuple(tensor for part in read(rows, length) for tensor in part.values())

    return [list(part) for part in read(2, 2)], flat


def _trace(model: nn.Module, inputs: tuple[Tensor, ...], names: list[str], path: Path, whole: bool) -> None:
    axes = {name: {0: "batch", 1: "length"} for name in names}
    how: dict[str, Any] = {"dynamic_axes": {**axes, "logits": {0: "batch"}}}
    if whole:
        sizes = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
        how = {"dynamic_shapes": ((sizes,) * len(inputs),), "external_data": False, "verbose": False}
    outputs = ["logits"]
    torch.onnx.export(
        model, inputs, str(path), dynamo=whole, input_names=names, output_names=outputs, opset_version=OPSET, **how
    )


def _forget_shapes(path: Path) -> None:
    """Take away what the older tracer tells of shapes within loops: those of the texts that it traced.

    Of any others onnxruntime would warn in every turn of every loop.
    """
    import onnx

    def forget(graph: Any) -> None:
        for node in graph.node:
            for inner in (attribute.g for attribute in node.attribute if attribute.HasField("g")):
                for value in (*inner.input, *inner.output, *inner.value_info):
                    if value.type.HasField("tensor_type") and value.type.tensor_type.shape.dim:  # not of numbers
                        value.type.tensor_type.ClearField("shape")
                forget(inner)

    model = onnx.load(path)
    forget(model.graph)
    onnx.save(model, path)


@torch.no_grad()
def _compare(model: nn.Module, names: list[str], flat: Any, path: Path) -> None:
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    own = {one.name for one in session.get_inputs()}  # what a student ignores is no input
    for shape in SHAPES:
        inputs = flat(*shape)
        given = {name: part.numpy() for name, part in zip(names, inputs, strict=True) if name in own}
        theirs = torch.from_numpy(session.run(None, given)[0])
        difference = (theirs - model(*inputs)).abs().max().item()
        if not difference <= CLOSE:
            raise UserError(
                f"--onnx: the graph's logits of {shape[0]} texts of {shape[1]} tokens are {difference:.1e} from "
                f"torch's, more than {CLOSE:g}; no graph is written"
            )
