"""CUDA's Multi-Process Service: kernels of several processes run on a GPU at once, instead of taking turns."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from harness.errors import UserError
from harness.executors import gpus, temporary

CONTROL = "nvidia-cuda-mps-control"
# It ends when its input does: when the harness closes it, or is gone, however that came.
SERVE = f"{CONTROL} -f & cat >/dev/null; echo quit | {CONTROL}; wait"
PATIENCE = 10.0  # seconds that it may take to answer, and to end


@contextmanager
def service(visible: tuple[str, ...]) -> Iterator[dict[str, str]]:
    """Start it, in a folder of its own, for what the runs' environments then say; it is stopped at the end.

    visible: the GPUs that this process may use. Raises UserError where there is none, no such program, or it does not
    start.
    """
    if not visible:
        raise UserError(f"--mps lets runs share a GPU, and {gpus.NONE}")
    if shutil.which(CONTROL) is None:
        raise UserError(f"--mps needs the program {CONTROL}, which comes with NVIDIA's driver and is not in PATH")
    folder = temporary.new(f"mps-{uuid.uuid4().hex[:8]}")
    temporary.hold(folder)  # until this process ends
    told = {"CUDA_MPS_PIPE_DIRECTORY": str(folder), "CUDA_MPS_LOG_DIRECTORY": str(folder)}
    # The service sees every GPU, by the numbers that runs are given.
    environment = {name: value for name, value in os.environ.items() if name != gpus.VISIBLE} | told
    with open(folder / "said", "wb") as said:
        serving = subprocess.Popen(
            ["sh", "-c", SERVE],
            stdin=subprocess.PIPE,
            stdout=said,
            stderr=said,
            env=environment,
            start_new_session=True,
        )
    try:
        if not _answers(environment):
            lines = (folder / "said").read_text(errors="replace").split("\n")
            raise UserError(f"--mps: {CONTROL} did not start: {next(filter(str.strip, lines), 'it says nothing')}")
        yield told
    finally:
        if serving.stdin:
            serving.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            serving.wait(PATIENCE)
        with suppress(ProcessLookupError):
            os.killpg(serving.pid, signal.SIGKILL)
        serving.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _answers(environment: dict[str, str]) -> bool:
    """Whether the service answers in time."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        with suppress(subprocess.TimeoutExpired):
            asked = subprocess.run(
                [CONTROL],
                input=b"get_server_list\n",
                capture_output=True,
                env=environment,
                check=False,
                timeout=PATIENCE,
            )
            if asked.returncode == 0:
                return True
        time.sleep(0.1)
    return False
