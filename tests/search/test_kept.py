"""Whose weights are kept: every run leaves some, and only those of each cell's best run stay."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.files import size_of
from harness.ledger import Ledger
from harness.runs.messages import Finished
from harness.search.driver import Driver
from harness.search.kept import Kept, best_run
from harness.search.results import replayed
from tests.at_once import AtOnce, Silent
from tests.search.test_index import CELLS, PLAN, TEACHER

SOME = replace(PLAN, cells=CELLS[:3])


class Leaving(AtOnce):
    """Its students leave weights where they are asked to. It is killed after `most` runs."""

    def __init__(self, most: int = 1000):
        super().__init__()
        self.most = most

    def next(self) -> Finished:
        self.most -= 1
        if self.most < 0:
            raise KeyboardInterrupt
        for run, _, place in list(self.queue)[:1]:
            if place.keep:
                (Path(place.run) / "weights").mkdir(parents=True, exist_ok=True)
                (Path(place.run) / "weights" / "model.safetensors").write_bytes(run.encode())
        return super().next()


def driven(out: Path, keep: str, most: int = 1000) -> None:
    Driver(SOME, Ledger(out, create=True), Leaving(most), Silent(), keep=keep).run()


def left(out: Path) -> set[str]:
    return {folder.parent.name for folder in out.glob("ledger/*/weights")} - {TEACHER}


def best(out: Path) -> set[str]:
    found = [best_run(one) for one in replayed(SOME, Ledger(out))]
    assert all(found)
    return {one.run for one in found if one}


def test_the_best_run_of_each_cell_keeps_its_weights_and_no_other(tmp_path: Path) -> None:
    driven(tmp_path, "best")
    assert left(tmp_path) == best(tmp_path) and len(left(tmp_path)) == len(SOME.cells)
    ledger = Ledger(tmp_path)
    for found in replayed(SOME, ledger):
        one = best_run(found)
        assert one is not None and one.score == max(seed.score for seed in found.seeds if seed.score is not None)
        assert size_of(ledger.folder(one.run) / "weights") == 16 and one.made.settings == found.seeds[0].made.settings
    assert (ledger.folder(TEACHER) / "weights").is_dir()


@pytest.mark.parametrize("most", range(2, 16, 3))
def test_what_a_killed_driver_left_goes_with_the_next(tmp_path: Path, most: int) -> None:
    with pytest.raises(KeyboardInterrupt):
        driven(tmp_path, "best", most)
    lost = next(iter(set(Ledger(tmp_path).runs()) - best_so_far(tmp_path) - {TEACHER}), None)
    if lost:  # as if it had been killed before it removed them
        (tmp_path / "ledger" / lost / "weights").mkdir(exist_ok=True)
    driven(tmp_path, "best")
    assert left(tmp_path) == best(tmp_path)


def best_so_far(out: Path) -> set[str]:
    return {one.run for one in map(best_run, replayed(SOME, Ledger(out))) if one}


def test_all_are_kept_or_none_and_that_is_no_part_of_what_a_run_is(tmp_path: Path) -> None:
    driven(tmp_path, "all")
    runs = set(Ledger(tmp_path).runs())
    assert left(tmp_path) == runs - {TEACHER}
    driven(tmp_path, "none", most=0)  # nothing is missing
    assert not left(tmp_path) and set(Ledger(tmp_path).runs()) == runs


def test_what_a_run_leaves_that_is_made_once_more_goes_too(tmp_path: Path) -> None:
    driven(tmp_path, "none")
    ledger = Ledger(tmp_path)
    cell, found = SOME.cells[0], replayed(SOME, ledger)[0]
    kept = Kept(SOME, ledger, "none")
    for _ in range(2):
        for one in found.trials:
            (ledger.folder(one.run) / "weights").mkdir()
            kept.made(one.run)
        kept.note(cell, found)
        kept.clear()
        assert not left(tmp_path)
