"""What a machine must have for what a run asks."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from harness.errors import UserError
from harness.jobs.perform import _performed
from harness.registry import STUDIES
from harness.runs.settings import Settings
from harness.training import machine
from harness.training.failures import TrainingFailure
from tests.conftest import Harness

pytestmark = pytest.mark.usefixtures("no_figures")


@pytest.fixture
def old_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "device", lambda: torch.device("cuda"))
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: False)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "an old GPU")


@pytest.mark.usefixtures("old_gpu")
def test_bfloat16_is_refused_where_the_accelerator_has_it_not() -> None:
    with pytest.raises(UserError, match="an old GPU has no bfloat16: --set precision=float32"):
        machine.check_precision({"precision": "bfloat16"})
    machine.check_precision({"precision": "float32"})
    machine.check_precision(Settings())


FLAGS = {
    "avx2": ("flags\t\t: fpu avx avx2 fma", False),
    "avx512": ("flags\t\t: fpu avx2 avx512f avx512_vnni avx512_bf16", True),
    "amx": ("flags\t\t: fpu amx_bf16 amx_tile", True),
    "arm": ("Features\t: fp asimd i8mm bf16", True),
    "old arm": ("Features\t: fp asimd", False),
    "unknown": ("model name\t: another", True),
}


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("free")
@pytest.mark.parametrize("processor", FLAGS)
def test_what_a_processor_has_is_read_from_its_flags(
    processor: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line, has = FLAGS[processor]
    (tmp_path / "cpuinfo").write_text(f"processor\t: 0\n{line}\nbugs\t\t: bf16\n\nprocessor\t: 1\n{line}\n")
    assert machine.has_bfloat16(tmp_path / "cpuinfo") == has
    assert machine.has_bfloat16(tmp_path / "absent")
    for name in ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"):
        for limit, allows in (("avx2", False), ("AVX512_CORE", False), ("AVX512_CORE_AMX", True), ("ALL", True)):
            monkeypatch.setenv(name, limit)
            assert machine.has_bfloat16(tmp_path / "cpuinfo") == (has and allows)
        monkeypatch.delenv(name)


@pytest.mark.skipif(torch.accelerator.is_available(), reason="computes on an accelerator")
def test_what_will_be_slow_is_told_once_before_anything_is_trained(
    call: Harness, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(machine, "has_bfloat16", lambda: False)
    words = ("plan", "--study", "general_vs_task_specific", "--tasks", "paraphrase", "--out", tmp_path, "--set")
    told = "expect about 15 times the time of --set "
    for settings, names in (
        (("precision=bfloat16",), "precision=float32"),
        (("general.precision=bfloat16",), "general.precision=float32"),
        (("precision=bfloat16", "general.precision=bfloat16"), "general.precision=float32 precision=float32"),
    ):
        said = call(*words, *settings)
        assert said.returncode == 0 and said.stderr.count(told) == 1 and f"{told}{names}\n" in said.stderr
    assert told not in call(*words, "precision=float32").stderr
    monkeypatch.setattr(machine, "has_bfloat16", lambda: True)
    assert told not in call(*words, "precision=bfloat16").stderr


@pytest.mark.skipif(torch.accelerator.is_available(), reason="computes on an accelerator")
def test_a_plan_tells_what_bfloat16_gains_here(call: Harness, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(machine, "has_bfloat16", lambda: True)
    words = ("plan", "--study", "objectives_vs_students", "--students", "cbow", "bilstm", "transformer:layers=1")
    words += ("--tasks", "sentiment", "--objectives", "vanilla_kd", "--out", str(tmp_path / "none"))
    told = "bfloat16 on this machine, a training step, times as fast as in float32: "
    line = next(line for line in call(*words, "--set", "precision=bfloat16").stdout.splitlines() if told in line)
    factors = dict(each.rsplit(" ", 1) for each in line.removeprefix(told).split(", "))
    assert list(factors) == ["cbow", "bilstm", "transformer:layers=1"]
    assert all(0.001 < float(factor) < 100 for factor in factors.values())
    assert told not in call(*words).stdout
    pairs = ("plan", "--study", "pair_encoding", "--tasks", "paraphrase", "--out", str(tmp_path / "none"))
    assert told in call(*pairs, "--set", "precision=bfloat16").stdout  # by students that read the sentences apart
    monkeypatch.setattr(machine, "has_bfloat16", lambda: False)  # the sentence of what is slow says enough
    assert told not in call(*words, "--set", "precision=bfloat16").stdout


def test_the_profiles_for_one_machine_compute_in_float32() -> None:
    for name in STUDIES.names():
        for profile, declared in STUDIES.get(name).profiles.items():
            asked = [key for key in declared.settings if key.endswith("precision")]
            assert not asked or profile == "paper", (name, profile)


@pytest.mark.skipif(sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "mallopt"), reason="glibc's malloc alone")
def test_what_a_run_frees_it_uses_again_without_asking_the_system_for_it() -> None:
    """By page faults, which the system counts: it clears a page when it is first touched."""
    faults = """
