"""Students of data of one's own, of teachers of several kinds, as the folders that transformers opens."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from harness.data import own
from harness.exporting.opened import TOLD, load
from tests.conftest import Harness
from tests.data.test_new_source import forget as forget
from tests.planning.test_examined import teacher
from tests.results import done, records, refused, table_folder

TEXTS = ["the dog was great .", "the film, it was awful .", "a nurse"]
SIZES = ("tiny", "big", "of no size")  # not in the order of the alphabet
pytestmark = pytest.mark.usefixtures("no_figures", "here")


@pytest.fixture
def fresh(call: Harness, forget: Callable[[], None]) -> Harness:
    """fresh(*words) runs the command line as a process does that has never heard of anybody's data."""

    def run(*words: object) -> subprocess.CompletedProcess[str]:
        clear()
        ended = call(*words)
        clear()
        return ended

    def clear() -> None:
        forget()
        own.KNOWN.clear()

    return run


@pytest.mark.parametrize("kind", ["BertForSequenceClassification", "MPNetForSequenceClassification"])
def test_names_of_classes_and_scores_are_kept_and_logits_are_the_students(
    kind: str, fresh: Harness, tmp_path: Path
) -> None:
    rows = [(f"the {who} is {size}", size, str(n + 0.5)) for who in ("dog", "cat", "nurse", "farmer", "story", "song")
            for n, size in enumerate(SIZES * 2)]  # fmt: skip
    for name, column in (("sizes", 1), ("marks", 2)):
        lines = ["text,label", *(f"{row[0]} {n},{row[column]}" for n, row in enumerate(rows))]
        (tmp_path / f"{name}.csv").write_text("\n".join(lines))
    given = teacher(tmp_path / "mpnet", "mpnet") if kind.startswith("MPNet") else "embedded"
    done(fresh(
        "run", "--study", "objectives_vs_init", "--out", tmp_path / "out", "--teacher", given, "--trials", 1,
        "--seeds", 1, "--objectives", "vanilla_kd", "--inits", "every", "--tasks", f"sizes={tmp_path / 'sizes.csv'}",
        f"marks={tmp_path / 'marks.csv'}", "--set", "epochs=1", "teacher.epochs=1", "student.layers=1",
        f"sizes.classes={','.join(SIZES)}", "--workers", 1,
    ))  # fmt: skip
    for record in records(tmp_path / "out", "teacher").values():
        assert record["selection"] == record["best"]["selection"], "of what is held out, as a student's, not of dev"
    cells = json.loads((table_folder(tmp_path / "out") / "plan.json").read_bytes())["cells"]
    for name in ("sizes", "marks"):
        (cell,) = (cell["id"] for cell in cells if cell["task"] == name)
        folder = tmp_path / f"{name}_student"
        done(fresh("export", cell, "--to", folder, "--out", tmp_path / "out"))
        model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
        assert type(model).__name__ == kind
        if name == "sizes":
            assert model.config.id2label == dict(enumerate(SIZES)) and model.config.label2id["of no size"] == 2
            assert model.config.problem_type == "single_label_classification"
        else:
            assert (model.config.num_labels, model.config.problem_type) == (1, "regression")
            told = [record["specification"] for record in records(tmp_path / "out", "student").values()]
            assert [model.config.finetuning_data] == [one["data"] for one in told if one["task"] == name]
        read = AutoTokenizer.from_pretrained(folder)(TEXTS, padding=True, truncation=True, return_tensors="pt")
        student = load(folder)
        with torch.inference_mode():
            torch.testing.assert_close(model(**read).logits, student.logits(TEXTS), rtol=0, atol=1e-6)
        first = student.predict(TEXTS)[0]
        assert set(first["probabilities"]) == set(SIZES) if name == "sizes" else isinstance(first["score"], float)


def test_a_student_of_labels_alone_says_so_and_reads_the_file_that_it_is_from(fresh: Harness, tmp_path: Path) -> None:
    file, out = tmp_path / "hotel.csv", tmp_path / "out"
    rows = [f"{n};the {who} was {word};{stars}" for n, who in enumerate(("desk", "room", "bed", "view") * 3)
            for word, stars in (("great", "five"), ("awful", "one"))]  # fmt: skip
    file.write_text("\n".join(["Guest ID;Review;Stars", *rows]))
    done(fresh(
        "run", "--study", "objectives_vs_init", "--out", out, "--trials", 1, "--seeds", 1, "--objectives",
        "labels_only", "vanilla_kd", "--inits", "every", "random", "--tasks", f"hotel={file}", "--workers", 1, "--set",
        "hotel.text=Review", "hotel.label=Stars", "hotel.delimiter=semicolon", "epochs=1", "teacher.epochs=1",
        "student.layers=1",
    ))  # fmt: skip
    cards = {}
    for cell in json.loads((table_folder(out) / "plan.json").read_bytes())["cells"]:
        folder = tmp_path / f"{cell['row']}_{cell['init']}"
        done(fresh("export", cell["id"], "--to", folder, "--out", out))
        cards[folder.name] = (folder / "README.md").read_text(encoding="utf-8")
    what = "| Data | hotel (hotel.csv): 2 classes (five, one); 21 to train on, 3 reported (held out of train"
    assert all(what in card and str(tmp_path) not in card for card in cards.values())
    assert not any("split: validation" in card for card in cards.values())  # of its results, for the hub
    taught = {name for name, card in cards.items() if "# transformer, distilled by Vanilla KD for hotel" in card}
    assert taught == {
        name for name, card in cards.items() if "- knowledge-distillation" in card and "its teacher has" in card
    }
    assert taught == {"vanilla_kd_every", "vanilla_kd_random"}
    for init, more in (("every", "; its layers start from embedded."), ("random", ".")):
        assert f"labels alone, without a teacher's answers{more}\n" in cards[f"labels_only_{init}"]

    student = tmp_path / "labels_only_every"
    said = [done(fresh("predict", *what, "--input", file)).stdout for what in ([student], [cell["id"], "--out", out])]
    wanted = [row.split(";")[1] for row in rows]
    assert [[json.loads(line)["text"] for line in answers.splitlines()] for answers in said] == [wanted] * 2
    (tmp_path / "other.csv").write_text("Guest ID;Stars\n1;five\n")
    refused(
        fresh("predict", student, "--input", tmp_path / "other.csv"),
        "there is no column Review or text or sentence, which predict reads; it has Guest ID, Stars: rename one",
    )
    told = json.loads((student / TOLD).read_bytes())
    del told["columns"]  # as earlier versions wrote it
    (student / TOLD).write_text(json.dumps(told))
    assert load(student).columns == ()
    refused(fresh("predict", student, "--input", file), "no column text or sentence", "it has Guest ID, Review, Stars")
