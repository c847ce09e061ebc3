"""The page: whole without a script, one file, its parts named, and what its script does in a browser."""

from __future__ import annotations

import functools
import json
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from harness.contracts import Profile, Row
from harness.reports import Table, fragment, render, with_published
from harness.reports.additions.searched import searches
from harness.reports.formats.evidence import cells
from harness.reports.formats.page import MEASURED
from tests.reports.synthetic import ROWS, STUDY, TASKS, cell, mixed, run, table
from tests.reports.test_writers import HOSTILE, hostile
from tests.results import unmeasured

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
VOID = {"meta", "link", "br", "img", "input", "hr"}


class Page(HTMLParser):
    """Its elements as (tag, attributes), the texts outside scripts, and the contents of its scripts by id."""

    def __init__(self, text: str):
        super().__init__()
        self.elements, self.texts, self.scripts, self.open = [], [], {}, []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs), tuple(name for name, _ in self.open)))
        if tag not in VOID:
            self.open.append((tag, dict(attrs)))

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs), tuple(name for name, _ in self.open)))

    def handle_endtag(self, tag):
        assert self.open and self.open[-1][0] == tag, f"{tag} closes {self.open[-1:]}"
        self.open.pop()

    def handle_data(self, data):
        if self.open and self.open[-1][0] == "script":
            name = self.open[-1][1].get("id", "")
            self.scripts[name] = self.scripts.get(name, "") + data
        else:
            self.texts.append(data)

    def all(self, *tags):
        return [attributes for tag, attributes, _ in self.elements if tag in tags]


@functools.cache
def compared() -> Table:
    return with_published(table(mixed()), STUDY)


@functools.cache
def page() -> str:
    return render(compared(), "html")


def framed(seconds=1.5, **more):
    """The table of `mixed`, with its runs, which took so long each."""
    cells = [
        replace(c, seeds=tuple(replace(r, run=f"{c.cell}-{r.seed}", record={**r.record, "seconds": seconds, **more})
                               for r in c.seeds))
        for c in mixed()
    ]  # fmt: skip
    rows = [
        {"run": r.run, "cell": c.cell, "row": c.row.name, "part": "seed" if i else "trial", "chosen": True,
         "pruned": False, "status": "finished", "selection": r.selection, "hyperparameters": r.hyperparameters,
         "record": r.record, "space": {}, "distributions": dict, "sampler": "grid", "wanted_trials": 1, "trial": 0,
         "metrics": r.metrics, "seed": r.seed, "by_seed": False}
        for c in cells for i, r in enumerate(c.seeds)
    ]  # fmt: skip
    rows.append({**rows[0], "run": "other", "chosen": False, "selection": 0.25, "hyperparameters": {"alpha": 0.5}})
    return replace(table(cells), runs=rows, before={"teacher": {"seconds": 60.0}})


def test_rows_that_share_a_cell_have_its_trials_once():
    once = framed()
    once = replace(once, runs=[{**run, "space": {"epochs": [1, 2]}} for run in once.runs])
    both = replace(once, runs=[*once.runs, *({**run, "row": "other"} for run in once.runs)])
    assert cells(both) == cells(once)
    assert [found.trials for found in searches(both)] == [found.trials for found in searches(once)] != []


def test_it_is_one_file_that_fetches_nothing_and_is_whole_without_its_script():
    seen = Page(page())
    assert not seen.open and not seen.all("link", "img", "iframe")
    (policy,) = [m["content"] for m in seen.all("meta") if "http-equiv" in m]
    assert policy.startswith("default-src 'none'")
    found = [value for a in seen.all(*{t for t, *_ in seen.elements}) for k, value in a.items()
             if k in ("src", "href", "xlink:href")]  # fmt: skip
    assert found and all(link.startswith(("#", "data:")) for link in found)
    assert {"b", "u", "sup", "svg"} <= {tag for tag, *_ in seen.elements}
    assert {"86.0 ± 0.0", "Scores by objective and initialisation", "Beside the published numbers"} <= {*seen.texts}
    tips = [a["title"] for a in seen.all("td") if "title" in a]
    assert "cell att_kl-every-sst2; learning_rate = 0.0005; seeds 0, 1" in tips


