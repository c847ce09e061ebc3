"""Runs as tasks of a Ray cluster, which places them, watches over them and starts them again. See `ray_node`."""

from __future__ import annotations

import io
import logging
import os
import queue
import re
import shutil
import signal
import socket
import sys
import threading
import time
import uuid
from contextlib import ExitStack, redirect_stdout, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness import plugin_code, registry
from harness.data import own
from harness.data.tasks import get_task
from harness.errors import UserError, first_line
from harness.executors import temporary
from harness.executors.ray_depot import Depot, clear
from harness.jobs import inputs
from harness.runs import CorpusRun, Run, TeacherName
from harness.runs.messages import Began, Failed, Message, Noted, Told

LOOK = 5.0  # seconds between looks at the cluster while nothing is heard
PATIENCE = 30.0  # seconds that the head node may be away, or no node large enough
END = 45.0  # seconds after which this process ends although a call of Ray still waits for the head; Ray's own are 60


@dataclass(frozen=True)
class _Ended:
    """Ray's task of a run is over. future: what it returned or raised; asked: what of; gpus: what it took."""

    run: str
    future: Any
    asked: tuple[Any, ...]
    gpus: float


class RayExecutor:
    """Runs on the cluster at `address`, or on this machine alone if that is empty.

    A run that had a part of a GPU, of which others left too little memory, is begun again on a whole one.
    cpus, gpus: what each run takes; a part of a GPU may be given. limit: seconds after which an attempt at a run is
    given up. shared: every node sees the folder of results. Raises UserError if Ray is not installed, the cluster is
    not there, or no node of it has so much.
    """

    def __init__(
        self, address: str, cpus: float, gpus: float, out: Path, here: int, limit: float | None, shared: bool
    ):
        """out: the driver's folder of results; here: CPUs to use if Ray is started on this machine."""
        self._ray = ray = _imported(address)
        from harness.executors import ray_node

        self._cpus, self._gpus, self._limit, self._node = cpus, gpus, limit, ray_node
        self._session, self._code = uuid.uuid4().hex[:12], ray_node.code_here()
        self._messages: queue.SimpleQueue[Message | _Ended | UserError] = queue.SimpleQueue()
        self._tasks: dict[str, object] = {}  # run -> its task
        self._since = 0.0  # when the cluster was first found unfit for work, 0 while it is fit
        self._silent = threading.Event()  # set when the depot will tell no more
        self._over = threading.Event()  # set when Ray is no longer needed
        with ExitStack() as ends:
            ends.enter_context(redirect_stdout(_FirstLines()))  # Ray prints where the table belongs
            clear(out.resolve())
            self._shared = str(out.resolve()) if shared else ""
            for part in (out.resolve() / name for name in ("cache", "ledger") if shared):
                if not part.resolve().is_relative_to(out.resolve()):
                    raise UserError(f"{part} leads out of the folder of --out, which is all that --shared-out covers")
            if shared:
                mark = ray_node.mark_of(out.resolve(), self._session)
                mark.write_text(self._session)
                ends.callback(mark.unlink, missing_ok=True)
            temporary.sweep()
            own = temporary.new(self._session[:8])  # of what Ray writes if it is started on this machine
            if not address:
                ends.callback(shutil.rmtree, own, ignore_errors=True)
                ends.callback(os.close, temporary.hold(own))
            stops = signal.getsignal(signal.SIGTERM)
            _start(ray, address, here, own)
            if callable(stops) and signal.getsignal(signal.SIGTERM) is not stops:  # Ray's own ends us without a word
                signal.signal(signal.SIGTERM, stops)
            ends.callback(self._over.set)  # last: Ray may wait in its shutdown as well
            ends.callback(ray.shutdown)
            self._head = ray.get_runtime_context().gcs_address
            threading.Thread(target=self._watch, daemon=True).start()
            if trouble := self._trouble():
                raise trouble
            if not gpus and ray.cluster_resources().get("GPU"):
                print("no run uses a GPU of the cluster: --gpus-per-run 1, or a part such as 0.25", file=sys.stderr)
            # The depot has nothing that is not on disk, so Ray may start it again.
            depot = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1, max_concurrency=32)(Depot)
            here_only = self._on(ray.get_runtime_context().get_node_id())
            self._depot = depot.options(scheduling_strategy=here_only).remote(str(out.resolve()))
            # Ray starts a run again whose worker or node died; the depot counts how often. max_calls: one with a GPU
            # would otherwise end with its task, but a run is a process of its own, and to begin another takes seconds.
            self._train = ray.remote(num_cpus=cpus, num_gpus=gpus, max_retries=-1, max_calls=0)(ray_node.train)
            self._listen()
            self._ends = ends.pop_all()

    def prepare(self) -> None:
        """Nodes load what runs need as the first ones come to them."""

    def submit(self, run: str, specification: Any, workspace: Any) -> None:
        """Hand a run to Ray."""
        workspace = _absolute(workspace)
        session = self._node.Session(self._depot, self._session, self._code, self._limit, self._shared)
        self._hand((session, run, specification, workspace, _parts(Run.read(specification), workspace)), self._gpus)

    def next(self) -> Message:
        """Wait for the next message of any run.

        Raises UserError if for half a minute no node has been large enough for a run, or the cluster is gone.
        """
        while True:
            try:
                found = self._messages.get(timeout=LOOK)
            except queue.Empty:
                self._look()
                continue
            self._since = 0.0  # somebody works
            if isinstance(found, UserError):
                raise found
            if found.run not in self._tasks:
                continue  # what a run told arrived after its end
            if isinstance(found, Message):
                return found
            message = self._ended(found.run, found.future)
            if isinstance(message, Failed) and message.crowded and 0 < found.gpus < 1:
                self._hand(found.asked, 1)
                lacked = f"run {found.run} lacked memory on {self._gpus:g} of a GPU"
                return Noted(found.run, f"{lacked}: it goes on once a whole one is free")
            del self._tasks[found.run]
            return message

    def _hand(self, asked: tuple[Any, ...], gpus: float) -> None:
        _, run, *_ = asked
        task = self._train.options(num_gpus=gpus).remote(*asked)
        self._tasks[run] = task
        task.future().add_done_callback(lambda future: self._messages.put(_Ended(run, future, asked, gpus)))

    def close(self) -> None:
        """Cancel every run; what was trained continues from its checkpoint another time. A second call does nothing."""
        ray = self._ray
        if not ray.is_initialized():
            return
        with suppress(ray.exceptions.RayError):  # it may go now
            if _answers(self._head):
                for task in self._tasks.values():
                    ray.cancel(task, force=True)
                self._tidy()
                ray.wait([self._depot.end.remote()], timeout=LOOK)  # killed before it answers, Ray complains
                self._silent.wait(LOOK)
                ray.kill(self._depot)
        self._ends.close()
        temporary.sweep()

    # ------------------------------------------------------------ messages

    def _listen(self) -> None:
        """Ask for news; when some arrive, pass them on and ask again, until there are none."""
        self._depot.news.remote().future().add_done_callback(self._heard)

    def _heard(self, future: Any) -> None:
        try:
            found = future.result()
        except self._ray.exceptions.RayError:
            self._messages.put(self._gone())
            self._silent.set()
            return
        for run, entry in found:
            self._messages.put(Began(run) if entry is None else Told(run, entry))
        if found:
            self._listen()
        else:
            self._silent.set()

    def _ended(self, run: str, future: Any) -> Message:
        try:
            return future.result()
        except self._ray.exceptions.RayTaskError as error:  # before the run could begin there
            # Ray wraps what goes wrong while it reads the task, and keeps the text alone.
            if missing := re.search(r"No module named '([\w.]+)'", str(error)):
                raise UserError(
                    f'a node of the cluster has no {missing[1]}: pip install "distill-harness[ray]", of the same '
                    "version, on every node"
                ) from error
            return Failed(run, f"{type(error.cause).__name__}: {error.cause}", str(error))
        except self._ray.exceptions.RayError as error:
            if not _answers(self._head):
                raise self._gone() from error
            return Failed(run, f"Ray gave it up: {type(error).__name__}", str(error))

    def _gone(self) -> UserError:
        return UserError(
            f"the Ray cluster at {self._head} is gone: finished runs are kept, and the same command goes on with a "
            "cluster that runs"
        )

    # ------------------------------------------------------------ the cluster

    def _look(self) -> None:
        """Raise UserError if the cluster has been unfit for work for a while; others may join, or come back."""
        trouble = self._trouble()
        self._since = (self._since or time.monotonic()) if trouble else 0.0
        if trouble and time.monotonic() - self._since > PATIENCE:
            raise trouble

    def _watch(self) -> None:
        """End this process once the head node has been away for long.

        Whichever call of Ray meets that moment never returns: after a minute Ray itself ends the process, without a
        sentence. All that is kept is on disk, whole at any time.
        """
        answered = time.monotonic()
        while not self._over.wait(LOOK):
            if _answers(self._head):
                answered = time.monotonic()
            elif time.monotonic() - answered > END:
                below = "\n\x1b[?25h" if os.isatty(2) else ""  # the progress bar, which hides the cursor
                os.write(2, f"{below}harness: {self._gone()}\n".encode())
                os._exit(2)

    def _trouble(self) -> UserError | None:
        """Why no run can start at the moment; None if one can, once there is room."""
        if not _answers(self._head):
            return self._gone()
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        asked = {"CPU": self._cpus, "GPU": self._gpus}
        if any(all(node.get(name, 0) >= number for name, number in asked.items()) for node in nodes):
            return None
        largest = max(((node.get("GPU", 0), node.get("CPU", 0)) for node in nodes), default=(0, 0))
        return UserError(
            f"no node of the Ray cluster has what a run takes, {_amount(self._gpus, self._cpus)}: the largest of "
            f"{len(nodes)} has {_amount(*largest)} (--cpus-per-run, --gpus-per-run)"
        )

    def _tidy(self) -> None:
        """Have every node remove what it keeps for this driver."""
        discard = self._ray.remote(num_cpus=0, max_retries=0)(self._node.discard)
        nodes = [node["NodeID"] for node in self._ray.nodes() if node["Alive"]]
        tasks = [discard.options(scheduling_strategy=self._on(node)).remote(self._session) for node in nodes]
        self._ray.wait(tasks, num_returns=len(tasks), timeout=LOOK)

    def _on(self, node: str) -> Any:
        """A strategy: on this node or nowhere."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        return NodeAffinitySchedulingStrategy(node, soft=False)


class _FirstLines(io.TextIOBase):
    """What Ray has to say of nodes and memory: the first line of each message, on standard error as progress is."""

    def write(self, text: str) -> int:
        if line := text.strip().partition("\n")[0]:
            print(line, file=sys.stderr, flush=True)
        return len(text)


def _imported(address: str) -> Any:
    """The ray module, whose settings are read when it is imported."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_COLOR_PREFIX", "0")
    if not address:
        # Where several machines cannot join, Ray listens on the loopback address alone.
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    try:
        import ray
    except ModuleNotFoundError as error:
        raise UserError('--executor ray needs Ray: pip install "distill-harness[ray]"') from error
    logging.getLogger("ray").setLevel(logging.ERROR)
    return ray


