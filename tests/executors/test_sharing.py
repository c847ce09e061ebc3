"""How many runs share GPUs where nobody says it: doubled while there is memory for it, unless runs lose by it."""

from __future__ import annotations

from harness.executors.sharing import EACH, WINDOW, Sharing


class Machine:
    """Runs whose tokens a second in all depend on how many go on; a second passes at each look.

    lasts: seconds of a run, after which another begins; speeds: as many times as fast as one run alone, or no report.
    """

    def __init__(
        self,
        speeds: dict[int, float],
        gpus: int = 1,
        most: int = 16,
        used: float | None = 0.1,
        lasts: int = 1000,
        models: tuple[float, ...] = (100.0,),
    ):
        self.now, self.speeds, self.used, self.lasts, self.models = 0.0, speeds, used, lasts, models
        self.sharing = Sharing(gpus, most, lambda: self.used, lambda: self.now)

    def watch(self) -> str:
        """What is said, after at most ten minutes."""
        for _ in range(600):
            self.now += 1
            workers = self.sharing.workers
            going = [f"{slot}-{int(self.now + slot) // self.lasts}" for slot in range(workers)]
            for slot, run in enumerate(going):
                alone = self.models[slot % len(self.models)]
                if self.speeds:
                    self.sharing.report(run, alone * self.speeds[workers] / workers)
                if said := self.sharing.look(going):
                    return said
        return ""


def test_runs_are_doubled_while_it_is_worth_it() -> None:
    machine = Machine({1: 1, 2: 1.9, 4: 3.0, 8: 3.1})
    said = machine.watch()
    assert machine.sharing.workers == 4 and machine.sharing.settled
    assert (
        said.startswith("4 runs at a time on the GPU: twice as many get 1.0 times as much done") and "--workers" in said
    )
    assert 4 * WINDOW < machine.now < 5 * WINDOW  # 1, 2, 4 and 8 were watched
    assert machine.watch() == "" and machine.sharing.workers == 4


def test_runs_of_other_models_are_not_compared() -> None:
    """The first is five times as fast as those that join it: in tokens a second two do less than one."""
    machine = Machine({2**n: 2.0**n for n in range(5)}, models=(100.0, 20.0, 20.0, 20.0))
    machine.watch()
    assert machine.sharing.workers == EACH


def test_runs_too_short_to_report_are_doubled() -> None:
    machine = Machine({}, lasts=3)
    assert machine.watch().startswith(f"{EACH} runs at a time")


def test_one_run_a_gpu_comes_first() -> None:
    machine = Machine({2: 2.0, 4: 2.1}, gpus=2)
    assert machine.sharing.workers == 2
    assert machine.watch().startswith("2 runs at a time on 2 GPUs: twice as many get 1.1 times as much done")


def test_memory_and_cores_limit() -> None:
    growing = {2**n: 2.0**n for n in range(8)}
    for most, expected in ((1, 1), (3, 2), (4, 4), (64, EACH)):
        machine = Machine(growing, most=most)
        said = machine.watch()
        assert machine.sharing.workers == expected and "there are so many cores" in said
    for used, why in ((0.6, "more would take more than their memory"), (None, "nvidia-smi does not tell")):
        assert Machine(growing, used=used).watch().startswith(f"1 run at a time on the GPU: {why}")


def test_nothing_is_concluded_from_fewer_runs_than_could_go_on() -> None:
    """As long as others wait for a teacher, say."""
    machine = Machine({1: 1, 2: 1.9, 4: 3.8, 8: 3.8})
    while machine.sharing.workers == 1:
        machine.now += 1
        machine.sharing.look(["teacher"])
    for _ in range(100):
        machine.now += 1
        assert machine.sharing.look(["teacher"]) == ""
    assert machine.sharing.workers == 2 and not machine.sharing.settled
    assert machine.watch() and machine.sharing.workers == 4


def test_no_more_than_find_room() -> None:
    machine = Machine({2**n: 2.0**n for n in range(8)})
    machine.sharing.limit(3)
    for _ in range(100):
        machine.now += 1
        assert machine.sharing.look(["0", "1", "2"]) == ""
    assert machine.sharing.workers == 3
