"""Words, numbers and names that no study is made of: `plan` and `run` refuse them alike, and say what to type."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.conftest import Harness
from tests.results import done, refused

STUDY = ("--study", "objectives_vs_init")
LONG = "a" * 100_000

WORDS = {
    "seeds without end": (("--seeds", "1" + "0" * 21), ("--seeds must be between 1 and",)),
    "trials without end": (("--trials", "1" + "0" * 20), ("--trials must be between 1 and",)),
    "workers without end": (("--workers", "1" + "0" * 20), ("--workers must be between 1 and",)),
    "no workers": (("--workers", "0"), ("--workers must be between 1 and",)),
    "threads": (("--set", "threads=1000000"), ("threads must be between 1 and",)),
    "a batch of more than there is": (("--set", f"batch_size={10**23}"), ("batch_size must be at most",)),
    "a length of nothing's": (("--set", "max_length=100000"), ("max_length must be between 4 and",)),
    "a length beyond the teacher's": (("--set", "max_length=65"), ("max_length must be at most 64", "embedded", "65")),
    "a length beyond it for itself": (("--set", "teacher.max_length=65"), ("teacher.max_length must be at most 64",)),
    "no teacher": (("--teacher", ""), ("--teacher is empty",)),
    "no data": (("--data", " "), ("--data is empty",)),
    "no corpus": (("--corpus", ""), ("--corpus is empty",)),
    "a task twice": (("--tasks", "entailment", "entailment"), ("--tasks names entailment twice",)),
    "an initialisation twice": (("--inits", "every", "every"), ("--inits names every twice",)),
    "an objective twice": (("--objectives", "att_kl", "hid_seq", "att_kl"), ("--objectives names att_kl twice",)),
    "an objective twice in other words": (
        ("--objectives", "att_kl+hid_seq", "1*hid_seq+att_kl"),
        ("--objectives names att_kl+hid_seq twice", "1*hid_seq+att_kl"),
    ),
    "a weight below zero": (("--objectives", "-1*att_kl"), ("'-1*att_kl'", "greater than zero", "'0.5*att_kl+val_kl'")),
    "a suggestion once": (("--objectives", "vanila_kd"), ("did you mean vanilla_kd or val_kl?",)),
    "valid names once": (("--objectives", "zzz"), ("valid names: att_kl, att_kl+hid_seq,",)),
    "no folder of fairseq": (("--teacher", "fairseq:/nonexistent"), ("/nonexistent does not exist or is not a",)),
    "no data folder": (("--tasks", "rte", "--data", "/nonexistent"), ("data folder /nonexistent does not exist",)),
    "no corpus file": (("--inits", "pretrained", "--corpus", "absent.txt"), ("absent.txt",)),
    "no corpus of the hub": (("--inits", "pretrained", "--corpus", "hub:a/b+hub:"), ("'hub:' names no data set",)),
    "no run to start from": (("--inits", "pretrained:0123456789abcdef"), ("no finished run 0123456789abcdef",)),
    "a foreign folder": (("--out", "foreign"), ("foreign holds files that are not results",)),
    "a file for a folder": (("--out", "foreign/thesis.tex"), ("thesis.tex is a file",)),
    "a long study": (("--study", LONG), ("unknown study 'aaa", "valid names:")),
    "a long task": (("--tasks", LONG), ("unknown task 'aaa", "valid names:")),
    "a long objective": (("--objectives", LONG), ("aaa'",)),
    "a long setting": (("--set", f"{LONG}=1"), ("aaa'",)),
    "a long plugin": (("--plugin", LONG), ("aaa",)),
    "a study that rings": (("--study", "a\x1b[2Jb\u202e\nc"), (r"unknown study 'a\x1b[2Jb\u202e\nc'",)),
    "a folder that rings": (("--tasks", "rte", "--data", "a\x1b[2J\nb"), (r"data folder a\x1b[2J\nb does not exist",)),
}


@pytest.mark.parametrize("command", ["plan", "run"])
@pytest.mark.parametrize("case", WORDS)
def test_words_that_no_study_is_made_of(
    command: str, case: str, call: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "thesis.tex").write_text("precious")
    monkeypatch.chdir(tmp_path)
    words, said = WORDS[case]
    process = call(command, *STUDY, *words)
    refused(process, *said)
    assert len(process.stderr) < 2_000 and "bin, boot" not in process.stderr
    assert not list(tmp_path.glob("results/ledger/*"))


@pytest.mark.parametrize("command", ["run", "pretrain", "plan"])
@pytest.mark.parametrize("name", ["WORLD_SIZE", "RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_PORT"])
def test_an_environment_that_no_launcher_sets(
    name: str, command: str, call: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "abc")
    process = call(command, *STUDY, "--objectives", "vanilla_kd", "--out", tmp_path / "out")
    if command == "plan":
        assert process.returncode == 0
    else:
        refused(process, f"{name} in the environment is a whole number", "'abc'")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("class", "a keyword of Python"),
        ("None", "a keyword of Python"),
        ("a" * 300, "has at most 100 letters"),
        ("two words", "letters, digits and underscores"),
        ("../up", "letters, digits and underscores"),
        ("torch", "its file would hide the installed module torch"),
        ("json", "its file would hide the installed module json"),
    ],
)
def test_names_that_no_objective_can_have(
    name: str, said: str, call: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    refused(call("new", "objective", name), said)
    assert not list(tmp_path.iterdir())


def test_a_data_folder_given_by_name_is_read_by_plan(glue: Path, call: Harness, tmp_path: Path) -> None:
    """What `run` would refuse of it, `plan` refuses: only the hub may be out of reach."""
    folder = shutil.copytree(glue, tmp_path / "glue")
    words = ("plan", *STUDY, "--tasks", "sst2", "mrpc", "--data", folder, "--teacher", "roberta-base")
    planned = done(call(*words))  # a hub name, whose weights a plan does without
    train, dev = ((folder / "SST-2" / f"{name}.tsv").read_text().splitlines()[1:] for name in ("train", "dev"))
    both = sum(line in train for line in dev)
    assert f"note: {both} of the 40 dev examples of sst2 are among its training examples, too" in planned.stdout
    again = sum(train.count(line) > 1 for line in train)
    assert f"note: {again} of the 120 training examples of sst2 have a text that another of them has" in planned.stdout
    assert both and "of mrpc are among" not in planned.stdout, "a pair is another if either text is"
    (folder / "SST-2" / "dev.tsv").write_text("")
    refused(call(*words), "dev.tsv is empty")
    (folder / "SST-2" / "dev.tsv").unlink()
    refused(call(*words), "dev.tsv, which does not exist")
