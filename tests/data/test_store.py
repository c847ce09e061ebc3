"""What is made once: by one of many, whole or made again, and said where something damaged it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.data.store import Store
from harness.errors import UserError
from tests.launching import CONTEXT


def made(room: Path, key: Any = "key", text: str = "whole") -> tuple[Store, bool]:
    """A store of two files, and whether it had to be made."""
    store = Store(room, key)
    with store.held("a", "b") as whole:
        if not whole:
            for name in ("a", "b"):
                (store.folder / name).write_text(f"{text} {name}")
            store.vouch("a", "b", number=3)
    return store, not whole


def test_it_is_made_once_for_a_key(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert [made(tmp_path, key)[1] for key in ("key", "key", ["other", 1], ["other", 1])] == [True, False, True, False]
    store = made(tmp_path)[0]
    assert store.told["number"] == 3 and store.told["files"].keys() == {"a", "b"} and not capfd.readouterr().err


@pytest.mark.parametrize(
    ("name", "damage", "told"),
    [
        ("a", lambda path: path.write_text("WHOLE a"), "are damaged (a)"),
        ("b", Path.unlink, "are missing (b)"),
        ("index.json", lambda path: path.write_bytes(path.read_bytes()[:-9]), "are damaged (index.json)"),
        ("index.json", lambda path: path.write_bytes(path.read_bytes().replace(b":3", b":4")), "(index.json)"),
        ("index.json", lambda path: path.write_text("[]"), "are damaged (index.json)"),
        ("index.json", lambda path: (path.unlink(), path.mkdir()), "are damaged (index.json)"),
        ("index.json", Path.unlink, ""),  # killed before it was written: nothing was vouched for
    ],
)
def test_what_is_damaged_is_made_again_and_told(
    name: str, damage: Any, told: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    store, _ = made(tmp_path)
    damage(store.folder / name)
    again, anew = made(tmp_path)
    assert anew and again.told == store.told and (store.folder / "b").read_text() == "whole b"
    sentence = capfd.readouterr().err
    assert (
        told in sentence and sentence.count("are made again") == bool(told) and (not told or str(tmp_path) in sentence)
    )


def test_what_was_vouched_for_stays_beside_what_is_made_later(tmp_path: Path) -> None:
    store, _ = made(tmp_path)
    with store.held():
        assert store.vouches("a") and not store.vouches("c")
        (store.folder / "c").write_text("c")
        store.vouch("c", number=4)
    with Store(tmp_path, "key").held("a", "b", "c") as whole:
        assert whole and store.told["number"] == 4


def test_what_fails_while_it_is_made_is_vouched_for_by_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path, "key")
    with pytest.raises(KeyboardInterrupt), store.held("a") as whole:
        assert not whole
        (store.folder / "a").write_text("half")
        (store.folder / ".b.tmp").write_text("half")
        raise KeyboardInterrupt
    assert not list(store.folder.glob(".*.tmp"))
    assert made(tmp_path)[1]


def test_what_a_killed_process_left_half_written_is_removed(tmp_path: Path) -> None:
    store = Store(tmp_path, "key")
    store.folder.mkdir(parents=True)
    (store.folder / ".index.json.1.tmp").write_text("{")
    with store.held("file") as whole:
        assert not whole
    assert [path.name for path in store.folder.iterdir() if path.name != ".lock"] == []


def test_a_place_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot be written"):
        made(tmp_path / "file")


def _ask(room: Path, number: int, report: Any) -> None:
    report.put((made(room, text=str(number))[1], (next(room.glob("*/a"))).read_text()))


def test_of_many_processes_one_makes_it(tmp_path: Path) -> None:
    report = CONTEXT.Queue()
    workers = [CONTEXT.Process(target=_ask, args=(tmp_path, number, report)) for number in range(4)]
    for worker in workers:
        worker.start()
    found = [report.get(timeout=60) for _ in workers]
    for worker in workers:
        worker.join()
    assert sum(anew for anew, _ in found) == 1 and len({text for _, text in found}) == 1
