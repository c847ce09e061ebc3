"""A Ray cluster of several nodes on this machine's loopback addresses, in a process of its own.

python -m tests.executors.ray_nodes FOLDER NODES CPUS HEAD_CPUS
says of every node but the head that it has a GPU, whether or not there is one; prints its address, then obeys "remove",
"add CPUS" and "quit".
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from tests.conftest import ROOT, environment

# Dead nodes, which refuse connections, are noticed in three seconds; busy ones have five to answer.
HEALTH = {
    "health_check_initial_delay_ms": 1000, "health_check_period_ms": 500, "health_check_timeout_ms": 1000,
    "health_check_failure_threshold": 5,
}  # fmt: skip
# Ray's workers are nice by 15, which on a machine where other tests run means that they wait.
RAY = {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}


def ray_environment() -> dict[str, str]:
    """Of the cluster, and of every driver that joins it."""
    return {**environment(), **RAY}


def trainers(process: int) -> list[psutil.Process]:
    """Ray's workers that train, of all that a process began. Any of them can end while one looks."""
    found: list[psutil.Process] = []
    for child in psutil.Process(process).children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if child.name().startswith("ray::train"):
                found.append(child)
    return found


class Nodes:
    """The cluster as a test sees it."""

    def __init__(self, process: subprocess.Popen[str]):
        self.process = process
        self.address = self._answer()

    def remove(self) -> None:
        """Take the newest node away, as if its machine had stopped."""
        self._say("remove")

    def add(self, cpus: int = 1) -> None:
        self._say(f"add {cpus}")

    def _say(self, word: str) -> None:
        assert self.process.stdin is not None
        print(word, file=self.process.stdin, flush=True)
        self._answer()

    def _answer(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("nodes "), f"the cluster said {line!r}"
        return line.split()[1]


@contextmanager
def nodes(folder: Path, count: int = 2, cpus: int = 1, head_cpus: int = 1) -> Iterator[Nodes]:
    """A cluster of `count` nodes, the head counted, whose logs are under `folder`."""
    (folder / "ray").mkdir()  # where Ray notes its address, and takes the folder to be there
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.executors.ray_nodes", str(folder), str(count), str(cpus), str(head_cpus)],
        env={**ray_environment(), "RAY_TMPDIR": str(folder)}, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    try:
        yield Nodes(process)
    finally:
        process.communicate("quit\n", timeout=60)


def serve(folder: str, count: int, cpus: int, head_cpus: int) -> None:
    from ray.cluster_utils import Cluster

    first = {"node_ip_address": "127.0.0.2", "num_cpus": head_cpus, "temp_dir": folder, "_system_config": HEALTH}
    cluster = Cluster(initialize_head=True, head_node_args={**first, "include_dashboard": False})
    added = []

    def add(cpus: int) -> None:
        added.append(cluster.add_node(node_ip_address=f"127.0.0.{3 + len(added)}", num_cpus=cpus, num_gpus=1))

    for _ in range(count - 1):
        add(cpus)
    print("nodes", cluster.address, flush=True)
    for line in sys.stdin:
        word = line.strip()
        if word == "quit":
            break
        if word.startswith("add "):
            add(int(word.split()[1]))
        else:
            cluster.remove_node(added[-1], allow_graceful=False)
        print("nodes", cluster.address, json.dumps(word), flush=True)
    cluster.shutdown()
    os._exit(0)  # what Ray's threads still wait for is gone


if __name__ == "__main__":
    serve(sys.argv[1], *map(int, sys.argv[2:]))
