"""How many runs share GPUs where nobody says it: doubled while that gets more done and there is memory for it."""

from __future__ import annotations

from harness.executors.sharing import EACH, WINDOW, Sharing


class Machine:
    """Runs whose tokens a second depend on how many go on; a second passes at each telling."""

    def __init__(self, speeds: dict[int, float], gpus: int = 1, most: int = 16, used: float | None = 0.1):
        self.now, self.speeds, self.used = 0.0, speeds, used
        self.sharing = Sharing(gpus, most, lambda: self.used, lambda: self.now)

    def watch(self) -> str:
        """What is said, after at most four minutes."""
        for _ in range(240):
            self.now += 1
            going = [str(number) for number in range(self.sharing.workers)]
            for run in going:
                if said := self.sharing.told(run, self.speeds[self.sharing.workers] / len(going), going):
                    return said
        return ""


def test_runs_are_doubled_while_it_is_worth_it() -> None:
    machine = Machine({1: 100, 2: 190, 4: 300, 8: 310})
    said = machine.watch()
    assert machine.sharing.workers == 4 and machine.sharing.settled
    assert said.startswith("4 at a time on the GPU: 3.0 times the tokens a second of 1") and "--workers" in said
    assert 3 * WINDOW < machine.now < 5 * WINDOW  # 1, 2, 4 and 8 were watched
    assert machine.watch() == "" and machine.sharing.workers == 4


def test_one_run_a_gpu_comes_first() -> None:
    machine = Machine({2: 100, 4: 105}, gpus=2)
    assert machine.sharing.workers == 2
    assert machine.watch().startswith("2 at a time on 2 GPUs: 1.0 times the tokens a second of 2")


def test_memory_and_cores_limit() -> None:
    growing = {2**n: 100.0 * 2**n for n in range(8)}
    for most, expected in ((1, 1), (3, 2), (4, 4), (64, EACH)):
        machine = Machine(growing, most=most)
        assert machine.watch().startswith(f"{expected} at a time") and machine.sharing.workers == expected
    for used in (0.6, None):  # half of it would not do for twice as many; or nobody can tell
        machine = Machine(growing, used=used)
        assert machine.watch().startswith("1 at a time")


def test_nothing_is_concluded_from_fewer_runs_than_could_go_on() -> None:
    """As long as others wait for a teacher, say."""
    machine = Machine({1: 100, 2: 190, 4: 380, 8: 380})
    while machine.sharing.workers == 1:
        machine.now += 1
        machine.sharing.told("teacher", 100, ["teacher"])
    for _ in range(100):
        machine.now += 1
        assert machine.sharing.told("teacher", 100, ["teacher"]) == ""
    assert machine.sharing.workers == 2 and not machine.sharing.settled
    assert machine.watch() and machine.sharing.workers == 4
