"""Shared fixtures: a small GLUE folder, small teachers, and the command line. The longest files are run first."""

from __future__ import annotations

import contextlib
import gc
import io
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from harness.collecting import uncollected
from harness.executors import environment as of_workers

os.environ["HF_HUB_OFFLINE"] = "1"  # read when huggingface_hub is imported: no test waits for a network
os.fsync = lambda _: None  # nor for the disk: what was written survives a kill, and no test stops the machine
of_workers.prepare()  # as every process that trains: with more threads than cores tests take many times as long

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a shell's background job; our processes would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes depends on the machine; each run of the suite draws others.
hypothesis.settings.register_profile("suite", deadline=None, max_examples=40)
hypothesis.settings.load_profile("suite")

ROOT = Path(__file__).parent.parent
SUBJECTS = ("dog", "cat", "farmer", "nurse", "story", "song")
GOOD, BAD = ("great", "lovely", "funny"), ("awful", "dull", "weak")
VOCABULARY = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "was", "not", "and", ".", *SUBJECTS, *GOOD, *BAD)

# One small study: 2 objectives x 2 initialisations x 1 task, 2 trials, 2 seeds.
SMALL_STUDY = (
    "--study", "objectives_vs_init", "--tasks", "sst2", "--objectives", "vanilla_kd", "att_kl", "--inits", "every",
    "random", "--seeds", "2", "--set", "train_examples=64", "batch_size=32", "teacher.epochs=2", "max_length=16",
)  # fmt: skip

EMPTY_STUDY = """
from harness.contracts import Study
from harness.registry import study
study(Study("{name}", "Title", "Question?", "one_stage", (), (), {{}}))
"""

Harness = Callable[..., "subprocess.CompletedProcess[str]"]

# Files that take six seconds and more, or wait for processes and servers, marked `slow`: `make quick` leaves them out.
# They begin first, so that at the end no process waits for a long one of another.
LONGEST = (
    "test_embedded_default.py", "test_kills.py", "test_ray.py", "test_study.py", "test_new.py",
    "test_new_procedures.py", "test_distil_corpus.py", "test_bad_input.py",
    "test_general_faults.py", "test_database.py", "test_run_processes.py", "test_notebook.py", "test_controls.py",
    "test_several_teachers.py", "test_every_study.py", "test_pruning.py", "test_script.py", "test_methods.py",
    "test_unreadable.py", "test_docs.py", "test_installed.py", "test_synchronisation.py", "test_idle.py",
    "test_columns.py",
    "test_results.py", "test_fairseq_roberta.py", "test_identities.py", "test_onnx_graph.py", "test_faulty_plugins.py",
    "test_lstm_studies.py", "test_matrix_studies.py", "test_general.py", "test_own_data.py", "test_multi_task.py",
    "test_real_results.py", "test_page.py", "test_listing.py", "test_testing.py", "test_figures.py", "test_folders.py",
    "test_machine.py", "test_kept_plans.py", "test_huggingface_folders.py", "test_code_versions.py", "test_streams.py",
    "test_merge.py", "test_fairseq_teacher.py", "test_submission.py", "test_stops.py", "test_reading.py",
    "test_families.py", "test_taking.py", "test_huggingface.py", "test_index.py", "test_pack.py", "test_plain_run.py",
    "test_plain_joint.py", "test_own_metric.py",
)  # fmt: skip

# Files that plan every study as it is declared: one process has them all, which plans each once.
OF_EVERY_STUDY = (
    "test_identities.py", "test_every_study.py", "test_lstm_studies.py", "test_methods.py", "test_task_agnostic.py",
)  # fmt: skip


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """That of --dist loadfile, but for OF_EVERY_STUDY."""
    from xdist.scheduler import LoadFileScheduling

    class ByFile(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            return "of every study" if Path(file).name in OF_EVERY_STUDY else file

    return ByFile(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What is imported here stays: to search it for cycles again and again would be a third of what this takes, and a
    twelfth of what the tests do.
    """
    with uncollected():
        found = yield
    gc.freeze()
    gc.set_threshold(2000, 20, 50)
    return found


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    order = {name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.path.name, len(order)))
    for item in items:
        if item.path.name in order:
            item.add_marker("slow")


@pytest.fixture(scope="module")
def often(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A plugin that has checkpoints written every now and then, by whatever process loads it."""
    from harness.registry import STUDIES
    from harness.training import corpus_loop, loop

    STUDIES.names()
    path = tmp_path_factory.mktemp("often") / "often.py"
    names = "corpus_loop", "loop"
    lines = ["from harness.training import corpus_loop, loop", *(f"{name}.CHECKPOINT_SECONDS = 0.1" for name in names)]
    lines += [EMPTY_STUDY.format(name=path.parent.name)]  # a plugin file registers something
    path.write_text("\n\n".join(lines) + "\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(STUDIES, "_found", dict(STUDIES._found))
        for module in (corpus_loop, loop):
            patch.setattr(module, "CHECKPOINT_SECONDS", module.CHECKPOINT_SECONDS)  # undone in this process
        yield path


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="session")
def harness() -> Harness:
    """harness(*words, cwd=...) runs the command line and returns the finished process with its text."""

    def run(*words: object, cwd: Path | None = None, timeout: float = 300) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "harness", *map(str, words)], cwd=cwd, env=environment(), capture_output=True,
            text=True, timeout=timeout, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    return run


@pytest.fixture(scope="session")
def call() -> Harness:
    """call(*words) runs the command line in this process: the same text and status without the imports' seconds."""

    def run(*words: object) -> subprocess.CompletedProcess[str]:
        from harness.cli import main

        out, error = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
            status = main([str(word) for word in words])
        return subprocess.CompletedProcess(words, status, out.getvalue(), error.getvalue())

    return run


@pytest.fixture(scope="module")
def no_figures() -> Iterator[None]:
    """The pages that this process writes have none, which are half of what a command takes: for files that write many
    pages of usual runs and look at none.
    """
    from harness.reports.formats import page

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page, "FIGURES", {})
        yield