def test_everything_has_a_name_for_those_who_do_not_see_it():
    seen = Page(page())
    levels = [int(tag[1]) for tag, *_ in seen.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1 and levels.count(1) == 1 and all(b <= a + 1 for a, b in zip(levels, levels[1:], strict=False))
    assert seen.all("html")[0]["lang"] == "en" and len(seen.all("main")) == len(seen.all("header")) == 1
    ids = [a["id"] for _, a, _ in seen.elements if "id" in a]
    assert len(ids) == len({*ids})
    named = [a["aria-labelledby"] for _, a, _ in seen.elements if "aria-labelledby" in a]
    links = [a["href"][1:] for a in seen.all("a")]
    assert {*named, *links} <= {*ids} and len(links) >= 3
    assert len(seen.all("caption")) == len(seen.all("table")) == 2
    assert all(a.get("scope") in ("col", "row", "rowgroup") for a in seen.all("th"))
    assert all("tabindex" in a and a["role"] == "region" for a in seen.all("div") if "scroll" in a.get("class", ""))
    figures = [a for a in seen.all("svg") if "role" in a]
    assert len(figures) == len(seen.all("figure")) == 3 and all(len(a["aria-label"]) > 40 for a in figures)


def test_figures_take_the_colour_of_the_text_and_leave_the_background():
    text = page()
    drawn = text[text.index("<figure") :]
    assert "currentColor" in drawn and "#010203" not in drawn and "<metadata" not in drawn
    (rule,) = re.findall(r'id="heatmap-patch_1">\s*<path [^>]*class="(heatmap-\d+)"', drawn)
    assert f".{rule}{{fill: none}}" in drawn


@pytest.mark.filterwarnings("ignore:Glyph")
def test_text_from_outside_is_text_everywhere():
    text = render(hostile(), "html")
    seen = Page(text)
    assert HOSTILE in seen.texts and {*seen.scripts} == {"", "evidence"}
    cells = json.loads(seen.scripts["evidence"])["cells"]
    assert {c["name"][0] for c in cells.values()} == {HOSTILE} and "<" not in seen.scripts["evidence"]
    assert len(seen.all("script")) == 2 and HOSTILE in Page(fragment(hostile())).texts


def test_the_evidence_tells_of_each_finished_cell_its_runs_trials_and_curves():
    seen = Page(render(framed(), "html"))
    told = json.loads(seen.scripts["evidence"])
    shown = [a["data-cell"] for a in seen.all("td") if "data-cell" in a]
    assert {*shown} == {*told["cells"]} and "att_kl-random-sst2" not in shown  # refused: nothing made it
    made = told["cells"]["att_kl-every-sst2"]
    assert made["name"] == ["Att-KL", "transformer", "every", "SST-2"] and made["setting"] == "learning_rate = 0.0005"
    assert made["seeds"] == [[f"att_kl-every-sst2-{seed}", seed, "86.0", ""] for seed in (0, 1)]
    assert made["trials"] == [["att_kl-every-sst2-0", "learning_rate = 0.0005", "86.0", "chosen"]]
    assert ["other", "alpha = 0.5", "25.0", ""] in told["cells"]["vanilla_kd-every-sst2"]["trials"]
    stages = [["intermediate", 1], ["prediction", 1]]
    assert told["curves"]["att_kl-every-sst2-0"] == [[1.0, 0.5], [None, 86.0], stages]


def test_where_each_seed_chose_its_setting_each_is_told():
    once = framed()
    seeds = [replace(r, hyperparameters={"learning_rate": 0.001 * (1 + r.seed), "epochs": 2}) for r in mixed()[0].seeds]
    made = table([replace(mixed()[0], seeds=tuple(seeds))])
    told = "epochs = 2; learning_rate = 0.001, 0.002"
    tips = [a.get("title", "") for a in Page(render(made, "html")).all("td")]
    assert f"cell {mixed()[0].cell}; {told}; seeds 0, 1" in tips
    made = replace(made, runs=[{**run, "part": "trial", "by_seed": True} for run in once.runs])
    (first,) = (c for c in cells(made)["cells"].values() if c["setting"])
    assert first["setting"] == told
    assert ["learning_rate = 0.0005; seed 1", "chosen"] in [[what, became] for _, what, _, became in first["trials"]]


def test_a_long_curve_is_thinned_and_keeps_its_last_point():
    points = [{"stage": "s", "epoch": i, "loss": float(i), "selection": i / 1000} for i in range(1, 501)]
    made = table([cell(ROWS[0], "sst2", (), seeds=tuple(run(60, s, curve=points) for s in (0, 1)))])
    (losses, scores, stages), *_ = json.loads(Page(render(made, "html")).scripts["evidence"])["curves"].values()
    assert len(losses) == len(scores) <= 40 and losses[-1] == 500 and stages == [["s", 500]]


def test_what_was_measured_stands_apart_and_nothing_else_differs():
    one, other = (render(framed(seconds, peak_memory_mib=100 * seconds), "html") for seconds in (1.5, 2.5))
    assert one != other and unmeasured(one) == unmeasured(other)
    seen = Page(one)
    assert json.loads(seen.scripts["measured"])["att_kl-every-sst2-0"] == [1.5, 150]
    assert "20 in the cells, 1 that these start from, as teachers" in seen.texts
    assert any(text.startswith("1.5 min in all runs together") for text in seen.texts)  # 20 x 1.5 s, 60 s
    assert "150 MiB in one run" in seen.texts
    assert all(mark not in page() for mark in MEASURED)  # runs that tell nothing
    failed = replace(framed(), before={"teacher": {"status": "failed"}})  # which is none of those that are counted
    assert "20 in the cells" in Page(render(failed, "html")).texts


def test_the_machine_the_versions_and_the_commit_are_those_of_the_records():
    made = {"machine": "A processor", "harness": "0.1.0 commit 0123", "ended": "2026-11-28T07:55:44+00:00"}
    seen = Page(render(framed(made_on=made, versions={"torch": "2.13", "python": "3.11"}, device="cpu"), "html"))
    assert {"A processor", "0.1.0 commit 0123", "2026-11-28", "python 3.11, torch 2.13", "cpu"} <= {*seen.texts}


def test_a_table_of_455_cells_stays_under_two_megabytes(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = [f"t{i}" for i in range(7)]
    for name in tasks:
        monkeypatch.setitem(TASKS, name, replace(TASKS["sst2"], name=name, label=name.upper()))
    curve = [{"stage": "prediction", "epoch": i, "loss": 1 / i, "selection": i / 23} for i in range(1, 21)]
    rows = [Row(f"row{i:02}", "x", f"Row {i}") for i in range(65)]
    study = replace(STUDY, rows=tuple(rows), profiles={"quick": Profile("embedded", tuple(tasks), ("every",), 1, 4)})
    seeds = [tuple(run(60 + i % 30, seed, curve=curve) for seed in range(4)) for i in range(65)]
    cells = [
        cell(
            row,
            name,
            (),
            wanted_seeds=4,
            wanted_trials=0,
            seeds=tuple(replace(r, run=f"{row.name}{name}{r.seed:07}") for r in seeds[i]),
        )
        for i, row in enumerate(rows)
        for name in tasks
    ]
    text = render(table(cells, study), "html")
    told = json.loads(Page(text).scripts["evidence"])
    assert len(told["cells"]) == 455 and len(told["curves"]) == 4 * 455 and len(text.encode()) < 2_000_000
    assert "This figure is too large for a page: harness figures curves --study toy writes it." in Page(text).texts


DOES = """
const told = [];
const table = document.querySelector("table"), names = () => [...table.tBodies[1].rows].slice(1).map(r =>
  r.cells[0].textContent.replace(/[^A-Za-z+ -]/g, ""));
const button = [...table.querySelectorAll("thead th")][1].querySelector("button");
const at = () => button.parentNode.getAttribute("aria-sort");
told.push(names().join(), at());
for (let i = 0; i < 3; i++) { button.click(); told.push(names().join(), at()); }
const cell = document.querySelector("td[data-cell] button"), dialog = document.querySelector("dialog");
cell.focus(); cell.click();
told.push(dialog.open, dialog.querySelector("h2").textContent, document.activeElement.textContent,
  dialog.querySelectorAll("tbody tr").length, dialog.querySelector("code").textContent,
  dialog.querySelector("svg").getAttribute("aria-label"));
const wide = (part) => part.getBoundingClientRect().width, end = (part) => part.getBoundingClientRect().right;
dialog.querySelector("button").click();
told.push(dialog.open, document.activeElement === cell, document.querySelectorAll("table")[1].querySelector("button"),
  wide(table.caption.firstChild) > wide(table), Math.abs(end(button.firstChild) - end(cell)) < 1);
document.body.replaceChildren(document.createTextNode("TOLD" + JSON.stringify(told) + "END"));
"""


@pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here")
def test_a_browser_sorts_and_opens_what_made_a_number(tmp_path: Path) -> None:
    text = render(replace(framed(), comparison=compared().comparison), "html")
    path = tmp_path / "table.html"
    path.write_text(text.replace("</body>", f"<script>{DOES}</script></body>"), encoding="utf-8")
    words = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'user'}", "--dump-dom"]
    done = subprocess.run([CHROMIUM, *words, path.as_uri()], capture_output=True, text=True, timeout=60)
    told = json.loads(re.search("TOLD(.*)END", done.stdout)[1])
    as_it_was = "Vanilla KD,Hid-Seq,Att-KL,Att-KL + Val-KL"
    best_first = "Att-KL,Hid-Seq,Att-KL + Val-KL,Vanilla KD"
    worst_first = "Vanilla KD,Att-KL + Val-KL,Hid-Seq,Att-KL"
    assert told[:8] == [as_it_was, None, best_first, "descending", worst_first, "ascending", as_it_was, None]
    assert told[8:11] == [True, "Vanilla KD: 60.0 ± 0.0", "Close"]
    assert told[11:13] == [4, "harness show vanilla_kd-every-sst2"]  # two seeds, two trials
    assert told[13] == "Loss (dashed) between 0.5 and 1; selection metric × 100 between 60 and 60"
    assert told[14:17] == [False, True, None]  # the comparison, whose lines belong together, is not sorted
    assert told[17:] == [True, True]  # a caption is wider than its table, and a heading ends where its numbers end


def test_of_rows_that_share_a_cell_the_evidence_names_both():
    one = cell(ROWS[0], "sst2", (60, 62))
    told = cells(table([one, replace(one, row=ROWS[1])]))["cells"]
    assert [made["name"][0] for made in told.values()] == ["Vanilla KD and Hid-Seq"]
