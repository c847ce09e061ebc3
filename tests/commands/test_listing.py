"""What there is, by name: `harness list`, what it keeps, and what a shell is told of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness import registry
from harness.commands import declared
from harness.files import read_sealed, write_sealed
from tests import launching
from tests.conftest import Harness
from tests.results import done

PLUGIN = (
    "from harness.contracts import Signal\nfrom harness.registry import objective\n"
    "@objective('mine', needs={Signal.SENTENCE})\ndef mine(student, teacher, batch):\n    '''What it does.'''\n"
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "distill-harness"


@pytest.mark.parametrize("kind", declared.KINDS)
def test_every_kind_is_listed_with_a_description(kind: str, call: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    done = call("list", kind)
    assert done.returncode == 0 and done.stdout, done.stderr
    found = declared.lines(kind)
    plugins = registry.ALL.get(kind)  # other tests load some of their own
    silent = [line.name for line in found if not line.text and (plugins is None or plugins.ships(line.name))]
    assert found and not silent, "of each there is something to say"
    words = " ".join(done.stdout.split())
    assert all(" ".join(f"{line.name} {line.family} {line.text}".split()) in words for line in found)
    monkeypatch.setenv("COLUMNS", "90")
    narrow = call("list", kind).stdout
    assert max(map(len, narrow.splitlines())) <= 90
    if not any(line.family for line in found):
        assert narrow.split() == done.stdout.split()


def test_objectives_are_listed_by_family_with_their_signals_and_sources(
    call: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    plain = [line.split()[0] for line in call("list", "objectives").stdout.splitlines()]
    assert plain == [line.name for line in declared.lines("objectives")], "each on a line, and no headings"
    monkeypatch.setenv("COLUMNS", "200")
    told = call("list", "objectives").stdout
    families = dict(re.findall(r"^([A-Z ]+): .*\n((?:.+\n)+)", told, re.M))
    assert list(families) == sorted(families) and len(families) > 4
    assert re.findall(r"^\w+", families["HIDDEN"], re.M) == ["hid_cls", "hid_seq"]
    assert "Needs logits. From Hinton et al. (2015), wang2023." in " ".join(families["PREDICTION"].split())
    shipped = [line for line in declared.lines("objectives") if registry.OBJECTIVES.ships(line.name)]
    unsaid = [line.name for line in shipped if " From " not in line.text or "Needs " not in line.text]
    assert unsaid == ["labels_only"], "every other objective names the work that it is from"


def test_every_setting_that_comes_with_it_says_what_it_is() -> None:
    kinds = registry.OBJECTIVES, registry.STUDENTS
    shipped = [kind.get(name) for kind in kinds for name in kind.names() if kind.ships(name)]
    settings = [(f"{one.name}.{name}", setting) for one in shipped for name, setting in one.hyperparameters.items()]
    silent = [name for name, setting in settings if not setting.says]
    assert len(shipped) > 30 and not silent


def test_what_is_known_is_not_loaded_again(forked: Harness, cache: Path) -> None:
    assert "vanilla_kd" in forked("list", "objectives").stdout
    (file,) = cache.iterdir()
    kept = read_sealed(file)
    write_sealed(file, {**kept, "lines": [["as_kept", "Of the file."]]})
    assert "as_kept" in forked("list", "objectives").stdout


@pytest.mark.parametrize("content", [b"", b"{", b'{"record":{"key":1},"sha256":"0"}'])
def test_a_damaged_file_is_made_anew(content: bytes, forked: Harness, cache: Path) -> None:
    first = forked("list", "tasks").stdout
    (file,) = cache.iterdir()
    whole = file.read_bytes()
    file.write_bytes(content)
    assert forked("list", "tasks").stdout == first and file.read_bytes() == whole


def test_a_folder_that_cannot_be_written_is_done_without(forked: Harness, cache: Path) -> None:
    first = forked("list", "tasks").stdout
    for file in cache.iterdir():
        file.unlink()
    cache.rmdir()
    cache.write_text("a file in its place")
    done = forked("list", "tasks")
    assert done.returncode == 0 and done.stdout == first


def test_another_content_of_a_plugin_is_another_list(forked: Harness, tmp_path: Path) -> None:
    plugin = tmp_path / "mine.py"
    plugin.write_text(PLUGIN)
    words = ("list", "objectives", "--plugin", plugin)
    assert "What it does." in forked(*words).stdout
    assert "What it does." in forked(*words).stdout
    plugin.write_text(PLUGIN.replace("What it does.", "Something else."))
    changed = forked(*words).stdout
    assert "Something else." in changed and "vanilla_kd" in changed
    plugin.write_text("not python")
    assert forked(*words).returncode == 2
    assert "mine" not in forked("list", "objectives").stdout


def test_the_version_is_told(harness: Harness) -> None:
    done = harness("--version")
    assert done.returncode == 0 and done.stdout.startswith("harness") and not done.stderr


def completed(line: str, folder: Path) -> set[str]:
    """What argcomplete offers a shell at the end of a line, by its protocol."""
    said = folder / "said"
    asked = {"_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": "\n", "_ARGCOMPLETE_STDOUT_FILENAME": str(said)}
    asked |= {"COMP_LINE": line, "COMP_POINT": str(len(line)), "_ARGCOMPLETE_SUPPRESS_SPACE": "1"}
    launching.forked(folder=folder / "process", cwd=folder, more=asked)
    return {word.strip() for word in said.read_text().split("\n")} - {""}


def test_a_shell_is_told_commands_flags_and_names(tmp_path: Path) -> None:
    pytest.importorskip("argcomplete")
    (tmp_path / "mine.py").write_text(PLUGIN)
    assert completed("harness pl", tmp_path) == {"plan"}
    assert completed("harness run --obj", tmp_path) == {"--objectives"}
    assert completed("harness list proc", tmp_path) == {"procedures"}
    assert completed("harness run --study multi_task_", tmp_path) == {
        "multi_task_procedures", "multi_task_speed", "multi_task_tasks"
    }  # fmt: skip
    assert completed("harness plan --plugin mine.py --objectives vanilla_kd mine", tmp_path) == {"mine"}
    assert completed("harness run --objectives att_kl+0.5*val", tmp_path) == {r"att_kl+0.5\*val_kl"}, "quoted"
    assert completed("harness run --students bil", tmp_path) == {"bilstm"}
    assert completed("harness run --study objectives_vs_init --profile s", tmp_path) == {"small"}
    assert completed("harness run --set learning", tmp_path) == {"learning_rate="}
    assert completed("harness run --plugin nothing.py --objectives a", tmp_path) == set()


def _print_objectives(*loaded: str) -> None:
    for plugin in loaded:
        registry.load_file(plugin)
    print(*(line.name for line in declared.lines("objectives")))


def test_what_one_process_has_loaded_besides_is_kept_for_no_other(tmp_path: Path) -> None:
    """A notebook may load a plugin and ask then; another process, with the same files, has no such plugin."""
    (tmp_path / "mine.py").write_text(PLUGIN)

    def names(*loaded: str) -> list[str]:
        said = launching.forked(*loaded, folder=tmp_path / "said", cwd=tmp_path, work=_print_objectives)
        return done(said).stdout.split()

    assert "mine" in names("mine.py")
    found = names()
    assert "mine" not in found and "vanilla_kd" in found