@pytest.fixture(scope="module")
def here() -> Iterator[None]:
    """Runs are performed in this process, without those of their own: for files that look at what is trained."""
    from harness.commands import submit, taken
    from harness.executors import choosing
    from tests.in_process import Here

    with pytest.MonkeyPatch.context() as patch:
        for module in (choosing, submit, taken):
            patch.setattr(module, "LocalExecutor", Here)
        yield


@pytest.fixture
def as_before() -> Iterator[None]:
    """What a test's plugins registered in this process is forgotten after it."""
    from harness import registry

    for found in registry.ALL.values():
        found.names()
    known, loaded = {kind: dict(found._found) for kind, found in registry.ALL.items()}, set(registry._loaded)
    path = list(sys.path)
    yield
    for kind, found in registry.ALL.items():
        found._found = known[kind]
    registry._loaded.clear()
    registry._loaded.update(loaded)
    sys.path[:] = path


@pytest.fixture
def forked(tmp_path: Path) -> Harness:
    """forked(*words, cwd=...) runs the command line in a process of its own that has its imports done: a fresh one."""
    from tests import launching

    def run(*words: object, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
        return launching.forked(*words, folder=tmp_path / "said", cwd=cwd)

    return run


def _sentences(count: int, seed: int) -> list[tuple[str, int]]:
    draw = random.Random(seed)
    rows = []
    for _ in range(count):
        label = draw.randrange(2)
        word = draw.choice(GOOD if label else BAD)
        rows.append((f"the {draw.choice(SUBJECTS)} and the {draw.choice(SUBJECTS)} was {word} .", label))
    return rows


@pytest.fixture(scope="session")
def glue(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in GLUE's official layout with small SST-2, MRPC and RTE files."""
    folder = tmp_path_factory.mktemp("glue")
    for part, count, seed in (("train", 120, 0), ("dev", 40, 1)):
        rows = _sentences(count, seed)
        _write(folder / "SST-2" / f"{part}.tsv", ["sentence\tlabel", *(f"{text}\t{label}" for text, label in rows)])
        pairs = [(a, b, int(x == y)) for (a, x), (b, y) in zip(rows, reversed(rows), strict=True)]
        _write(
            folder / "MRPC" / f"{part}.tsv",
            ["Quality\t#1 ID\t#2 ID\t#1 String\t#2 String", *(f"{same}\t1\t2\t{a}\t{b}" for a, b, same in pairs)],
        )
        _write(
            folder / "RTE" / f"{part}.tsv",
            [
                "index\tsentence1\tsentence2\tlabel",
                *(
                    f"{n}\t{a}\t{b}\t{'entailment' if same else 'not_entailment'}"
                    for n, (a, b, same) in enumerate(pairs)
                ),
            ],
        )
    return folder


def _write(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of 4 layers, 32 wide, with random weights and a vocabulary for the `glue` fixture."""
    import torch
    from transformers import BertConfig, BertForMaskedLM, BertTokenizerFast

    folder = tmp_path_factory.mktemp("teacher")
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(VOCABULARY), hidden_size=32, num_hidden_layers=4, num_attention_heads=2, intermediate_size=64,
        max_position_embeddings=40,
    )  # fmt: skip
    BertForMaskedLM(config).save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY))
    BertTokenizerFast(vocab=str(folder / "vocab.txt"), do_lower_case=True).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def headless(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The encoder of `checkpoint` alone, with its tokenizer."""
    from transformers import BertModel

    folder = tmp_path_factory.mktemp("headless")
    BertModel.from_pretrained(checkpoint).save_pretrained(folder)
    for name in ("vocab.txt", "tokenizer.json", "tokenizer_config.json"):
        (folder / name).write_bytes((checkpoint / name).read_bytes())
    return folder
