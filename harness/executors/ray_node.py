"""What a Ray task does on a node: bring what the run needs, train it, send back what it made.

No folder is shared, unless the driver says that its folder of results is (`SharedNode`).
"""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import shutil
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import ray
from filelock import FileLock

from harness import registry
from harness.errors import UserError
from harness.executors import environment, gpus, temporary
from harness.executors.process import Attempt
from harness.executors.ray_depot import ALONE, CHUNK, stamps_of
from harness.executors.worker import DEATHS, attempt
from harness.files import atomic_file, read_sealed, write_sealed
from harness.ledger import CHECKPOINT, LOG, Stamp
from harness.plugin_code import our_folders
from harness.runs.messages import Died, Failed, Finished, Message, Refused, Told
from harness.runs.told import Entry
from harness.training.workspace import Workspace

LIBRARIES = ("torch", "transformers", "numpy")


@dataclass(frozen=True)
class Session:
    """What all runs of one driver have in common.

    depot: its actor; name: what a node keeps for it; code: the driver's `code_here`; limit: see `process.Attempt`;
    shared: its folder of results, where every node sees it, otherwise "".
    """

    depot: Any
    name: str
    code: str
    limit: float | None
    shared: str = ""


def train(session: Session, run: str, specification: Any, workspace: Workspace, parts: Sequence[str]) -> Message:
    """Do one run; the message that says how it ended.

    workspace: as it is on the driver's machine; parts: the files and folders there that the run needs.

    Ray uses this process again, so the run has one of its own, which asks this one for whatever Ray is needed for.
    """
    environment.prepare()
    if not ray.get_gpu_ids():  # Ray hides no GPU from a task that asked for none
        os.environ[gpus.VISIBLE] = ""
    node = (SharedNode if session.shared else Node)(session, workspace, run)

    def work() -> Message:
        if session.code != code_here():
            raise UserError(
                f"node {ray.util.get_node_ip_address()} has another version of harness, {' or '.join(LIBRARIES)} than "
                "the driver: install the same on every node"
            )
        while ask(session.depot.begin.remote(run)) <= DEATHS:
            message = _attempt(run, specification, node.fetch_all(parts), session.limit, node)
            if not isinstance(message, Died):
                return message
        why = f"its worker died {DEATHS} times (often for want of memory)"
        return Failed(run, why, why)

    return as_told(attempt(run, work), node, ray.util.get_node_ip_address())


def as_told(message: Message, node: Node, address: str) -> Message:
    """A message of a run, with the paths of the driver's machine; a refusal says on which node: others may train it."""
    if isinstance(message, Failed):
        error, traceback = map(node.as_on_driver, (message.error, message.traceback))
        return replace(message, error=error, traceback=traceback)
    if not isinstance(message, Refused) or address in message.sentence:
        return message
    told = node.as_on_driver(message.sentence)
    below = f", below {node.folder}" if told != message.sentence else ""
    return replace(message, sentence=f"{told} (on node {address}{below})")


def _attempt(run: str, specification: Any, here: Workspace, limit: float | None, node: Node) -> Message:
    """The last message of one attempt at a run, its files sent."""
    attempt = Attempt(run, specification, here, limit, os.environ)
    try:
        message: Message | None = None
        while message is None or isinstance(message, Told):
            wait(attempt.signs, attempt.left())
            message = attempt.message()
            if isinstance(message, Told):
                node.tell(message.entry)
    finally:
        attempt.end()
    node.ended(here, message)
    return message


def ask(answer: Any) -> Any:
    """What the depot answers; what it raises, as it was there."""
    try:
        return ray.get(answer)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from None


