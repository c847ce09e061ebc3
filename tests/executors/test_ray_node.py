"""What travels between the driver's machine and a node: whole files, brought once, and nothing of another's folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("ray")
from harness.data import corpora
from harness.errors import UserError
from harness.executors import ray_depot, ray_node
from harness.executors.ray_cluster import _absolute, _check_address, _parts
from harness.executors.ray_depot import Depot, stamps_of
from harness.executors.ray_node import Node, Session, SharedNode, as_told
from harness.jobs import corpus
from harness.ledger import CHECKPOINT
from harness.runs import CorpusDistillationRun, PretrainingRun, TeacherName
from harness.runs.messages import Finished, Refused
from harness.training.workspace import Workspace, teacher_tokenizer
from tests.executors.test_temporary import write
from tests.search.builders import BASE, student_run
from tests.training.builders import a_run


class Near:
    """A depot whose methods answer at once: what an actor's do, without Ray. calls: the names of those called."""

    def __init__(self, depot: Depot):
        self.depot, self.calls = depot, []  # type: ignore[var-annotated]

    def __getattr__(self, name: str) -> Any:
        def remote(*words: Any) -> Any:
            self.calls.append(name)
            return getattr(self.depot, name)(*words)

        return SimpleNamespace(remote=remote)


@pytest.fixture(autouse=True)
def without_ray(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(ray_node, "ask", lambda answer: answer)
    monkeypatch.setattr(ray_node, "folder_of", lambda session: tmp_path / "nodes" / session)
    for module in (ray_node, ray_depot):
        monkeypatch.setattr(module, "CHUNK", 5)


def workspace_of(out: Path, argument: str = "", **more: Any) -> Workspace:
    given = {"source": "embedded", "corpus": "", "files": {}, "plugins": ()}
    folders = {"run": out / "ledger" / "run", "runs": out / "ledger", "cache": out / "cache"}
    teacher = TeacherName("huggingface" if argument else "embedded", argument)
    return Workspace(**folders, **{**given, **more}, teacher=teacher, outputs={})  # type: ignore[arg-type]


def node_of(tmp_path: Path, name: str = "a", **more: Any) -> Node:
    session = Session(Near(Depot(str(tmp_path / "out"))), name, "", None)
    return Node(session, workspace_of(tmp_path / "out", **more), "run")


def read(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


names = st.lists(st.sampled_from("abc"), min_size=1, max_size=3).map("/".join)
trees = st.dictionaries(names.map(lambda name: f"{name}.bin"), st.binary(max_size=17), min_size=1, max_size=4)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)
@given(tree=trees, single=st.binary(max_size=12))
def test_files_and_folders_arrive_whole(tmp_path_factory: pytest.TempPathFactory, tree: Any, single: bytes) -> None:
    tmp_path = tmp_path_factory.mktemp("travel")
    folder, file = write(tmp_path / "data", tree), write(tmp_path, {"vectors.txt": single}) / "vectors.txt"
    node = node_of(tmp_path, str(tmp_path.name), source=str(tmp_path / "data"), files={"content": str(file)})
    here = node.fetch_all([str(folder), str(file)])
    assert read(Path(here.source)) == tree and Path(here.files["content"]).read_bytes() == single
    paths = [here.run, here.runs, here.cache, Path(here.source), Path(here.files["content"])]
    assert all(node.folder in path.parents for path in paths), "a run would read the driver's folders"
    back = write(here.run / "weights", tree)
    node.send(back, whole=True)
    assert read(tmp_path / "out" / "ledger" / "run" / "weights") == tree
    assert not [p for p in tmp_path.rglob("*.tmp") if p.name != "nodes"]


def test_a_folder_may_hold_a_file_of_any_name(tmp_path: Path) -> None:
    content = {"file": b"text", "other": b"more"}
    folder, node = write(tmp_path / "corpus", content), node_of(tmp_path, corpus=str(tmp_path / "corpus"))
    here = node.fetch_all([str(folder)])
    assert read(Path(here.corpus)) == content
    node.send(write(here.run / "weights", content), whole=True)
    assert read(tmp_path / "out" / "ledger" / "run" / "weights") == content


def test_what_is_here_is_not_brought_again(tmp_path: Path) -> None:
    folder = write(tmp_path / "teacher", {"model.safetensors": b"0123456789"})
    node = node_of(tmp_path, argument=str(folder))
    node.fetch_all([str(folder)])
    assert node.depot.calls.count("read") == 3  # two full chunks, and the end
    node.fetch_all([str(folder)])
    assert node.depot.calls.count("read") == 3


def test_what_a_killed_worker_left_half_fetched_is_fetched_again(tmp_path: Path) -> None:
    folder = write(tmp_path / "teacher", {"model.safetensors": b"whole"})
    node = node_of(tmp_path)
    half = node.here(folder).with_name(".teacher.fetched.tmp")
    write(half, {"model.safetensors": b"wh", "other": b""})
    node.fetch_all([str(folder)])
    assert read(node.here(folder)) == {"model.safetensors": b"whole"} and not half.exists()


def test_a_run_goes_on_from_the_newest_checkpoint(tmp_path: Path) -> None:
    """The driver's: what a node has may be of an attempt before the last. Each new one is sent."""
    run = write(tmp_path / "out" / "ledger" / "run", {"checkpoint.pt": b"epoch 1"})
    node = node_of(tmp_path)
    here = node.fetch_all([]).run / "checkpoint.pt"
    assert here.read_bytes() == b"epoch 1"
    node.tell({"epoch": 2})
    assert node.depot.calls[-1:] == ["tell"] and "write" not in node.depot.calls, "it was sent though it is not new"
    here.write_bytes(b"the second epoch")
    node.tell({"epoch": 2})
    assert read(run) == {"checkpoint.pt": b"the second epoch"}
    here.write_bytes(b"left by an attempt that died here before")
    for name in ("a", "b"):
        again = node_of(tmp_path, name).fetch_all([])
        assert (again.run / "checkpoint.pt").read_bytes() == b"the second epoch"


def test_sending_checkpoints_takes_a_tenth_of_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node, now = node_of(tmp_path), [0.0]
    here = node.fetch_all([]).run / "checkpoint.pt"
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    send, sent = node.send, []

    def slowly(*words: Any) -> Any:
        now[0] += 2
        sent.append(now[0])
        return send(*words)

    monkeypatch.setattr(node, "send", slowly)
    for epoch in range(60):
        here.write_bytes(b"epoch" * (epoch + 1))
        node.tell({"epoch": epoch})
        now[0] += 1
    assert len(sent) == 4 and all(then - before >= 20 for before, then in zip(sent, sent[1:], strict=False))


def test_what_is_below_a_shared_folder_of_results_stays_in_its_place(tmp_path: Path) -> None:
    out, data = tmp_path / "out", write(tmp_path / "data", {"a.tsv": b"text"})
    workspace = workspace_of(out, source=str(data))
    near = Near(Depot(str(out)))
    node = SharedNode(Session(near, "s", "", None, str(out)), workspace, "run")
    with pytest.raises(UserError, match=r"does not see the folder of results at .* --shared-out needs"):
        node.fetch_all([])
    write(out, {".seen-s.tmp": b"s", "ledger/before/weights/model": b"weights", f"ledger/run/{CHECKPOINT}": b"so far"})
    here = node.fetch_all([str(data), str(out / "ledger" / "before" / "weights")])
    assert (here.run, here.runs, here.cache, here.exchange) == (workspace.run, workspace.runs, workspace.cache, None)
    assert here.source == str(node.folder / str(data)[1:]) and read(Path(here.source)) == {"a.tsv": b"text"}
    assert not node.here(out / "ledger").is_relative_to(node.folder) and not (node.folder / str(out)[1:]).exists()
    node.tell({"epoch": 1})
    node.ended(here, Finished("run", {}, None))
    assert (out / "ledger" / "run" / CHECKPOINT).read_bytes() == b"so far"  # the driver's to remove, as locally
    assert {"write", "keep"}.isdisjoint(near.calls)


def test_the_cache_is_filled_once_for_all_nodes(tmp_path: Path) -> None:
    made: list[str] = []

    def fill(node: Node, name: str) -> dict[str, bytes]:
        workspace = node.fetch_all([])
        folder = workspace.cache / "outputs"
        with workspace.once(folder):
            if not (folder / name).exists():
                made.append(name)
                (folder / name).write_bytes(name.encode() * 3)
                (folder / "index.json").write_bytes(b" ".join(p.name.encode() for p in sorted(folder.glob("l*"))))
        return {n: c for n, c in read(folder).items() if not n.startswith(".")}

    first, second = node_of(tmp_path, "a"), node_of(tmp_path, "b")
    assert fill(first, "layer.1") == fill(second, "layer.1") and made == ["layer.1"]
    assert set(fill(second, "layer.2")) == {"layer.1", "layer.2", "index.json"}
    assert fill(first, "layer.2") == fill(second, "layer.1") and made == ["layer.1", "layer.2"]
    there = {n: c for n, c in read(tmp_path / "out" / "cache" / "outputs").items() if not n.startswith(".")}
    assert there == fill(first, "layer.1")


@pytest.mark.parametrize("text", ["masked", "sentences"])
def test_a_corpus_is_tokenised_on_one_node(tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "corpus.txt"
    source.write_text("".join(f"the {word} saw a cat .\n" for word in ("dog", "bird", "cat") * 20))
    settings = {"max_length": 16, "mask_probability": 0.15, "pack": False, "pieces": 0, "fraction": 1.0}
    run = a_run(CorpusDistillationRun, settings=settings, corpus=corpora.content(str(source)))
    nodes = [node_of(tmp_path, name, corpus=str(source)) for name in "ab"]
    documents, reads, found = corpora.documents, [], []
    monkeypatch.setattr(corpora, "documents", lambda source: reads.append(source) or documents(source))
    monkeypatch.setattr(ray_depot, "CHUNK", 1 << 20)
    monkeypatch.setattr(ray_node, "CHUNK", 1 << 20)
    for node in nodes:
        here = node.fetch_all([str(source)])
        if text == "masked":
            trained, held_out = corpus._parts(run, here)
        else:
            trained, held_out = corpus._sentences(run, here, teacher_tokenizer(here))
        found.append([trained.text.corpus.piece(int(i)).tolist() for part in (trained, held_out) for i in part.index])
        assert all(node.folder in path.parents for path in here.cache.rglob("tokens.bin"))
    assert len(reads) == 1 and found[0] == found[1] and len(found[0]) == 60


def test_the_index_arrives_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker killed while it fetches leaves files without the index that vouches for them."""
    write(tmp_path / "out" / "cache" / "outputs", {"index.json": b"{}", "layer.1": b"1", "sentence": b"2"})
    node, seen = node_of(tmp_path), []
    copy = Node._copy
    monkeypatch.setattr(
        Node, "_copy", lambda self, path, workspace: (seen.append(workspace.name), copy(self, path, workspace))
    )
    node.fetch(node.here(tmp_path / "out" / "cache" / "outputs"))
    assert seen == ["layer.1", "sentence", "index.json"]


def test_deaths_are_counted_from_the_last_checkpoint(tmp_path: Path) -> None:
    depot = Depot(str(tmp_path))
    assert [depot.begin("run") for _ in range(3)] == [1, 2, 3]
    depot.tell("run", {"epoch": 1, "step": 5})
    assert depot.begin("run") == 4
    depot.tell("run", {"epoch": 1})
    assert depot.begin("run") == 5
    depot.tell("run", {"epoch": 2, "saved": True})
    assert depot.begin("run") == 1
    told = [None, None, None, {"epoch": 1, "step": 5}, None, {"epoch": 1}, None, {"epoch": 2, "saved": True}]
    assert [entry for _, entry in depot.news()][: len(told)] == told
    depot.end()
    assert depot.news() == [] == depot.news()


def test_what_ray_asks_of_the_depot_twice_changes_nothing(tmp_path: Path) -> None:
    """Ray asks again where an answer was lost, and may start the depot again between two parts of a file."""
    path = str(tmp_path / "ledger" / "run" / "weights")
    Depot(str(tmp_path)).write(path, "sender", "model", 0, b"01234")
    depot = Depot(str(tmp_path))
    depot.write(path, "sender", "model", 5, b"56789")
    depot.write(path, "sender", "model", 5, b"56789")
    first = depot.keep(path, "sender", True)
    assert depot.keep(path, "sender", True) == first and read(Path(path)) == {"model": b"0123456789"}


def test_equal_files_of_another_node_keep_their_stamps(tmp_path: Path) -> None:
    """Nobody fetches again, or loses while reading, what two nodes or two attempts made."""
    depot = Depot(str(tmp_path))
    for whole in (True, False):
        path = str(tmp_path / f"folder-{whole}")
        stamps = []
        for sender in ("one", "two"):
            for name, content in (("a.f32", b"same"), ("index.json", b"{}")):
                depot.write(path, sender, name, 0, content)
            stamps.append(depot.keep(path, sender, whole))
        assert stamps[0] == stamps[1] and not list(tmp_path.glob(".*"))
        depot.write(path, "three", "a.f32", 0, b"others")
        assert depot.keep(path, "three", whole) != stamps[0]


def test_hidden_files_travel_but_not_our_own(tmp_path: Path) -> None:
    content = {".hidden.txt": b"1", "sub/.more/text.txt": b"2", "text.txt": b"3"}
    folder = write(tmp_path / "corpus", content | {".lock": b"", ".text.txt.lock": b"", ".git/objects": b""})
    node = node_of(tmp_path, corpus=str(folder))
    assert read(Path(node.fetch_all([str(folder)]).corpus)) == content


def test_links_to_folders_in_a_teachers_folder_and_homes_are_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, {"labels/dict.txt": b"a", "home/teacher/model.pt": b"m"})
    (tmp_path / "home" / "teacher" / "label").symlink_to(tmp_path / "labels")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    workspace = _absolute(workspace_of(tmp_path / "out", argument="~/teacher"))
    here = node_of(tmp_path, argument=workspace.teacher.argument).fetch_all(
        _parts(PretrainingRun(teacher=BASE, settings={}), workspace)
    )
    sizes = {name: size for name, (_, size) in stamps_of(Path(here.teacher.argument)).items()}
    assert sizes == {"model.pt": 1, "label/dict.txt": 1}


def test_folders_of_an_ensembles_members_arrive_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"one/model.pt": b"1", "two/model.pt": b"22"})
    monkeypatch.chdir(tmp_path)
    ensemble = TeacherName("ensemble", "minilm+./one + huggingface:two+owner/name")
    workspace = _absolute(replace(workspace_of(tmp_path / "out"), teacher=ensemble))
    parts = _parts(PretrainingRun(teacher=BASE, settings={}), workspace)
    assert parts == [str(tmp_path / "one"), str(tmp_path / "two")]
    node = Node(Session(Near(Depot(str(tmp_path / "out"))), "a", "", None), workspace, "run")
    minilm, one, two, hub = node.fetch_all(parts).teacher.argument.split("+")
    assert (minilm, hub) == ("minilm", "owner/name") and read(Path(one)) == {"model.pt": b"1"}
    plugin, _, folder = two.partition(":")
    assert plugin == "huggingface" and read(Path(folder)) == {"model.pt": b"22"}


def test_what_a_killed_worker_had_sent_of_a_file_is_removed(tmp_path: Path) -> None:
    depot = Depot(str(tmp_path))
    path = tmp_path / "ledger" / "run" / "checkpoint.pt"
    depot.write(str(path), "killed", "", 0, b"half")
    assert list(path.parent.iterdir())
    depot.begin("run")
    assert not list(path.parent.iterdir())


def test_a_full_disk_of_the_driver_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "ledger").write_text("no folder")
    with pytest.raises(UserError, match="cannot be written"):
        Depot(str(tmp_path)).write(str(tmp_path / "ledger" / "run" / "weights"), "sender", "model", 0, b"1")


@pytest.mark.parametrize("host", ["head..example", "h" * 64])
def test_what_can_be_no_host_is_refused(host: str) -> None:
    with pytest.raises(UserError, match="no Ray cluster answers at"):
        _check_address(f"{host}:6379")


def test_errors_speak_of_the_drivers_paths(tmp_path: Path) -> None:
    node = node_of(tmp_path)
    assert node.as_on_driver(f"{node.here('/data/SST-2/train.tsv')}, line 3") == "/data/SST-2/train.tsv, line 3"


def test_a_refusal_says_on_which_node_it_was(tmp_path: Path) -> None:
    node, changed = node_of(tmp_path), "the code of objective mine changed since the study was planned"
    assert as_told(Refused("run", changed), node, "10.0.0.2") == Refused("run", f"{changed} (on node 10.0.0.2)")
    lacking = as_told(Refused("run", f"{node.folder}/mine.py cannot be loaded"), node, "10.0.0.2")
    assert lacking == Refused("run", f"/mine.py cannot be loaded (on node 10.0.0.2, below {node.folder})")
    named = Refused("run", "node 10.0.0.2 has another version of harness")
    assert as_told(named, node, "10.0.0.2") == named


def test_a_run_needs_its_own_task_and_the_runs_it_names(glue: Path, tmp_path: Path) -> None:
    teacher, other = "0123456789abcdef", "fedcba9876543210"
    for run in (teacher, other):
        write(tmp_path / "ledger" / run, {"weights/model.safetensors": b"", "record.json": b""})
    workspace = workspace_of(tmp_path, source=str(glue), files={"aa": "/vectors", "bb": "/others"}, argument="/teacher")
    assert _parts(student_run(task="mrpc", teacher=teacher, init="vectors:aa"), workspace) == [
        str(glue / "MRPC"), "/teacher", "/vectors",
        str(tmp_path / "ledger" / teacher / "record.json"), str(tmp_path / "ledger" / teacher / "weights"),
    ]  # fmt: skip
