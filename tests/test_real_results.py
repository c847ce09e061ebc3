"""The packed ledgers of docs/results: commands work on them, and the pages say what they do."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from harness import registry
from harness.cli import main
from tests.conftest import ROOT

RESULTS = ROOT / "docs" / "results"
NAMES = sorted(path.name.partition(".")[0] for path in RESULTS.glob("*.tar.xz"))


@pytest.fixture(scope="module")
def scripts() -> Iterator[dict[str, ModuleType]]:
    """The scripts that write the pages, by name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(RESULTS), str(RESULTS.parent), *sys.path])
        yield {name: importlib.import_module(name) for name in ("packed", "claimed", "write")}


@pytest.fixture(scope="module")
def found(scripts: dict[str, ModuleType]) -> dict[str, Any]:
    results: dict[str, Any] = scripts["packed"].results()
    return results


@pytest.fixture(scope="module", params=NAMES)
def folder(request: pytest.FixtureRequest, scripts: dict[str, ModuleType]) -> Iterator[Path]:
    with scripts["packed"].opened(request.param) as opened:
        yield opened


def test_every_ledger_has_its_page_and_every_page_its_ledger(scripts: dict[str, ModuleType]) -> None:
    told = [entry["name"] for entry in scripts["packed"].told("pages")]
    pages = {path.stem for path in RESULTS.glob("*.md")} - {"index", "claims"}
    assert sorted(told) == NAMES == sorted(pages) and NAMES


def test_reports_of_it_are_what_its_page_shows(
    folder: Path, scripts: dict[str, ModuleType], capsys: pytest.CaptureFixture[str]
) -> None:
    told = next(entry for entry in scripts["packed"].told("pages") if entry["name"] == folder.name)
    words = ["report", "--study", told["study"], "--profile", told["profile"], "--format", "markdown"]
    published = registry.STUDIES.get(told["study"]).published
    assert main([*words, "--out", str(folder), *(["--compare", "published"] if published else [])]) == 0
    said = scripts["write"].unversioned(capsys.readouterr().out).strip()
    page = (RESULTS / f"{folder.name}.md").read_text(encoding="utf-8")
    assert page.endswith(f"\n\n{said}\n"), "make results"
    assert published is None or "## Beside the published numbers" in said


def test_it_can_be_merged_as_a_start(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os.fsync", lambda _: None)  # of a thousand files
    runs = len(list((folder / "ledger").iterdir()))
    assert main(["merge", str(folder), "--into", str(tmp_path / "results")]) == 0
    assert f"{runs} runs brought, 0 there before, 0 in conflict, 0 damaged, 1 plans brought" in capsys.readouterr().out


def test_it_is_small_and_tells_no_place_of_the_machine(folder: Path, scripts: dict[str, ModuleType]) -> None:
    files = [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith((".", "ledger.index"))]
    assert {path.name for path in files} <= {"harness.json", "record.json", "predictions.safetensors", "plan.json"}
    assert sum(scripts["packed"].archive(name).stat().st_size for name in NAMES) < 3_000_000
    plans = (folder / told["study"] for told in scripts["packed"].told("pages") if told["name"] == folder.name)
    (plan,) = next(plans).rglob("plan.json")
    assert not re.search(rb'"(source|corpus)": "/', plan.read_bytes())


def test_claims_and_overview_are_made_of_them(scripts: dict[str, ModuleType], found: dict[str, Any]) -> None:
    """This finds each printed number that a claim rests on, too, and each row of ours."""
    assert (RESULTS / "claims.md").read_text(encoding="utf-8") == scripts["claimed"].page(found), "make results"
    assert scripts["write"].overview(found) in (RESULTS / "index.md").read_text(encoding="utf-8")
    for work in scripts["packed"].told("claims")["works"]:
        for claim in work["claims"]:
            assert claim["study"] in registry.STUDIES.names() and {"file", "printed"} & claim.keys()


def test_a_verdict_follows_the_sign_and_the_noise(scripts: dict[str, ModuleType], found: dict[str, Any]) -> None:
    """Copied layers against random weights differ by tens of points on SST-2; a row and itself do not."""
    claimed, table = scripts["claimed"], found["objectives_vs_init_sst2"].table
    copied, drawn = ({"row": "labels_only", "init": init} for init in ("every", "random"))

    def verdict(above: Any, below: Any) -> str:
        (one,) = claimed.judged({"pairs": [[above, below]]}, table)
        return str(one.verdict)

    assert verdict(copied, drawn) == "supported" and verdict(drawn, copied) == "contradicted"
    assert verdict(copied, copied) == "undecided"
    with pytest.raises(ValueError, match="0 lines"):
        verdict({"row": "no_such_row"}, drawn)


def test_verdicts_are_summed(scripts: dict[str, ModuleType]) -> None:
    claimed = scripts["claimed"]

    def summed(*verdicts: str) -> str:
        return str(claimed.summed([claimed.Compared("", verdict) for verdict in verdicts]))

    assert summed("supported", "supported") == "supported" and summed("undecided", "unfinished") == "undecided"
    assert summed("contradicted", "undecided") == "contradicted in part" and summed("unfinished") == "unfinished"
    assert summed("collapsed") == "collapsed" and summed("collapsed", "unfinished") == "unfinished"
    assert summed("supported", "contradicted") == "mixed" and summed() == "unfinished"


def test_what_would_decide_a_difference(scripts: dict[str, ModuleType]) -> None:
    """As benchmarks/statistics has it: 4 points on 1,000 examples by 3 seeds or so, a fifth of a point by none."""
    size, claim = scripts["claimed"].size, {"study": "sra"}
    assert re.fullmatch("[2-4] seeds", size(claim, "SST-2", 4.0, 1000, {}))
    assert size(claim, "SST-2", -4.0, 1000, {}) == size(claim, "SST-2", 4.0, 1000, {})
    assert size(claim, "SST-2", 0.2, 1000, {}) == "200,000 examples"  # 0.1 (2.8 / 0.002)^2
    assert size({**claim, "minus": {}}, "SST-2", 0.2, 1000, {}) == "390,000 examples"