def _start(ray: Any, address: str, here: int, folder: Path) -> None:
    """Join the cluster at `address`; without one, start Ray here with so many CPUs, and with its files in `folder`."""
    common: dict[str, object] = {"log_to_driver": False, "configure_logging": False}
    if not address:
        try:
            ray.init("local", num_cpus=here, include_dashboard=False, _temp_dir=str(folder), **common)
        except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
            raise UserError(
                f"Ray cannot be started on this machine ({first_line(error)}); where a path is too long, a shorter "
                "TMPDIR helps"
            ) from error
        return
    host = _check_address(address)
    # On a loopback address Ray cannot tell by itself which node the driver is on.
    own: dict[str, object] = {"_node_ip_address": host} if host.startswith("127.") else {}
    try:
        ray.init(address, **own, **common)
    except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        raise UserError(
            f"the Ray cluster at {address} cannot be joined ({first_line(error)}): start a node of it on "
            "this machine with ray start --address=HOST:PORT; where it asks for a token, set RAY_AUTH_MODE=token"
        ) from error


def _check_address(address: str) -> str:
    """The host of an address. Raises UserError for one that is malformed, or where nobody answers."""
    if address == "auto":
        return ""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or "://" in address:
        raise UserError(f"--address is HOST:PORT of a Ray cluster's head node, or auto, not {address!r}")
    if not _answers(address):
        raise UserError(f"no Ray cluster answers at {address}")
    return host


