"""Harness commands as real processes without the imports' seconds: forked from a server that has them done."""

from __future__ import annotations

import multiprocessing
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

from harness.executors import environment as of_workers
from tests.conftest import ROOT, environment

# The fork server is the one of the local executor: there is one in a process.
CONTEXT: Any = multiprocessing.get_context("forkserver")
# With what a command imports before its runs, which import less.
CONTEXT.set_forkserver_preload(["harness.executors.preload", "harness.commands.run", "optuna", "matplotlib.figure"])
FORKED = forkserver._forkserver
REACHED = ("_forkserver_address", "_forkserver_authkey")  # how another process reaches a server; a key since 3.14
# --cpu would start a single process
ACCELERATE = (
    "--multi_gpu", "--num_processes", "2", "--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no",
)  # fmt: skip


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _rank(work: Callable[..., Any], words: Sequence[Any], number: int, size: int, port: int, said: Path | None) -> None:
    os.environ.update(RANK=str(number), LOCAL_RANK=str(number), WORLD_SIZE=str(size), LOCAL_WORLD_SIZE=str(size))
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1")
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # two processes share no GPU
    if said is not None:
        sys.stdout = sys.stderr = open(said, "w", buffering=1)  # noqa: SIM115 - as long as the process lives
    sys.exit(work(*words))


def _harness(*words: str) -> int:
    from harness.cli import main

    return main(words)


def _alone(
    work: Callable[..., Any],
    words: Sequence[str],
    folder: Path,
    cwd: Path,
    server: Mapping[str, Any],
    given: Mapping[str, str],
) -> None:
    if server:
        vars(FORKED).update(server)
        FORKED.ensure_running = forkserver.ensure_running = lambda: None  # the second is the first, bound before
    for number, name in ((1, "out"), (2, "error")):
        os.dup2(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    os.environ.clear()  # of the server's own, which may be what a test that is over had set
    os.environ.update(given)
    os.chdir(cwd)
    sys.exit(work(*words))


def _testing(*words: str) -> int:
    from harness.testing.__main__ import main

    return main([*words])


def _pytest(*words: str) -> int:
    import pytest

    return int(pytest.main([*words]))


def begun(
    *words: object,
    folder: Path,
    cwd: Path = ROOT,
    shared: bool = False,
    work: Callable[..., Any] = _harness,
    more: Mapping[str, str] | None = None,
) -> Any:
    """The process of `harness` (or of `work`) with these words. It writes folder/out and folder/error.

    It has its own fork server, as a user's, which takes seconds to begin; or, with `shared`, that of this process.
    more: what its environment has besides.
    """
    folder.mkdir(parents=True, exist_ok=True)
    of_workers.prepare()
    FORKED.ensure_running()
    server = {name: vars(FORKED)[name] for name in REACHED if name in vars(FORKED)} if shared else {}
    given = {**environment(), **(more or {})}
    process = CONTEXT.Process(target=_alone, args=(work, [str(word) for word in words], folder, cwd, server, given))
    process.start()
    return process


def conformance(*words: object, folder: Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """`python -m harness.testing` with these words, in a fresh process."""
    return forked(*words, folder=folder, cwd=cwd, work=_testing)


def under_pytest(*words: object, folder: Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """`pytest` with these words, in a fresh process."""
    return forked(*words, folder=folder, cwd=cwd, work=_pytest)


def forked(*words: object, folder: Path, seconds: float = 300, **more: Any) -> subprocess.CompletedProcess[str]:
    """`harness` with these words, from its beginning to its end, in a fresh process; its runs come from our server.

    more: as `begun` takes it.
    """
    process = begun(*words, folder=folder, shared=True, **more)
    process.join(seconds)
    if process.is_alive():
        process.kill()
        raise TimeoutError(f"harness {' '.join(map(str, words))} did not end in {seconds:g} seconds")
    said = ((folder / name).read_text() for name in ("out", "error"))
    return subprocess.CompletedProcess(words, process.exitcode, *said)


def _accelerate(*words: str) -> None:
    from accelerate.commands.launch import main

    sys.argv[1:] = words
    main()


def launched(*words: object, folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """`harness` with these words, by two processes of accelerate's launcher; more: its environment's."""
    launch = (*ACCELERATE, "--main_process_port", free_port(), "-m", "harness", *words)
    return forked(*launch, folder=folder, work=_accelerate, more={"CUDA_VISIBLE_DEVICES": "", **more})


@contextmanager
def ranks(
    *words: object, size: int = 2, folder: Path | None = None, work: Callable[..., Any] = _harness
) -> Iterator[list[Any]]:
    """Processes that do `work` (give `harness` these words) together; folder: of what each says. All end with this."""
    port = free_port()
    given = [str(word) for word in words] if work is _harness else list(words)
    found = [
        CONTEXT.Process(
            target=_rank, args=(work, given, number, size, port, folder and folder / f"rank-{number}"), daemon=True
        )
        for number in range(size)
    ]
    for process in found:
        process.start()
    try:
        yield found
    finally:
        for process in found:
            process.kill()
            process.join()


def together(*words: object, folder: Path, size: int = 2, seconds: float = 240) -> tuple[list[int], str]:
    """(the statuses, all that is said) of `harness` with these words; as under torchrun, a failure ends the others."""
    folder.mkdir(parents=True, exist_ok=True)
    with ranks(*words, size=size, folder=folder) as found:
        deadline = time.monotonic() + seconds
        while any(process.is_alive() for process in found) and time.monotonic() < deadline:
            if any(process.exitcode for process in found):
                time.sleep(0.5)
                break
            time.sleep(0.02)
        statuses = [process.exitcode for process in found]
    return statuses, "".join((folder / f"rank-{number}").read_text() for number in range(size))