import resource, torch
from harness.training.machine import keep_freed_memory
for prepare in (lambda: None, keep_freed_memory):
    prepare()
    for step in range(24):
        if step == 4:
            begun = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        torch.ones(16 << 20)  # 64 MiB
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - begun)
"""
    said = subprocess.run([sys.executable, "-c", faults], capture_output=True, text=True, check=True).stdout
    given_back, kept = map(int, said.split())
    assert kept < given_back / 2  # one block more may be asked for as the heap settles


@pytest.fixture
def flags() -> Iterator[None]:
    """What `repeatable` sets in a process, as it was."""
    yield
    torch.use_deterministic_algorithms(False)
    torch.backends.cudnn.allow_tf32 = torch.utils.deterministic.fill_uninitialized_memory = True
    os.environ.pop("CUBLAS_WORKSPACE_CONFIG", None)


@pytest.mark.usefixtures("flags", "old_gpu")
def test_a_gpu_computes_in_float32_and_the_same_each_time() -> None:
    machine.repeatable()
    assert torch.are_deterministic_algorithms_enabled() and not torch.backends.cudnn.allow_tf32
    assert not torch.is_deterministic_algorithms_warn_only_enabled()
    machine.repeatable(strictly=False)
    assert torch.are_deterministic_algorithms_enabled() and torch.is_deterministic_algorithms_warn_only_enabled()


REFUSED = (
    "put_ does not have a deterministic implementation, but you set 'torch.use_deterministic_algorithms(True)'. You can"
)


class Refusing:
    """A run that asks of a GPU what it cannot compute twice the same, or fails otherwise; in code of a plugin."""

    def __init__(self, error: str, plugin: bool = False):
        self.error, self.plugin, self.asked = error, plugin, list[bool]()

    def perform(self, work: Any) -> Any:
        self.asked.append(torch.is_deterministic_algorithms_warn_only_enabled())
        if not self.asked[-1] and self.plugin:
            raise TrainingFailure(f"objective mine failed: {self.error}") from RuntimeError(self.error)
        if not self.asked[-1]:
            raise RuntimeError(self.error)
        return {"metrics": {}}, None


@pytest.mark.usefixtures("flags", "old_gpu")
@pytest.mark.parametrize("plugin", [False, True])
def test_what_a_gpu_cannot_compute_twice_the_same_is_computed_and_named(plugin: bool) -> None:
    run: Any = Refusing(REFUSED, plugin)
    assert _performed(run, None) == ({"metrics": {}, "unrepeatable": "put_"}, None)  # type: ignore[arg-type]
    assert run.asked == [False, True]
    failing: Any = Refusing("CUDA error: an illegal memory access was encountered")
    torch.use_deterministic_algorithms(False)
    with pytest.raises(RuntimeError, match="illegal memory access"):
        _performed(failing, None)  # type: ignore[arg-type]
    assert failing.asked == [False]
