"""Every family of students as an ONNX graph: onnxruntime says what torch says, whatever the number and length."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from harness.errors import UserError
from harness.exporting import onnx_graph
from harness.exporting.opened import Opened
from harness.exporting.writing import write
from harness.registry import STUDENTS
from harness.testing.student_cases import PAIR, SINGLE, Case, cases, named, possible
from tests.exporting.builders import ABOUT, examples, opened
from tests.exporting.test_folders import transformer

onnxruntime = pytest.importorskip("onnxruntime")

# transformers' own are below; of a setting only another head changes the graph, for a text as for a pair read as one.
CASES = [
    case
    for name in STUDENTS.names()
    for case in cases(name)
    if possible(case)
    and case.task in (SINGLE, PAIR)
    and "transformer" not in case.name
    and (not case.choices or case.choices[0][0] in ("head", "pair_encoding", "channels", "projection"))
    and (case.task is PAIR or case.choices)
    and not (case.task is PAIR and "head" in dict(case.choices))
]


def graph_of(found: Opened, folder: Path, texts: Any) -> torch.Tensor:
    """The graph's logits of texts, padded all to one length by nobody but the tokenizer."""
    session = onnxruntime.InferenceSession(str(folder / onnx_graph.NAME), providers=["CPUExecutionProvider"])
    own = {one.name for one in session.get_inputs()}
    parts = [texts] if found.pair_encoding == "joint" or not found.task.pair else list(zip(*texts, strict=True))
    if len(parts) == 1 and found.task.pair:
        parts = [[list(pair) for pair in texts]]
    longest = max(len(ids) for part in parts for ids in found.tokenizer(list(part))["input_ids"])
    given = {}
    for number, part in enumerate(parts):
        read = found.tokenizer(list(part), padding="max_length", max_length=max(longest, 1), return_tensors="np")
        given |= {name + ("_2" if number else ""): array for name, array in read.items()}
    return torch.from_numpy(session.run(None, {name: array for name, array in given.items() if name in own})[0])


@pytest.mark.parametrize("case", CASES, ids=named)
def test_every_student_is_a_graph_that_says_the_same(
    case: Case, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    found, texts = opened(case), examples(case.task)
    for table in found.model.modules():
        if isinstance(table, nn.Embedding):  # products of matrices near the identity would hide their order
            nn.init.normal_(table.weight.data[1:], std=0.4)  # padding stays what it is
    write(found, tmp_path / "student", ABOUT, onnx=True)
    for some in (texts, texts[1:2] * 5, texts[2:3]):
        difference = graph_of(found, tmp_path / "student", some) - found.logits(some)
        assert difference.abs().max() < 1e-4
    assert "Expected shape" not in capfd.readouterr().err, "it was traced with other texts"


def test_a_transformer_is_a_graph_too(tmp_path: Path) -> None:
    found = transformer("roberta")
    write(found, tmp_path / "student", ABOUT, onnx=True)
    assert [path.name for path in (tmp_path / "student").glob("model.onnx*")] == ["model.onnx"], "its weights are in it"
    texts = examples(found.task)[:3]
    assert (graph_of(found, tmp_path / "student", texts) - found.logits(texts)).abs().max() < 1e-4


def test_a_transformer_with_a_head_of_its_own_is_a_graph_too(tmp_path: Path) -> None:
    found, texts = opened(Case("averaged_transformer", SINGLE)), examples(SINGLE)[:3]
    write(found, tmp_path / "student", ABOUT, onnx=True)
    assert (graph_of(found, tmp_path / "student", texts) - found.logits(texts)).abs().max() < 1e-4


def test_a_graph_that_says_something_else_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_graph, "CLOSE", -1.0)
    with pytest.raises(UserError, match="from torch's"):
        write(opened(Case("cbow", SINGLE)), tmp_path / "student", ABOUT, onnx=True)
    assert not list(tmp_path.iterdir())


def test_what_is_not_installed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_graph, "NEEDED", ("onnxruntime", "nothing_of_this_name"))
    with pytest.raises(UserError, match=r'needs nothing_of_this_name: pip install "distill-harness\[onnx\]"'):
        onnx_graph.check_installed()
