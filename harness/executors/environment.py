"""What is set in the environment of every process that trains, before it loads torch."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import spawn

from harness.errors import UserError

SETTINGS = {
    "OMP_WAIT_POLICY": "PASSIVE",  # spinning threads of one process starve the other
    "OMP_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    # oneDNN keeps a copy of a bfloat16 weight for every shape of batch that it met: by default of 1,024 shapes.
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "64",
    "HF_DEACTIVATE_ASYNC_LOAD": "1",  # a process has one core: transformers' threads only wait for one another
}


BEFORE = "DISTILL_HARNESS_PATHS"  # what `same_path` has replaced
# What a launcher (srun, mpirun, torchrun) tells the processes that it started: a run is none of them, but accelerate
# would take it for one.
NUMBERS = ("WORLD_SIZE", "RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_PORT")
LAUNCHER = ("LOCAL_RANK", "WORLD_SIZE", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE")


def launched() -> int:
    """How many processes torchrun or `accelerate launch` started together with this one, itself included.

    Raises UserError for what no launcher sets: accelerate would fail on it.
    """
    for name in NUMBERS:
        try:
            int(os.environ.get(name, "0"))
        except ValueError:
            raise UserError(
                f"{name} in the environment is a whole number that a launcher sets, not {os.environ[name]!r}"
            ) from None
    return int(os.environ.get("WORLD_SIZE", "1"))


def alone() -> None:
    """Forget the launcher that the command, or the node's Ray, was started by."""
    for name in LAUNCHER:
        os.environ.pop(name, None)


def prepare() -> None:
    """Set what is not set already."""
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)


@contextmanager
def same_path() -> Iterator[None]:
    """While it lasts, a fork server that begins imports from where this process does.

    Python before 3.12 hands its path on to what is forked, which finds everything imported: from the current folder
    first, where another version of the harness may lie. The server calls `own_path`.
    """
    path = spawn.get_preparation_data("")["sys_path"]
    told = {"PYTHONPATH": os.pathsep.join(path), "PYTHONSAFEPATH": "1"}
    before = {name: os.environ.get(name) for name in told}
    os.environ.update(told, **{BEFORE: json.dumps(before)})
    try:
        yield
    finally:
        own_path()


def own_path() -> None:
    """Undo what `same_path` has set: runs have the variables that the command was given."""
    for name, value in json.loads(os.environ.pop(BEFORE, "{}")).items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value