def _answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=LOOK).close()
    except (OSError, UnicodeError):  # the second of what can be no host's name
        return False
    return True


def _amount(gpus: float, cpus: float) -> str:
    """Such as "2 CPUs and 0.5 GPUs"."""
    return f"{cpus:g} CPUs and {gpus:g} GPUs"


# ---------------------------------------------------------------- what a run needs


def _absolute(workspace: Any) -> Any:
    """The workspace with whole paths, which have a meaning on other machines."""
    from harness.data import corpora, loading  # not before: they need numpy and torch

    def whole(name: str, *kept: str) -> str:
        path = Path(name).expanduser()
        return name if name in kept or not path.exists() else str(path.resolve())

    folders = {name: getattr(workspace, name).resolve() for name in ("run", "runs", "cache")}
    source = whole(workspace.source, *loading.named_sources())
    corpus = whole(workspace.corpus, "", *corpora.NAMED)
    name, argument = workspace.teacher
    teacher = TeacherName(name, registry.argument_with(name, argument, lambda one: whole(one, "")))
    declared = {name: own.absolute(told) for name, told in workspace.declared.items()}
    return replace(workspace, **folders, source=source, corpus=corpus, teacher=teacher, declared=declared)


def _parts(run: Run, workspace: Any) -> list[str]:
    """What a run reads of the driver's machine: data, teacher, plugins, files, and the runs that it starts from."""
    from harness.data import loading  # loads numpy

    tasks = map(get_task, run.data_of)
    parts = [str(path) for task in tasks for path in loading.source_of(task, workspace.source).parts(task)]
    bases = [own for _, own in registry.arguments_of(workspace.teacher.name, workspace.teacher.argument)]
    named = [*bases, *([workspace.corpus] if isinstance(run, CorpusRun) else [])]
    parts += [path for path in named if path.startswith("/")]
    for base in bases:
        if base.startswith("/") and Path(base).is_dir():  # a link to a folder is not followed
            parts += [str(path) for path in Path(base).iterdir() if path.is_symlink() and path.is_dir()]
    parts += [workspace.files[content] for content in inputs.files_of(run, workspace.files)]
    parts += [str(file) for plugin in workspace.plugins for file in plugin_code.files(plugin, elsewhere=False)]
    for before in run.depends_on:
        parts += [str(workspace.runs / before / "record.json"), str(workspace.runs / before / "weights")]
    return list(dict.fromkeys(parts))
