"""The ledger: atomic records, damage."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import resource
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import UserError
from harness.files import atomic_write, canonical, digest, sealed, unsealed
from harness.ledger import KNOWN, Ledger


def test_a_record_comes_back_with_its_predictions(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "out", create=True)
    arrays = {"ids": np.arange(3), "predictions": np.array([1, 0, 1]), "labels": np.array([1, 1, 1])}
    ledger.write("abc", {"status": "finished", "metrics": {"accuracy": 2 / 3}}, arrays)
    again = Ledger(tmp_path / "out")
    record = again.read("abc")
    assert record is not None and record["metrics"] == {"accuracy": 2 / 3}
    found = again.predictions("abc")
    assert found is not None and all(np.array_equal(found[name], arrays[name]) for name in arrays)
    assert again.read("nothing") is None and not again.damaged


def test_a_record_cut_at_any_byte_is_lost_alone_and_named(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, create=True)
    ledger.write("first", {"status": "finished", "selection": 0.5}, None)
    ledger.write("last", {"status": "finished", "selection": 0.75}, None)
    path = ledger.folder("last") / "record.json"
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        opened = Ledger(tmp_path)
        assert opened.read("first") == {"status": "finished", "selection": 0.5}
        found = opened.read("last")
        if size < len(whole) - 1:  # the last byte is a newline: without it nothing is lost
            assert found is None and "last" in opened.damaged["last"]
        else:
            assert found is not None
    path.write_bytes(whole.replace(b"0.75", b"0.95"))
    opened = Ledger(tmp_path)
    assert opened.read("last") is None and "checksum" in opened.damaged["last"]
    ledger.write("first", {"status": "ended", "selection": 0.5}, None)  # as a later version may call it
    opened = Ledger(tmp_path)
    assert opened.read("first") is None and "it tells no status" in opened.damaged["first"]


RECORDS = st.dictionaries(
    st.sampled_from(["record", "sha256", "a,b", "{"]),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["sha256", "record"]), inner),
        max_leaves=6,
    ),
)


@given(RECORDS, st.data())
def test_a_sealed_record_is_canonical_json_and_no_changed_byte_gives_another(
    record: dict[str, object], data: st.DataObject
) -> None:
    raw = sealed(record)
    assert raw == canonical({"record": record, "sha256": digest(record)}).encode() + b"\n"
    assert unsealed(raw) == unsealed(json.dumps(json.loads(raw), indent=2).encode()) == record
    place, byte = data.draw(st.integers(0, len(raw) - 1)), data.draw(st.integers(0, 255))
    try:
        assert unsealed(raw[:place] + bytes([byte]) + raw[place + 1 :]) == record
    except (ValueError, KeyError, TypeError):
        assert raw[place] != byte


@pytest.mark.parametrize("raw", [b'{"a":1}', b'{"recorx":{"a":1}', b'["record":{"a":1}', b'{"record":{"a":1}}'])
def test_a_checksum_vouches_for_nothing_but_a_record(raw: bytes) -> None:
    inner = raw[len(b'{"record":') :]
    with pytest.raises((ValueError, KeyError, TypeError)):
        unsealed(raw + b',"sha256":"' + hashlib.sha256(inner).hexdigest().encode() + b'"}\n')


def test_a_stamp_tells_when_a_record_was_replaced(tmp_path: Path) -> None:
    ledger, run = Ledger(tmp_path, create=True), "0123456789abcdef"
    ledger.write(run, {"status": "finished", "selection": 0.5}, None)
    first = ledger.stamp(run)
    assert first == next(Ledger(tmp_path).stamp(run) for run in ledger.runs()) and ledger.stamp("another") is None
    assert list(ledger.known()) == [(run, first, {"status": "finished", "selection": 0.5})]
    ledger.write(run, {"status": "finished", "selection": 0.25}, None)
    assert ledger.stamp(run) != first
    opened = Ledger(tmp_path)
    assert not list(opened.known()) and opened.read(run) and list(opened.known()) == list(ledger.known())


def test_interrupted_runs_are_those_without_a_record_that_left_a_checkpoint(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, create=True)
    begun, damaged, whole, lost = (letter * 16 for letter in "bdef")
    for run in (whole, damaged, begun, lost):
        ledger.write(run, {"status": "finished"}, None)
        (ledger.folder(run) / "checkpoint.pt").touch()
    for run in (begun, lost):
        (ledger.folder(run) / "record.json").unlink()
    (ledger.folder(lost) / "checkpoint.pt").rename(ledger.folder(lost) / "predictions.safetensors")
    (ledger.folder(damaged) / "record.json").write_bytes(b"{")
    for stray in ("lost+found", f"{begun} (copy)", "A" * 16, "0" * 15):  # of another program
        (tmp_path / "ledger" / stray).mkdir()
    (tmp_path / "ledger" / ("a" * 16)).mkdir()
    (tmp_path / "ledger" / ("a" * 16) / "log.txt").write_text("said before it died")
    for stray in (".DS_Store", f"{begun}~", "c" * 16):
        (tmp_path / "ledger" / stray).touch()
    assert Ledger(tmp_path).interrupted() == [begun], "a damaged one is told as that"
    assert Ledger(tmp_path).interrupted({whole: 1, begun: 1}.get) == [damaged]


def test_a_run_that_failed_may_go_on_from_its_checkpoint(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, create=True)
    for status, left in (
        ("failed", ["checkpoint.damaged.pt", "checkpoint.pt", "record.json"]),
        ("finished", ["record.json"]),
    ):
        for name in ("checkpoint.pt", "checkpoint.damaged.pt"):
            ledger.folder("run").mkdir(parents=True, exist_ok=True)
            (ledger.folder("run") / name).touch()
        ledger.write("run", {"status": status, "error": "8 hours have passed"}, None)
        assert sorted(path.name for path in ledger.folder("run").iterdir()) == left


def test_what_a_killed_driver_left_half_written_goes_with_the_record(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "out", create=True)
    ledger.folder("abc").mkdir(parents=True)
    (ledger.folder("abc") / ".predictions.safetensors.123.tmp").write_bytes(b"half")
    (ledger.folder("abc") / ".weights.tmp").mkdir()
    ledger.write("abc", {"status": "finished", "metrics": {}}, None)
    assert [path.name for path in ledger.folder("abc").iterdir()] == ["record.json"]


def test_what_an_earlier_session_left_is_told_of_where_it_cannot_go(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, create=True)
    (tmp_path / ".running.json").mkdir()  # as in a folder of somebody else: it cannot be unlinked
    with pytest.raises(UserError, match=r"running\.json cannot be written"), ledger.lock():
        pass
    (tmp_path / ".running.json").rmdir()
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / KNOWN).write_text("{}")
    with ledger.lock():
        assert not (tmp_path / "cache" / KNOWN).exists(), "the files may have changed since their checksums were noted"


def test_what_a_machine_that_went_down_left_of_what_goes_on_is_nothing(tmp_path: Path) -> None:
    """It need not be durable, so a file of no bytes may have its name."""
    ledger = Ledger(tmp_path, create=True)
    (tmp_path / ".running.json").touch()
    assert ledger.running() == {}


def test_damaged_predictions_are_ignored_and_named(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, create=True)
    ledger.write("run", {"status": "finished"}, {"ids": np.arange(4)})
    path = ledger.folder("run") / "predictions.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    assert Ledger(tmp_path).read("run") is not None
    opened = Ledger(tmp_path)
    assert opened.predictions("run") is None and "damaged" in opened.damaged["run"] and opened.whole("run") is None
    path.unlink()
    opened = Ledger(tmp_path)
    assert opened.whole("run") is None and "missing" in opened.damaged["run"]


def test_a_record_belongs_to_its_run(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, create=True)
    for run in ("one", "other"):
        ledger.write(run, {"status": "finished", "whose": run}, None)
    (ledger.folder("other") / "record.json").write_bytes((ledger.folder("one") / "record.json").read_bytes())
    opened = Ledger(tmp_path)
    assert opened.read("one") is not None and opened.read("other") is None
    assert "it is that of run one" in opened.damaged["other"]


def test_the_command_that_is_to_begin_results_has_their_folder(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"start with harness run --study NAME --out '{tmp_path}/of two', or give"):
        Ledger(tmp_path / "of two")


def test_folders_that_are_not_results_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no results"):
        Ledger(tmp_path / "absent")
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(UserError, match="not results"):
        Ledger(tmp_path, create=True)
    (tmp_path / "thesis.tex").unlink()
    Ledger(tmp_path, create=True)
    (tmp_path / "harness.json").write_text(json.dumps({"format": 99}))
    with pytest.raises(UserError, match="format 99"):
        Ledger(tmp_path, create=True)
    (tmp_path / "harness.json").write_text("{")
    with pytest.raises(UserError, match="damaged"):
        Ledger(tmp_path)


def test_a_second_driver_is_refused_while_the_first_works(tmp_path: Path) -> None:
    first, second = Ledger(tmp_path, create=True), Ledger(tmp_path)
    with first.lock(), pytest.raises(UserError, match="another harness run"), second.lock():
        pytest.fail("two drivers held one folder")
    with second.lock():
        pass


def test_who_looks_whether_a_folder_is_worked_in_keeps_nobody_out(tmp_path: Path) -> None:
    """As `harness status`, given again and again, at the moment in which a run begins."""
    held, looks = threading.Event(), Ledger(tmp_path, create=True)

    def look() -> None:
        with looks.lock():
            held.set()
            time.sleep(0.05)

    looking = threading.Thread(target=look)
    looking.start()
    held.wait()
    with Ledger(tmp_path).lock():
        looking.join()


def _write_until_full(folder: Path, results: multiprocessing.Queue[str]) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))  # the kernel refuses larger files, as a full disk does
    try:
        atomic_write(folder / "record.json", b"x" * 2000)
    except UserError as error:
        results.put(str(error))


def test_a_full_disk_is_one_sentence_and_loses_nothing(tmp_path: Path) -> None:
    atomic_write(tmp_path / "record.json", b"old")
    context = multiprocessing.get_context("spawn")
    results: multiprocessing.Queue[str] = context.Queue()
    process = context.Process(target=_write_until_full, args=(tmp_path, results))
    process.start()
    assert "disk is full" in results.get(timeout=60)
    process.join()
    assert (tmp_path / "record.json").read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["record.json"]
