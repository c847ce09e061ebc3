"""What bad input gets: one sentence naming the thing and the rule, exit status 2, nothing lost."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import SMALL_STUDY, Harness, environment
from tests.launching import begun
from tests.results import done, refused, table_folder

STUDY = ("run", "--study", "objectives_vs_init")

EARLY = {
    "study": (("run", "--study", "objectives_vs_ini"), ("objectives_vs_ini", "did you mean objectives_vs_init")),
    "no flag of it": (("run", "objectives_vs_init"), ("--study", "did you mean --study objectives_vs_init?")),
    "profile": ((*STUDY, "--profile", "smal"), ("smal", "did you mean small?")),
    "task": ((*STUDY, "--tasks", "mrcp"), ("mrcp", "did you mean mrpc?")),
    "flag": ((*STUDY, "--objective", "hid_cls"), ("--objective", "did you mean --objectives")),
    "flag of another command": (
        ("plan", *STUDY[1:], "--keep=best"),
        ("unknown flag '--keep=best': it is a flag of harness run (",),
    ),
    "flag of several others": (
        (*STUDY, "--to", "sub"),
        ("unknown flag '--to': it is a flag of harness report, harness figures, ",),
    ),
    "kind to list left out": (("list",), ("required: KIND, one of objectives, students, ",)),
    "command": (("runn",), ("unknown command 'runn': did you mean run?",)),
    "flag that is needed, misspelt": (
        ("plan", "--studdy", "objectives_vs_init"),
        ("unknown flag '--studdy': did you mean --study",),
    ),
    "word of a choice": ((*STUDY, "--layout", "matrx"), ("--layout", "invalid choice: 'matrx': did you mean matrix?")),
    "setting": ((*STUDY, "--set", "epoch=3"), ("epoch", "did you mean epochs?")),
    "setting without value": ((*STUDY, "--set", "epochs"), ("KEY=VALUE without spaces", "epochs")),
    "setting twice": ((*STUDY, "--set", "epochs=3", "epochs=4"), ("epochs", "twice")),
    "setting of the wrong type": ((*STUDY, "--set", "epochs=many"), ("epochs", "whole number", "many")),
    "setting that Python alone reads as a number": (
        (*STUDY, "--set", "batch_size=1_0"),
        ("batch_size", "whole number", "1_0"),
    ),
    "setting out of range": ((*STUDY, "--set", "epochs=0"), ("epochs", "at least 1", "0")),
    "setting that is not a number": ((*STUDY, "--set", "learning_rate=nan"), ("learning_rate", "finite")),
    "choice": ((*STUDY, "--set", "protocol=test"), ("protocol", "held_out", "published", "test")),
    "seeds": ((*STUDY, "--seeds", "0"), ("--seeds", "between 1 and")),
    "trials": ((*STUDY, "--trials", "two"), ("--trials must be a whole number, not 'two'",)),
    "share of a GPU": ((*STUDY, "--gpus-per-run", "half"), ("--gpus-per-run must be a number, not 'half'",)),
    "seeds as a list": ((*STUDY, "--seeds", "1,2"), ("--seeds must be a whole number, not '1,2'",)),
    "seeds one by one": ((*STUDY, "--seeds", "1", "2"), ("unexpected word '2': --seeds takes one value",)),
    "empty flag": (("plan", "--study", "objectives_vs_init", "--out", ""), ("--out is empty",)),
    "empty word": ((*STUDY, "--tasks", "mrpc", ""), ("--tasks is empty",)),
    "empty name": (("show", ""), ("CELL|RUN is empty",)),
    "layout of a format without one": (
        ("report", "--study", "objectives_vs_init", "--format", "json", "--layout", "matrix"),
        ("--layout has no effect on --format json", "markdown"),
    ),
    "comparison in a format without one": (
        ("report", "--study", "objectives_vs_init", "--format", "bibtex", "--against", "best"),
        ("--against has no effect on --format bibtex",),
    ),
    "columns of a table that a csv leaves out": (
        ("report", "--study", "objectives_vs_init", "--format", "csv", "--columns", "parameters", "--compare", "sub"),
        ("--columns has no effect on --format csv with --compare FOLDER",),
    ),
    "layout of a table that a csv leaves out": (
        ("report", "--study", "objectives_vs_init", "--format", "csv", "--layout", "matrix", "--with", "tuning"),
        ("--layout has no effect on --format csv with --with",),
    ),
    "comparisons that a csv leaves out": (
        ("report", "--study", "objectives_vs_init", "--format", "csv", "--against", "best", "--with", "tuning"),
        ("--against has no effect on --format csv with --with",),
    ),
    "published numbers that a csv leaves out": (
        ("report", "--study", "objectives_vs_init", "--format", "csv", "--compare", "published", "--with", "tuning"),
        ("--compare has no effect on --format csv with --with",),
    ),
    "merge into a folder that stays": (("merge", ".", "--into", "sub"), ("--into sub", "stays as it is")),
    "merge of nothing": (("merge", "nowhere", "--into", "sub"), ("no results in nowhere",)),
    "predictions into a folder": (
        ("predict", "cell", "--input", "-", "--output", "."),
        ("--output .", ".csv", "says how it is written"),
    ),
    "report format": (("report", "--study", "objectives_vs_init", "--format", "pdf"), ("pdf", "latex")),
}


TRY = """
import contextlib, io, json, sys
from harness.cli import main
for words in json.loads(sys.argv[1]):
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
        status = main(words)
    print(json.dumps([status, said.getvalue(), "torch" in sys.modules]))
