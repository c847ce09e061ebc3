"""The packed ledgers of docs/results: commands work on them, and the pages say what they do."""

from __future__ import annotations

import hashlib
import importlib
import io
import math
import os
import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack, redirect_stdout
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.metrics import matthews_corrcoef

import harness
from harness import registry, reports
from harness.cli import main
from harness.errors import counted
from harness.ledger import Ledger
from harness.reports.statistics.estimation import sums
from harness.reports.statistics.noise import Noise
from harness.reports.statistics.planning import SEED_SPREAD
from tests.conftest import ROOT

RESULTS = ROOT / "docs" / "results"
RENDER = reports.render
GLUE = Path(os.environ.get("GLUE_DIR", ROOT.parent / "shared" / "glue"))
NAMES = sorted(path.name.partition(".")[0] for path in RESULTS.glob("*.tar.xz"))


@pytest.fixture(scope="module")
def scripts() -> Iterator[dict[str, ModuleType]]:
    """The scripts that write the pages, by name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(RESULTS), str(RESULTS.parent), *sys.path])
        names = ("packed", "claimed", "gains", "write", "glue_sentences", "larger_dev")
        yield {name: importlib.import_module(name) for name in names}


@pytest.fixture(scope="module")
def folders(scripts: dict[str, ModuleType]) -> Iterator[dict[str, Path]]:
    """Every ledger, opened."""
    with ExitStack() as stack:
        yield {name: stack.enter_context(scripts["packed"].opened(name)) for name in NAMES}


@pytest.fixture(scope="module")
def printed(scripts: dict[str, ModuleType], folders: dict[str, Path]) -> dict[str, tuple[str, Any]]:
    """What `harness report` prints of each ledger, beside published numbers where there are, and of which table."""
    made = {}
    for entry in scripts["packed"].told("pages"):
        folder, tables = folders[entry["name"]], []
        words = ["report", "--study", entry["study"], "--profile", entry["profile"], "--format", "markdown"]
        published = registry.STUDIES.get(entry["study"]).published
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()) as said:
            patch.setattr(reports, "render", lambda table, form, kept=tables: kept.append(table) or RENDER(table, form))
            assert main([*words, "--out", str(folder), *(["--compare", "published"] if published else [])]) == 0
        made[entry["name"]] = (said.getvalue(), tables[0])
    return made


@pytest.fixture(scope="module")
def found(
    scripts: dict[str, ModuleType], folders: dict[str, Path], printed: dict[str, tuple[str, Any]]
) -> dict[str, Any]:
    """As `packed.results` gives them, which would read every ledger once more."""
    packed, made = scripts["packed"], {}
    for entry in packed.told("pages"):
        ledger = Ledger(folders[entry["name"]])
        records = [ledger.read(run) for run in ledger.runs()]
        made[entry["name"]] = packed.Results(entry, printed[entry["name"]][1], records)
    return made


@pytest.mark.parametrize(
    "name", ["multi_task_procedures_small", "general_vs_task_specific_cola_stsb", "objectives_vs_students"]
)
def test_what_runs_answered_gives_what_they_recorded(name: str, folders: dict[str, Path]) -> None:
    """By scikit-learn and SciPy themselves, from names of classes: a metric of one's own is worked out so."""
    result = harness.load_results(folders[name])
    answered, runs = result.predictions(), result.to_pandas()
    assert {*answered.run} == {*runs[runs.chosen].run}
    known = {
        "accuracy": lambda own: (own.label == own.prediction).mean(),
        "matthews": lambda own: matthews_corrcoef(own.label.astype(str), own.prediction.astype(str)),
        "spearman": lambda own: spearmanr(own.label.astype(float), own.prediction.astype(float)).statistic,
    }
    compared = set()
    for _, run in runs[runs.chosen].iterrows():
        own = answered[(answered.run == run.run) & (answered.task == run.task)]
        assert own.id.is_unique and {*own.row} == {run.row} and {*own.seed} == {run.seed}
        names = [*own.filter(like="probability.").dropna(axis=1)]
        if names:  # those of the task alone: what is predicted is likeliest
            likeliest = own[names].idxmax(axis=1).str.removeprefix("probability.")
            assert (likeliest == own.prediction.astype(str)).all()
        for metric, score in known.items():
            if math.isfinite(run.get(metric, math.nan)):  # not that of other tasks
                compared.add((run.task, metric))
                assert score(own) == pytest.approx(run[metric], abs=1e-6), (run.task, metric)
    assert {task for task, _ in compared} == {*result.plan.tasks}


