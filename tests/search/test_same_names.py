"""Teachers, data and files of the same name that hold something else, and names that are no places."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.errors import UserError
from harness.planning import together
from harness.planning.plan import resolve
from harness.planning.together import recorded
from tests.search.builders import asked, kept
from tests.small_models import checkpoint as small_checkpoint

STUDY = "objectives_vs_init"


@pytest.mark.parametrize(
    "more",
    [
        {"data": "elsewhere"},
        {"tasks": ["entailment=other.csv"]},
        {"baselines": True},
        {"controls": True},
        {"checkpoints": ["a-model"]},
    ],
    ids=str,
)
def test_results_are_not_found_by_flags_that_did_not_make_them(tmp_path: Path, more: dict[str, object]) -> None:
    kept(tmp_path, tasks=["entailment"], objectives=["vanilla_kd"])
    assert recorded(tmp_path, asked(data="embedded", tasks=["entailment"])).cells
    with pytest.raises(UserError, match="in these results, not|planned here"):
        recorded(tmp_path, asked(**more))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"tasks": ["mine=hub:another/films"]}, "task mine is hub:one/films in these results, not hub:another/films"),
        ({"tasks": ["mine=./films"]}, "task mine is hub:one/films in these results, not ./films"),
        ({"corpus": "hub:another/texts"}, "--corpus is hub:one/texts in these results, not hub:another/texts"),
        ({"inits": ["vectors:{other}/v.bin"]}, "the file of vectors:{other}/v.bin is {one}/v.bin in these"),
    ],
    ids=str,
)
def test_others_of_the_same_name_are_told(tmp_path: Path, more: dict[str, Any], said: str) -> None:
    places = {part: str(tmp_path / part) for part in ("one", "other")}
    for place in places.values():
        Path(place).mkdir()
        (Path(place) / "v.bin").write_text(place)
    plan = resolve(asked(tasks=["entailment"], objectives=["vanilla_kd"], inits=["random"]))
    told = {"mine": {"place": "hub:one/films"}}
    files = {"c": f"{places['one']}/v.bin"}
    plan = replace(plan, corpus="hub:one/texts", files=files, declared=told)
    filled = json.loads(json.dumps(more).replace("{other}", places["other"]))
    with pytest.raises(UserError, match=re.escape(said.format(**places))):
        together._check_asked(plan, asked(**filled))
    same = json.loads(json.dumps(more).replace("{other}", places["one"]).replace("hub:another", "hub:one"))
    if "./films" not in str(same):
        together._check_asked(plan, asked(**same))


def test_a_checkpoint_is_found_by_the_flag_that_made_it_and_no_other(tmp_path: Path) -> None:
    one, other = (
        small_checkpoint(tmp_path / part / "m", "bert", initializer_range=width)
        for part, width in (("a", 0.02), ("b", 1.0))
    )
    out, kind = tmp_path / "out", {"tasks": ["sentiment"], "objectives": ["vanilla_kd"], "inits": ["random"]}
    for word in (f"m={one}", str(one)):
        ids = {cell.id for cell in kept(out, **kind, checkpoints=[word]).cells}
        for more in ({**kind, "checkpoints": [word]}, {"checkpoints": ["m"]}):
            assert {cell.id for cell in recorded(out, asked(**more)).cells} == ids
    wider = {**kind, "objectives": ["vanilla_kd", "labels_only"]}
    kept(tmp_path / "wider", **wider, checkpoints=[f"m={one}"])
    for word in (f"m={one}", "m"):
        some = recorded(tmp_path / "wider", asked(**kind, checkpoints=[word]))
        assert {cell.row for cell in some.cells} == {row.name for row in some.rows} == {"vanilla_kd", "m"}
    with pytest.raises(UserError, match="checkpoint m is .*a/m in these results, not .*b/m"):
        recorded(out, asked(checkpoints=[str(other)]))
    with pytest.raises(UserError, match="no checkpoint 'n' was planned here: valid names: m"):
        recorded(out, asked(checkpoints=[f"n={one}"]))


def test_another_teacher_or_data_of_the_same_name_are_not_those_that_made_them(tmp_path: Path) -> None:
    folders = [tmp_path / name / "embedded" for name in ("one", "copy", "another")]
    files = [folder.parent / "mine.csv" for folder in folders]
    for folder, file, seed in zip(folders, files, (0, 0, 1), strict=True):
        small_checkpoint(folder, "bert", initializer_range=0.02 + seed)
        lines = [f"film {number},{(number + seed) % 2}" for number in range(40)]
        file.write_text("\n".join(["text,label", *lines]) + "\n")
    plan = kept(tmp_path, tasks=[f"mine={files[0]}"], objectives=["vanilla_kd"], teacher=str(folders[0]))
    assert plan.label == "./embedded", "which the name alone would mean"
    for folder in folders[:2]:
        assert recorded(tmp_path, asked(teacher=str(folder), tasks=[f"mine={files[1]}"])).cells
    with pytest.raises(UserError, match="--teacher is .*one/embedded in these results, not .*another/embedded"):
        recorded(tmp_path, asked(teacher=str(folders[2])))
    with pytest.raises(UserError, match="task mine is .*one/mine.csv in these results, not .*another/mine.csv"):
        recorded(tmp_path, asked(teacher=str(folders[0]), tasks=[f"mine={files[2]}"]))
    both = f"embedded+{folders[0]}"
    kept(tmp_path / "two", tasks=["sentiment"], objectives=["vanilla_kd"], teacher=both, inits=["random"])
    with pytest.raises(UserError, match="--teacher is .*one/embedded in these results, not .*another/embedded"):
        recorded(tmp_path / "two", asked(teacher=f"embedded+{folders[2]}"))


def test_what_has_a_name_is_not_a_place_of_that_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    small_checkpoint(tmp_path / "minilm", "bert")
    kind = {"tasks": ["sentiment"], "objectives": ["vanilla_kd"], "inits": ["random"]}
    plan = kept(tmp_path / "out", teacher="./minilm", **kind)
    base = tmp_path / "out" / STUDY / "quick"
    (base / plan.variant.partition("/")[0]).rename(base / "teacher=minilm")  # as earlier versions called it
    path = next(base.glob("*/*/plan.json"))
    told = {**json.loads(path.read_text()), "flags": "--teacher minilm"}
    path.write_text(json.dumps({name: part for name, part in told.items() if name != "sha256"}))
    assert recorded(tmp_path / "out", asked(teacher="./minilm", **kind)).cells == plan.cells
    with pytest.raises(UserError, match="--teacher is .*/minilm in these results, not minilm"):
        recorded(tmp_path / "out", asked(teacher="minilm", **kind))
    kept(tmp_path / "out", teacher="minilm", **{**kind, "objectives": ["labels_only"]})
    kept(tmp_path / "out", teacher="minilm", **kind)
    assert len([*base.iterdir()]) == 2, "it took the folder's place"
    assert recorded(tmp_path / "out", asked(teacher="./minilm", **kind)).cells == plan.cells
    rows = {cell.row for cell in recorded(tmp_path / "out", asked(teacher="minilm")).cells}
    assert rows == {"labels_only", "vanilla_kd"}, "of both that are narrowed"
    (tmp_path / "embedded").mkdir()
    with pytest.raises(UserError, match="--data is embedded in these results, not ./embedded"):
        recorded(tmp_path / "out", asked(teacher="./minilm", data="./embedded", **kind))


@pytest.mark.parametrize("what", ["the data of task mine", "teacher huggingface of task sentiment"])
def test_what_rests_on_others_of_the_same_name_is_no_one_table(tmp_path: Path, what: str) -> None:
    out = tmp_path / "out"
    for part, family in (("a", "bert"), ("b", "electra")):
        (place := tmp_path / part).mkdir()
        teacher = small_checkpoint(place / "model", family)
        rows = [f"good film {part} {number},{number % 2}" for number in range(60)]
        (place / "mine.csv").write_text("\n".join(["text,label", *rows]) + "\n")
        given = {"tasks": [f"mine={place / 'mine.csv'}"]} if "data" in what else {"teacher": str(teacher)}
        asked_for = {"tasks": ["sentiment"], "inits": ["random"], "seeds": 1, "trials": 1, **given}
        kept(out, objectives=["vanilla_kd", "hid_cls" if part == "a" else "logit_mse"], **asked_for)
    kind = {"seeds": 1, "trials": 1}
    if "data" not in what:
        ours = recorded(out, asked(**kind, teacher=str(teacher)))
        assert {cell.row for cell in ours.cells} == {"vanilla_kd", "logit_mse"}, "the other teacher is here, too"
        shutil.rmtree(tmp_path / "a")
        moved = {"teacher": str(shutil.move(teacher, tmp_path / "model"))}
        kind, asked_for = kind | moved, asked_for | moved
    with pytest.raises(UserError, match=f"^{what} is another in objectives=logit_mse,vanilla_kd--.*, so these"):
        recorded(out, asked(**kind))
    told = recorded(out, asked(**asked_for, objectives=["vanilla_kd", "logit_mse"]))
    assert {cell.row for cell in told.cells} == {"vanilla_kd", "logit_mse"}, "by all of its flags"
    alone = recorded(out, asked(**kind, objectives=["hid_cls"]))
    assert [cell.row for cell in alone.cells] == ["hid_cls"], "of what only one of them has"
    with pytest.raises(UserError, match="is another in"):
        recorded(out, asked(**kind, objectives=["hid_cls", "logit_mse"]))


def test_vectors_of_another_file_of_the_same_name_are_no_one_table(tmp_path: Path) -> None:
    out = tmp_path / "out"
    kind = {"seeds": 1, "trials": 1, "overrides": ("bilstm.embedding_size=3",)}
    narrowed = {"students": ["bilstm"], "objectives": ["vanilla_kd"], "tasks": ["sentiment"]}
    for part, more in (("a", []), ("b", ["random"])):
        (file := tmp_path / part / "v.txt").parent.mkdir()
        file.write_text(f"the 0.1 0.2 0.3\nfilm 0.5 0.2 0.{7 + len(more)}\n")
        kept(out, **kind, **narrowed, inits=[f"vectors:{file}", *more])
    with pytest.raises(UserError, match="^the file of init vectors:v.txt is another in"):
        recorded(out, asked(**kind))
    (cell,) = recorded(out, asked(**kind, inits=["random"])).cells
    assert cell.init == "random", "what only one of them has"