"""


@pytest.fixture(scope="module")
def early(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str, bool]]:
    """Case -> (status, what was said, was torch loaded by then): of one fresh process that is given all of them."""
    folder = tmp_path_factory.mktemp("early")
    command = [sys.executable, "-c", TRY, json.dumps([words for words, _ in EARLY.values()])]
    process = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment(), check=True)
    assert not list(folder.iterdir())
    return dict(zip(EARLY, map(json.loads, process.stdout.splitlines()), strict=True))


@pytest.mark.parametrize("case", EARLY)
def test_refusals_that_never_load_torch(case: str, early: dict[str, tuple[int, str, bool]]) -> None:
    (words, said), (status, error, torch) = EARLY[case], early[case]
    refused(subprocess.CompletedProcess(words, status, "", error), *said)
    assert not torch


def test_a_refusal_ends_the_command(harness: Harness, tmp_path: Path) -> None:
    refused(harness(*EARLY["study"][0], cwd=tmp_path), *EARLY["study"][1])
    assert not list(tmp_path.iterdir())


LATER = {
    "objective": (("--objectives", "att_kl", "hid_sek"), ("hid_sek", "did you mean hid_seq")),
    "objective of no file": (("--objectives", "qqqq"), ("qqqq", "--plugin FILE loads one of your own")),
    "objective in a sum": (("--objectives", "0.5*att_kl+hid_sek"), ("objective 'hid_sek': did you mean hid_seq",)),
    "student": (("--students", "transfomer"), ("transfomer", "did you mean transformer")),
    "init": (("--inits", "everry"), ("everry", "every")),
    "layers the teacher does not have": (("--inits", "1,9"), ("9", "layers are 1 to 4")),
    "too few layers": (("--inits", "1"), ("1",)),
    "objective's setting": (("--set", "vanilla_kd.temprature=3"), ("vanilla_kd.temprature", "vanilla_kd.temperature")),
    "setting without its objective's name": (("--set", "temperature=3"), ("temperature", "vanilla_kd.temperature")),
    "setting of an objective not selected": (
        ("--objectives", "labels_only", "--set", "vanilla_kd.temperature=3"),
        ("vanilla_kd.temperature",),
    ),
    "objective's setting out of range": (
        ("--objectives", "vanilla_kd", "--set", "vanilla_kd.alpha=1.5"),
        ("vanilla_kd.alpha", "1.5"),
    ),
}


@pytest.mark.parametrize("case", LATER)
def test_refusals_about_plugins(case: str, glue: Path, checkpoint: Path, call: Harness, tmp_path: Path) -> None:
    words, said = LATER[case]
    common = ("--tasks", "sst2", "--data", glue, "--teacher", checkpoint, "--out", tmp_path / "out")
    refused(call(*STUDY, *words, *common), *said)
    assert not list(tmp_path.glob("out/ledger/*"))


# ---------------------------------------------------------------- teachers


def test_a_broken_teacher_folder(glue: Path, checkpoint: Path, call: Harness, tmp_path: Path) -> None:
    folder, out = Path(shutil.copytree(checkpoint, tmp_path / "teacher")), tmp_path / "out"
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    refused(call(*STUDY, "--tasks", "sst2", "--data", glue, "--teacher", folder, "--out", out), str(weights))
    assert not list(out.glob("ledger/*"))


# ---------------------------------------------------------------- data


def test_broken_data(glue: Path, checkpoint: Path, call: Harness, tmp_path: Path) -> None:
    folder, out = Path(shutil.copytree(glue, tmp_path / "glue")), tmp_path / "out"
    train = folder / "SST-2" / "train.tsv"
    lines = train.read_text().splitlines()
    train.write_text("\n".join([*lines[:6], "a line without its label", *lines[6:]]) + "\n")
    process = call(*STUDY, "--tasks", "sst2", "--data", folder, "--teacher", checkpoint, "--out", out)
    refused(process, str(train), "line 7")
    assert not list(out.glob("ledger/*"))


def test_one_missing_task_of_several_stops_before_anything_is_trained(
    glue: Path, checkpoint: Path, call: Harness, tmp_path: Path
) -> None:
    folder, out = Path(shutil.copytree(glue, tmp_path / "glue")), tmp_path / "out"
    (folder / "MRPC" / "train.tsv").unlink()
    common = ("--data", folder, "--teacher", checkpoint, "--out", out)
    process = call("run", "--study", "multi_task", "--objectives", "mkd_lstm", "--tasks", "sst2", "mrpc", *common)
    refused(process, "mrpc", str(folder), "train.tsv", "does not exist")
    assert not list(out.glob("ledger/*"))


def test_one_task_is_no_multi_task_list(glue: Path, checkpoint: Path, call: Harness, tmp_path: Path) -> None:
    common = ("--data", glue, "--teacher", checkpoint)
    process = call("plan", "--study", "multi_task", "--objectives", "mkd_lstm", "--tasks", "sst2", *common)
    said = "multi_task trains one model on several tasks, but only sst2 is selected; name more with --tasks"
    assert f"refused: {said}" in process.stdout and "0 cells, 1 refused; 0 runs" in process.stdout


# ---------------------------------------------------------------- words and their vectors

SIZES = ("student.embedding_size=2", "student.hidden_units=4", "student.head_units=4")
SHORT = ("epochs=1", "train_examples=16", "max_length=16", "teacher.epochs=1")
WORDS = ("run", "--study", "distilled_bilstm", "--objectives", "plain", "--tasks", "sst2", "--seeds", "1")


def _with_vectors(
    text: str, glue: Path, checkpoint: Path, call: Harness, folder: Path
) -> subprocess.CompletedProcess[str]:
    """A small BiLSTM that starts from a file of this text."""
    file = folder / "vectors.txt"
    file.write_text(text)
    places = ("--data", glue, "--teacher", checkpoint, "--out", folder / "out", "--workers", "1", "--trials", "1")
    return call(*WORDS, *places, "--inits", f"vectors:{file}", "--set", *SIZES, *SHORT)


def test_a_header_of_word_vectors_is_read(glue: Path, checkpoint: Path, call: Harness, tmp_path: Path) -> None:
    process = done(_with_vectors("3 2\nthe 1 2\nunheard 1 1\ndog 0 1\n", glue, checkpoint, call, tmp_path))
    assert "vectors:vectors.txt gives bilstm the vectors of" in " ".join(process.stdout.split())


def test_word_vectors_of_a_wrong_width_are_refused(glue: Path, checkpoint: Path, call: Harness, tmp_path: Path) -> None:
    process = _with_vectors("the 1 2 3\ndog 4 5 6\n", glue, checkpoint, call, tmp_path)
    refused(process, "vectors.txt holds vectors of 3 numbers, but bilstm.embedding_size is 2")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("the 1 2\ndog 1 2\nthe 3 4\n", "line 3: 'the' is already in line 1"),
        ("the 1 2\nunheard 1 2\nunread 1\n", "line 3: a word and 2 numbers are expected, not 2 columns"),  # cut off
        ("9 2\nunheard 1 2\n", "its first line says 9 vectors, but it holds 1"),
        ("unheard 1 2\nthe 0,5 1,5\n", "line 2: '0,5' is not a number"),
    ],
)
def test_broken_word_vectors_are_refused_before_anything_is_trained(
    text: str, said: str, glue: Path, checkpoint: Path, call: Harness, tmp_path: Path
) -> None:
    refused(_with_vectors(text, glue, checkpoint, call, tmp_path), f"{tmp_path / 'vectors.txt'}", said)
    assert not list(tmp_path.glob("out/ledger/*"))


def test_broken_word_vectors_that_replace_words_are_refused(call: Harness, tmp_path: Path) -> None:
    (tmp_path / "vectors.txt").write_text("unheard 1 2\nunread 1\n")
    words = ("--objectives", "distilled", "--set", f"augmentation=word_vectors:{tmp_path / 'vectors.txt'}")
    refused(call("plan", "--study", "distilled_bilstm", *words), "vectors.txt, line 2: a word and 2 numbers")


def test_a_setting_of_cells_that_cannot_exist_is_told_with_why(call: Harness, tmp_path: Path) -> None:
    (tmp_path / "vectors.txt").write_text("the 1 2\ndog 3 4\n")
    words = ("--inits", f"vectors:{tmp_path / 'vectors.txt'}", "--set", "bilstm.embedding_size=3")
    refused(
        call("plan", "--study", "distilled_bilstm", "--tasks", "sentiment", *words),
        "'bilstm.embedding_size' has no effect: no selected cell uses it; plain on sentiment would, but is refused: ",
        "vectors.txt holds vectors of 2 numbers, but bilstm.embedding_size is 3",
    )


def test_texts_without_a_word_make_no_vocabulary(glue: Path, checkpoint: Path, call: Harness, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(glue, tmp_path / "glue"))
    train = folder / "SST-2" / "train.tsv"
    first, *lines = train.read_text().splitlines()
    train.write_text("\n".join([first, *(f"[UNK]\t{line[-1]}" for line in lines)]) + "\n")
    places = ("--data", folder, "--teacher", checkpoint, "--out", tmp_path / "out", "--workers", "1", "--trials", "1")
    process = call(*WORDS, *places, "--set", *SIZES, *SHORT)
    assert process.returncode == 2 and "Traceback" not in process.stderr
    assert process.stderr.splitlines()[-1].endswith(
        "a word-level vocabulary is built from the training texts, but none of them contains a word"
    )


# ---------------------------------------------------------------- output folders


def test_output_folders_that_cannot_be_used(glue: Path, checkpoint: Path, call: Harness, tmp_path: Path) -> None:
    common = (*STUDY, "--tasks", "sst2", "--data", glue, "--teacher", checkpoint, "--out")
    newer = tmp_path / "newer"
    newer.mkdir()
    (newer / "harness.json").write_text(json.dumps({"format": 2}))
    refused(call(*common, newer), str(newer), "format 2")
    refused(call(*common, "/proc/nowhere"), "/proc/nowhere")
    latin = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9")
    refused(call(*common, latin), "--out", "not in UTF-8")
    assert not os.path.exists(latin)


def on_a_full_disk(*words: str) -> int:
    """The kernel refuses to let any file grow past the limit, as it would on a full disk: checkpoints do not fit."""
    from harness.cli import main

    resource.setrlimit(resource.RLIMIT_FSIZE, (160_000, resource.RLIM_INFINITY))
    return main(words)


def test_a_full_disk_stops_the_study_and_keeps_what_is_finished(
    glue: Path, checkpoint: Path, often: Path, call: Harness, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    study = (*STUDY, "--tasks", "sst2", "--inits", "every", "--seeds", "1")
    places = ("--data", str(glue), "--teacher", str(checkpoint), "--out", str(out), "--workers", "1", "--trials", "1")
    settings = ("--set", "train_examples=64", "teacher.epochs=1", "epochs=30", "max_length=16")
    words = (*study, "--objectives", "vanilla_kd", *places, "--plugin", str(often), *settings)
    done(call(*study, "--objectives", "labels_only", *places, *settings))  # with the teacher
    before = {p: p.read_bytes() for p in out.glob("ledger/*/record.json")}
    assert len(before) == 2
    driver = begun(*words, folder=tmp_path / "said", work=on_a_full_disk)
    driver.join(300)
    errors = (tmp_path / "said" / "error").read_text()
    assert driver.exitcode == 4, errors
    assert "disk is full" in errors.splitlines()[-1] and "Traceback" not in errors
    assert before.keys() == {*out.glob("ledger/*/record.json")}
    done(call(*words))
    assert all(path.read_bytes() == content for path, content in before.items())


# ---------------------------------------------------------------- plugins


def test_a_loss_that_becomes_nan_fails_its_run_alone(
    glue: Path, checkpoint: Path, call: Harness, tmp_path: Path
) -> None:
    """And so does a product that overflows before the loss does; neither is tried again."""
    (tmp_path / "explosive.py").write_text(
        "from harness.contracts import Signal\nfrom harness.registry import objective\n"
        "@objective('explosive', needs={Signal.SENTENCE})\n"
        "def explosive(student, teacher, batch):\n"
        "    return (student.sentence - teacher.sentence).mean() * (float('nan') if 5 in batch.ids else 1.0)\n"
        "@objective('overflowing', needs={Signal.SENTENCE})\n"
        "def overflowing(student, teacher, batch):\n"
        "    raise FloatingPointError('a product of 64 matrices')\n"
    )
    out = tmp_path / "out"
    words = [word for one in SMALL_STUDY for word in (("explosive", "overflowing") if one == "att_kl" else (one,))]
    words += ["--inits", "every", "--trials", "1", "--seeds", "1", "--data", glue, "--teacher", checkpoint]
    words += ["--out", out, "--plugin", tmp_path / "explosive.py"]
    process = call("run", *words)
    assert process.returncode == 1, process.stdout + process.stderr
    assert "became nan at step" in process.stderr and "term explosive" in process.stderr
    assert "Traceback" not in process.stderr
    assert re.search(r"\n[1-9]\d* runs trained, 2 failed\. The table", process.stdout), process.stdout
    assert re.search(r" runs done, 2 failed", process.stderr), process.stderr
    table = json.loads((table_folder(out) / "table.json").read_text())
    text = json.dumps(table)
    assert '"failed"' in text and '"complete"' in text
    failed = [p.parent.name for p in out.glob("ledger/*/record.json") if b'"failed"' in p.read_bytes()]
    shown = "".join(call("show", run[:10], "--out", out).stdout for run in failed)
    assert "Diverged" in shown and "FloatingPointError" in shown and shown.count("Traceback") >= len(failed) == 2
    cells = {entry["cell"] for entry in table["entries"] if entry["status"] == "failed" and entry["cell"]}
    shown = "".join(call("show", cell, "--out", out).stdout for cell in cells)
    assert all(f"run {run} failed:\n" in shown for run in failed) and "Diverged" in shown
    again = call("run", *words)
    assert again.returncode == 1 and "0 runs trained" in again.stdout
    assert "2 cells failed" in again.stderr and "tries again what has not diverged" in again.stderr
    show = re.search(r"harness show (\w+) --out (\S+) tells why", again.stderr)
    assert show and show[1] in cells and Path(show[2]) == out


def test_windows_is_refused_before_what_it_has_not_is_imported(tmp_path: Path) -> None:
    program = (
        "import sys; sys.platform = 'win32'; sys.modules |= {'fcntl': None, 'resource': None}\n"
        "import harness.cli; sys.exit(harness.cli.main(['run', '--study', 'objectives_vs_init']))"
    )
    ended = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 2 and not ended.stdout and not os.listdir(tmp_path)
    assert ended.stderr == (
        "harness: Windows is not supported: use the harness in its Subsystem for Linux (wsl --install)\n"
    )