def test_plans_assume_the_spread_over_seeds_that_half_of_the_columns_stay_under(found: dict[str, Any]) -> None:
    spreads = [
        math.sqrt(tested.noise.spread)
        for results in found.values()
        for place, tested in results.table.tested.items()
        if results.table.columns[place].task and results.table.columns[place].selects and tested.noise.spread >= 0
    ]
    assert len(spreads) > 30 and np.median(spreads) == pytest.approx(SEED_SPREAD, abs=0.005)


def test_every_ledger_has_its_page_and_every_page_its_ledger(scripts: dict[str, ModuleType]) -> None:
    told = [entry["name"] for entry in scripts["packed"].told("pages")]
    pages = {path.stem for path in RESULTS.glob("*.md")} - {"index", "claims"}
    assert sorted(told) == NAMES == sorted(pages) and NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_page_shows_what_is_reported_of_its_ledger(
    name: str, scripts: dict[str, ModuleType], printed: dict[str, tuple[str, Any]], found: dict[str, Any]
) -> None:
    page = (RESULTS / f"{name}.md").read_text(encoding="utf-8")
    alone, _, beside = page.partition("\nThe ledger of [another page](")
    assert alone.endswith(f"\n\n{scripts['write'].unversioned(printed[name][0]).strip()}\n"), "make results"
    assert ("## Beside other results\n" in beside) == ("beside" in found[name].told)
    assert page == scripts["write"].page(found[name]), "make results"
    assert ("## Beside the published numbers" in page) == (found[name].table.comparison is not None)