class Node:
    """The files of one driver that this node has, at the same places below `folder` as they have on its machine."""

    def __init__(self, session: Session, workspace: Workspace, run: str):
        self.session, self.depot, self.workspace, self.run = session, session.depot, workspace, run
        self.folder = folder_of(session.name)
        self.exchange: Node | None = self  # how the run shares the cache
        self._sent: Stamp | None = None  # the checkpoint that the driver has
        self._next = 0.0  # when another may be sent

    def here(self, path: Path | str) -> Path:
        """Where a path of the driver's machine is on this node."""
        return self.folder / Path(path).relative_to("/")

    def there(self, path: Path) -> str:
        """Where a path of this node is on the driver's machine."""
        return str("/" / path.relative_to(self.folder))

    def as_on_driver(self, text: str) -> str:
        """The text with the paths of the driver's machine."""
        return text.replace(str(self.folder), "")

    def fetch_all(self, parts: Sequence[str]) -> Workspace:
        """Bring what is not here yet. Returns the workspace with this node's paths."""
        for part in parts:
            self._bring(part)
        self.here(self.workspace.run).mkdir(parents=True, exist_ok=True)
        self._resume()
        workspace, known = self.workspace, {part: str(self.here(part)) for part in parts}
        teacher = workspace.teacher
        return replace(
            workspace,
            run=self.here(workspace.run),
            runs=self.here(workspace.runs),
            cache=self.here(workspace.cache),
            source=str(self.here(workspace.source)) if workspace.source.startswith("/") else workspace.source,
            corpus=known.get(workspace.corpus, workspace.corpus),
            files={name: known.get(path, path) for name, path in workspace.files.items()},
            teacher=teacher._replace(argument=registry.argument_with(*teacher, lambda one: known.get(one, one))),
            plugins=tuple(known.get(path, path) for path in workspace.plugins),
            declared={
                name: {**told, "place": known.get(told["place"], told["place"])}
                for name, told in workspace.declared.items()
            },
            exchange=self.exchange,
        )

    def _resume(self) -> None:
        """Bring the run's newest checkpoint."""
        checkpoint = self.workspace.run / CHECKPOINT
        self.here(checkpoint).unlink(missing_ok=True)  # of a worker that died here: another node may have gone further
        self._bring(str(checkpoint))
        self._sent = _checkpoint(self.here(checkpoint))

    def ended(self, here: Workspace, message: Message | None) -> None:
        """Send what an attempt at the run has left."""
        if (here.run / LOG).exists():
            self.send(here.run / LOG)
        if isinstance(message, Finished) and (here.run / "weights").is_dir():
            self.send(here.run / "weights", whole=True)
        if not isinstance(message, Died):
            (here.run / CHECKPOINT).unlink(missing_ok=True)

    def tell(self, entry: Entry) -> None:
        """Say how the run goes, and send the checkpoint if there is a new one. A tenth of the time goes into that."""
        checkpoint, began = self.here(self.workspace.run) / CHECKPOINT, time.monotonic()
        found = _checkpoint(checkpoint)
        if found is not None and found != self._sent and began >= self._next:
            self.send(checkpoint)
            self._sent, self._next = found, time.monotonic() + 9 * (time.monotonic() - began)
        self.depot.tell.remote(self.run, entry)

    def send(self, path: Path, names: Sequence[str] | None = None, whole: bool = False) -> dict[str, Stamp]:
        """Send a file, or these files of a folder, to the same place on the driver's machine. See `Depot.keep`."""
        sender, there = uuid.uuid4().hex[:12], self.there(path)
        for name in stamps_of(path) if names is None else names:
            with open(path / name if name else path, "rb") as file:
                start = 0
                while (content := file.read(CHUNK)) or not start:
                    ask(self.depot.write.remote(there, sender, name, start, content))
                    start += len(content)
                    if len(content) < CHUNK:
                        break
        return ask(self.depot.keep.remote(there, sender, whole))

    # ------------------------------------------------------------ the cache, see `workspace.Exchange`

    def fetch(self, folder: Path) -> None:
        """Bring the files of the driver's cache that are not here, or are others there now."""
        known, there = _known(folder), ask(self.depot.stamps.remote(self.there(folder)))
        changed = [name for name in there if tuple(known.get(name, ((), ()))[0]) != there[name]]
        for name in sorted(changed, key=lambda name: name == "index.json"):
            self._copy(f"{self.there(folder)}/{name}", folder / name)
        if changed:
            _remember(folder, there)

    def offer(self, folder: Path) -> None:
        """Send the files that are new or others since `fetch`."""
        known, here = _known(folder), stamps_of(folder)
        changed = [name for name in here if tuple(known.get(name, ((), ()))[1]) != here[name]]
        if changed:
            _remember(folder, self.send(folder, changed))

    # ------------------------------------------------------------ shared

    def _bring(self, path: str) -> None:
        """Bring a file or folder, unless it is here. Once it has its name it is whole."""
        place = self.here(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(place.with_name(f".{place.name}.lock")):
            if place.exists():
                return
            aside = place.with_name(f".{place.name}.fetched.tmp")
            shutil.rmtree(aside, ignore_errors=True)
            for name in ask(self.depot.stamps.remote(path)):
                self._copy(f"{path}/{name}" if name else path, aside / (name or ALONE))
            if (aside / ALONE).exists():
                os.replace(aside / ALONE, place)
                aside.rmdir()
            elif aside.exists():
                os.replace(aside, place)

    def _copy(self, path: str, place: Path) -> None:
        with atomic_file(place) as file:
            while content := ask(self.depot.read.remote(path, file.tell())):
                file.write(content)
                if len(content) < CHUNK:
                    break


class SharedNode(Node):
    """A node that sees the driver's folder of results: what is below it is read and written in its place."""

    def __init__(self, session: Session, workspace: Workspace, run: str):
        super().__init__(session, workspace, run)
        self.out, self.exchange = Path(session.shared), None

    def fetch_all(self, parts: Sequence[str]) -> Workspace:
        """As of any node. Raises UserError where it does not see the driver's folder."""
        mark = mark_of(self.out, self.session.name)
        if not mark.is_file() or mark.read_text() != self.session.name:
            raise UserError(
                f"node {platform.node()} does not see the folder of results at {self.out}: --shared-out needs one "
                "that every node has at this path"
            )
        return super().fetch_all(parts)

    def here(self, path: Path | str) -> Path:
        return Path(path) if Path(path).is_relative_to(self.out) else super().here(path)

    def there(self, path: Path) -> str:
        return str(path) if path.is_relative_to(self.out) else super().there(path)

    def _bring(self, path: str) -> None:
        if not Path(path).is_relative_to(self.out):
            super()._bring(path)

    def _resume(self) -> None:
        """The newest checkpoint is in its place."""

    def tell(self, entry: Entry) -> None:
        self.depot.tell.remote(self.run, entry)

    def ended(self, here: Workspace, message: Message | None) -> None:
        """All that it has left is in its place."""


def mark_of(out: Path, session: str) -> Path:
    """The file by which a node knows that it sees the folder of results of this driver."""
    return out / f".seen-{session}.tmp"


def _checkpoint(path: Path) -> Stamp | None:
    return stamps_of(path).get("")


def _known(folder: Path) -> dict[str, tuple[Sequence[int], Sequence[int]]]:
    """File -> (its stamp on the driver's machine, its stamp here) when the two were last the same."""
    return read_sealed(folder / ".exchanged.json")


def _remember(folder: Path, there: dict[str, Stamp]) -> None:
    here = stamps_of(folder)
    both = {name: (there[name], here[name]) for name in here if name in there}
    write_sealed(folder / ".exchanged.json", both)


@functools.cache
def code_here() -> str:
    """A fingerprint of what decides the numbers on this machine: our code and the libraries' versions."""
    whole = hashlib.sha256(repr([version(name).partition("+")[0] for name in LIBRARIES]).encode())
    files: dict[str, Path] = {}  # by module, for an installation has within harness/ what a checkout has beside it
    for folder in our_folders():
        names = {path: path.relative_to(folder.parent).as_posix() for path in folder.rglob("*.py")}
        files |= {name.removeprefix("harness/"): path for path, name in names.items()}
    for name, path in sorted(files.items()):
        whole.update(name.encode() + path.read_bytes())
    return whole.hexdigest()


@functools.cache
def folder_of(session: str) -> Path:
    """This node's folder for one driver, held as long as this process lives. Removes those that nobody holds."""
    folder = temporary.new(f"{session}-{ray.get_runtime_context().get_node_id()[:12]}")
    temporary.hold(folder)  # never given back: it ends with the process
    temporary.sweep()
    return folder


def discard(session: str) -> None:
    """Remove this node's folder for a driver that ends."""
    shutil.rmtree(folder_of(session), ignore_errors=True)
