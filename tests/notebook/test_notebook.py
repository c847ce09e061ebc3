"""docs/notebook.ipynb from a clean kernel: what it shows, and how the work's progress is shown there."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.conftest import ROOT, environment

NOTEBOOK = ROOT / "docs" / "notebook.ipynb"


def outputs(cell: Any, kind: str) -> list[str]:
    """What the cell showed of this kind of data; "" is what it printed."""
    found = [output.get("data", {}).get(kind) if kind else output.get("text") for output in cell.outputs]
    return [text for text in found if text]


def test_the_notebook_runs_from_a_clean_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = nbformat.read(NOTEBOOK, nbformat.NO_CONVERT)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not any(cell.outputs or cell.execution_count for cell in cells), "outputs are not stored"
    for cell in cells:  # half of what it shows
        cell.source = cell.source.replace('"tasks": ["sentiment", "entailment"]', '"tasks": ["sentiment"]')
    for name, value in {**environment(), "IPYTHONDIR": str(tmp_path / "ipython")}.items():
        monkeypatch.setitem(os.environ, name, value)

    NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": tmp_path}}).execute()
    figures = ('"heatmap"', '"curves"', '"points"')
    named = ("result = harness.run", "wide=True", "compare", "load_results", *figures)
    saying = {name: next(cell for cell in cells if name in cell.source) for name in named}
    run = saying["result = harness.run"]
    (shown,) = outputs(run, "text/html")
    assert "<table>" in shown and "relations" in shown and "transformer, init last" in shown
    bar = outputs(run, "text/plain")[0]
    assert " 12/12 " in bar and "\x1b" not in bar
    assert len([one for one in run.outputs if one.output_type == "display_data"]) == 1  # it is drawn again in its place
    for name in figures:
        (picture,) = outputs(saying[name], "image/png")
        assert base64.b64decode(picture).startswith(b"\x89PNG")
    for name in ("wide=True", "compare"):
        assert "<table" in outputs(saying[name], "text/html")[0]
    assert "Soft labels 50%" in outputs(saying["load_results"], "")[0]
    assert "did you mean objectives?" in outputs(cells[-1], "")[0]
    written = sorted(path.name.rpartition("_")[0] for path in (tmp_path / "results" / "plugins").glob("*.py"))
    assert written == ["relations", "weight_of_soft_labels"]