@pytest.mark.parametrize("name", NAMES)
def test_it_can_be_merged_as_a_start(
    name: str,
    folders: dict[str, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    runs, plans = len(list((folders[name] / "ledger").iterdir())), len(list(folders[name].rglob("plan.json")))
    assert main(["merge", str(folders[name]), "--into", str(tmp_path / "results")]) == 0
    said = f"{runs} runs brought, 0 there before, 0 in conflict, 0 damaged, {counted(plans, 'plan')} brought"
    assert plans and said in capsys.readouterr().out


@pytest.mark.parametrize("name", NAMES)
def test_it_is_small_and_tells_no_place_of_the_machine(name: str, scripts: dict[str, ModuleType]) -> None:
    with scripts["packed"].opened(name) as folder:
        files = [path for path in folder.rglob("*") if path.is_file()]
        plans = [path.read_bytes() for path in files if path.name == "plan.json"]
    assert {path.name for path in files} <= {"harness.json", "record.json", "predictions.safetensors", "plan.json"}
    assert sum(scripts["packed"].archive(name).stat().st_size for name in NAMES) < 3_000_000
    assert plans and not any(re.search(rb'"(source|corpus)": "/', plan) for plan in plans)


def test_claims_and_overview_are_made_of_them(scripts: dict[str, ModuleType], found: dict[str, Any]) -> None:
    """This finds each printed number that a claim rests on, too, and each row of ours."""
    assert (RESULTS / "claims.md").read_text(encoding="utf-8") == scripts["claimed"].page(found), "make results"
    assert scripts["write"].overview(found) in (RESULTS / "index.md").read_text(encoding="utf-8")
    for work in scripts["packed"].told("claims")["works"]:
        for claim in work["claims"]:
            assert claim["study"] in registry.STUDIES.names() and {"file", "printed"} & claim.keys()


def test_what_transfers_gain_is_shown_of_the_pages_that_tell(
    scripts: dict[str, ModuleType], found: dict[str, Any], folders: dict[str, Path]
) -> None:
    """By the means of recorded scores, and bold where the interval leaves out 0."""
    gains = scripts["gains"]
    assert gains.table(found) in (RESULTS.parent / "choosing.md").read_text(encoding="utf-8"), "make results"
    made = gains.lines(found)
    assert {line.page for line in made} == {e["name"] for e in scripts["packed"].told("pages") if "gains" in e}
    for line in made:
        result = harness.load_results(folders[line.page])
        runs = result.to_pandas()
        runs = runs[runs.chosen & (runs.init == "every")]
        means = runs[runs.task.isin(found[line.page].told["gains"])].groupby("row")[line.metric].mean()
        for objective, gain in line.gains.items():
            assert gain["difference"] == pytest.approx(means[objective] - means["vanilla_kd_equal_epochs"], abs=1e-6)
            shown = gains._cell(gain)
            assert shown.startswith("**") == (gain["low"] > 0 or gain["high"] < 0) == (gain["p"] < 0.05)
    (bars,) = {len(panel.containers) for panel in gains.drawn(found).axes}
    assert bars == len(gains.TRANSFERS)


def test_the_corpus_of_sra_is_made_again(scripts: dict[str, ModuleType]) -> None:
    """To the byte, as its content is part of what those runs are."""
    if not (GLUE / "SST-2" / "train.tsv").is_file():
        pytest.skip("needs real GLUE files: set GLUE_DIR")
    whole = "\n".join(scripts["glue_sentences"].sentences(GLUE)) + "\n"
    assert hashlib.sha256(whole.encode()).hexdigest().startswith("6484e6c275f9c09d")


def test_pairs_of_a_larger_dev_set_share_no_sentence(scripts: dict[str, ModuleType]) -> None:
    train = {("a", "b"): "1", ("c", "d"): "0"}
    dev, test = {("e", "f"): "1", ("f", "g"): "0"}, {("h", "b"): "1", ("i", "j"): "0"}
    left, made = scripts["larger_dev"].pairs_apart(train, [dev, test])
    assert left == {("c", "d"): "0"}, "of the others a sentence is in dev"
    assert made == {("e", "f"): "1", ("h", "b"): "1", ("i", "j"): "0"}, "of two that share one the first"


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


def test_every_metric_of_a_task_is_in_the_family(scripts: dict[str, ModuleType], found: dict[str, Any]) -> None:
    """By Matthews' correlation alone the interval is wider than by Holm's family of one."""
    claimed, table = scripts["claimed"], found["objectives_vs_init_mrpc_cola"].table
    both = claimed.judged({"pairs": [["att_kl", "vanilla_kd_equal_epochs"]], "task": "cola"}, table)
    assert [one.what.partition(":")[0] for one in both] == ["CoLA, matthews", "CoLA, accuracy"]
    two = claimed.judged({"pairs": [["att_kl", "vanilla_kd_equal_epochs"]] * 2, "task": "cola"}, table)

    def width(interval: str) -> float:
        low, high = re.findall(r"[−+]?[\d.]+", interval)[1:]
        return float(high.replace("−", "-")) - float(low.replace("−", "-"))

    assert len(two) == 4 and width(two[0].interval) > width(both[0].interval)  # of four at once


def test_a_difference_may_be_less_another(scripts: dict[str, ModuleType], found: dict[str, Any]) -> None:
    """Of means that only seeds make uncertain, by known variances, a difference of differences is normal."""
    variances = np.array([4e-4, 1e-4, 9e-4, 2e-4])
    none = np.zeros((4, 4))
    noise = Noise(np.array([0.8, 0.7, 0.75, 0.72]), none, variances[:, None], np.ones((4, 1)), 100, 1e-4, 4)
    summed = sums(noise, [0, 3], [1, 2])
    assert np.allclose(summed.values, [1.52, 1.45])
    p = summed.p_value(np.array([0]), np.array([1])).item()
    assert p == pytest.approx(math.erfc(0.07 / 0.04 / math.sqrt(2)))  # 0.04^2 = 16e-4, the sum of the variances
    assert sums(replace(noise, examples=none + 1e-3), [0, 3], [1, 2]).variance(0, 1) < 1e-12  # what all share

    claimed = scripts["claimed"]
    table = found["augmentation_sst2"].table
    (one,) = claimed.judged({"pairs": [["logits", "labels"]], "minus": ["masking", "masking"]}, table)
    (plain,) = claimed.judged({"pairs": [["logits", "labels"]]}, table)
    assert one.what.endswith(": (Logits − Labels) − (Logits, masking − Logits, masking)")
    assert one.interval.split()[0] == plain.interval.split()[0] and one.interval != plain.interval


def test_a_claim_that_one_is_hardly_better(scripts: dict[str, ModuleType], found: dict[str, Any]) -> None:
    """By the whole interval: what reaches over the points that are claimed decides nothing."""
    claimed, asked = scripts["claimed"], {"pairs": [["logits", "labels"]]}
    table = found["augmentation_sst2"].table
    (plain,) = claimed.judged(asked, table)
    low, high = (float(n.replace("−", "-")) for n in re.findall(r"[+−][\d.]+", plain.interval)[1:])
    assert low < high
    verdicts = [claimed.judged({**asked, "within": n}, table)[0].verdict for n in (low - 0.1, low + 0.1, high + 0.1)]
    assert verdicts == ["contradicted", "undecided", "supported"]


def test_an_interval_is_held_against_the_difference_in_print(
    scripts: dict[str, ModuleType], found: dict[str, Any]
) -> None:
    claimed = scripts["claimed"]
    claim = {"study": "objectives_vs_init", "file": "wang2023_table1_task_specific.csv"}
    gains = claimed.gains({**claim, "above": {"objective": "Att-KL"}, "below": "Hid-Seq"})
    # 89.0 and 87.4 in Table 1, each of which may be rounded from 0.05 more or less
    assert gains["SST-2", "accuracy"] == pytest.approx(1.5)
    assert gains["CoLA", "accuracy"] == pytest.approx(0), "which is headed as Matthews' correlation"
    assert not any(task == "MRPC" for task, _ in gains), "there Hid-Seq is the better one"
    table = found["objectives_sst2_sentences"].table  # whose texts are SST-2's
    asked = {"pairs": [["att_kl", "hid_seq"]]}
    (one,) = claimed.judged(asked, table, gains)
    assert one.interval == "+0.1 [−0.4, +0.5]" and one.told().endswith("undecided, less than in print")
    (near,) = claimed.judged(asked, table, {("SST-2", "accuracy"): 0.4})
    (other,) = claimed.judged(asked, table, {("SST-2", "f1"): 1.6})
    assert near.less is False and other.less is None and near.told().endswith("undecided")


def test_a_factor_is_held_against_what_is_claimed(scripts: dict[str, ModuleType], found: dict[str, Any]) -> None:
    """Of sizes, which are counted: BERT-base has 2.89 times the parameters of the bidirectional hybrid."""
    claimed, table = scripts["claimed"], found["size_and_speed"].table

    def verdict(times: float) -> str:
        factor = {"row": "bert_base", "than": "bidirectional_hybrid", "of": "millions_of_parameters", "times": times}
        (one,) = claimed.judged({"factors": [factor]}, table)
        assert one.interval == f"2.89 times, claimed {times:g}"
        return str(one.verdict)

    assert [verdict(times) for times in (2.0, 3.0, 3.5)] == ["supported", "supported", "contradicted"]


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
