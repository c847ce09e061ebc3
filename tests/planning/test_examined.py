"""A plan refuses what a teacher cannot give, row by row; what was found out of a teacher is kept."""

from __future__ import annotations

import dataclasses
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForMaskedLM

from harness.errors import UserError
from harness.modeling import examination
from harness.planning import examined
from harness.planning.plan import resolve
from harness.planning.planned import Plan
from harness.planning.remembered import ROOM
from harness.planning.request import Request
from harness.teachers.embedded import EmbeddedTeacher
from tests.modeling.families import FAMILIES, LIKE_ROBERTA, SHARED, SPECIAL

INITS = ("every", "first", "random")
ROWS = ("vanilla_kd", "cosine", "hid_seq", "att_kl", "att_kl+val_kl")


def teacher(folder: Path, family: str, head: Any = AutoModelForMaskedLM, **changes: Any) -> str:
    tokenizer = EmbeddedTeacher().tokenizer()
    shape = SHARED | {"vocab_size": len(tokenizer), "pad_token_id": 0} | changes
    torch.manual_seed(1)
    model = head.from_config(AutoConfig.for_model(family, **shape))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def plan(name: str, cache: Path | None = None, lenient: bool = False, **more: Any) -> Plan:
    request = {"tasks": ["entailment"], "objectives": ROWS, "inits": INITS, "overrides": ["student.layers=2"], **more}
    if cache:
        shutil.rmtree(cache / ROOM, ignore_errors=True)  # what is kept of teachers is looked at here, not of plans
    return resolve(Request("objectives_vs_init", teacher=name, **request), lenient, cache)


def refused(found: Plan) -> dict[tuple[str, str], str]:
    return {(cell.row, cell.init): cell.refused for cell in found.cells if cell.refused}


def test_rows_that_need_what_it_lacks_and_no_others(tmp_path: Path) -> None:
    """FNet mixes tokens by a Fourier transform: it has no attention. What is left asks for none."""
    found = plan(teacher(tmp_path / "fnet", "fnet"))
    assert set(refused(found)) == {(row, init) for row in ("att_kl", "att_kl+val_kl") for init in INITS}
    assert all("FNet" in reason and "nor is one softmax a layer" in reason for reason in refused(found).values())
    assert {name for name, _ in found.outputs["entailment"]} == {"logits", "sentence", "hidden_states"}


@pytest.mark.parametrize(
    ("family", "changes"),
    [("mpnet", LIKE_ROBERTA), ("deberta-v2", FAMILIES["deberta-v2 third"]), ("albert", FAMILIES["albert"])],
)
def test_nothing_is_refused_of_one_that_emits_all(family: str, changes: dict[str, Any], tmp_path: Path) -> None:
    assert not refused(plan(teacher(tmp_path / family, family, **changes), inits=("every", "last", "1,3", "random")))


def test_a_teacher_without_hidden_states(tmp_path: Path) -> None:
    """Of Longformer only logits can be had, and no student can start from its layers."""
    found = plan(teacher(tmp_path / "longformer", "longformer", **LIKE_ROBERTA, attention_window=[4] * 4))
    open_cells = {(c.row, c.init) for c in found.cells if not c.refused}
    assert open_cells == {("vanilla_kd", "random")}
    assert "no student can start from the weights of" in refused(found)["vanilla_kd", "first"]
    assert "hid_seq needs hidden_states" in refused(found)["hid_seq", "random"]
    with pytest.raises(UserError, match="averaged_transformer averages hidden states, which .* does not emit"):
        plan(str(tmp_path / "longformer"), objectives=["vanilla_kd"], students=["averaged_transformer"])


def test_attention_in_windows_is_not_learnt_without_them(tmp_path: Path) -> None:
    """ModernBERT of 4: global, sliding, sliding, global; of 2: global, sliding. `every` takes layers 2 and 4."""
    name = teacher(tmp_path / "modernbert", "modernbert", **{**SPECIAL, "local_attention": 16})
    inits = ("every", "first", "4,3", "random", "random:embeddings")
    found = refused(plan(name, inits=inits, objectives=["vanilla_kd", "att_kl", "hid_seq"]))
    assert set(found) == {("att_kl", "random"), ("att_kl", "random:embeddings")}
    words = (
        "att_kl compares layer 1 of the student with layer 2 of .*modernbert, which sees other tokens: its attn.slid"
    )
    assert re.match(words, found["att_kl", "random"])


def test_a_model_without_layers_ends_the_plan(tmp_path: Path) -> None:
    perceiver = teacher(tmp_path / "perceiver", "perceiver", d_latents=32, d_model=32)
    for lenient in (True, False):
        with pytest.raises(UserError, match="perceiver has no list of its 4 encoder layers"):
            plan(perceiver, lenient=lenient)


class TestMemory:
    @pytest.fixture
    def asked(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """The model types that were examined, in a process that remembers none."""
        found: list[str] = []
        examine = examination.examine

        def noting(model: Any, masked: bool = False) -> Any:
            found.append(model.config.model_type)
            return examine(model, masked)

        monkeypatch.setattr(examined, "_found", {})
        monkeypatch.setattr(examination, "examine", noting)
        return found

    def test_a_model_is_examined_once(self, asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        name, cache = teacher(tmp_path / "fnet", "fnet"), tmp_path / "cache"
        first = plan(name, cache)
        assert asked == ["fnet"]
        assert plan(name, cache).cells == first.cells
        monkeypatch.setattr(examined, "_found", {})  # as another process has it
        assert plan(name, cache).cells == first.cells and asked == ["fnet"]
        assert refused(first)

    @pytest.mark.parametrize("damage", ["", "{}", '{"key": 1}', "\x00", "cut"])
    def test_a_damaged_memory_is_made_again(
        self, damage: str, asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        name, cache = teacher(tmp_path / "deberta", "deberta", relative_attention=True), tmp_path / "cache"
        first = plan(name, cache)
        (file,) = (cache / "examined").iterdir()
        whole = file.read_text()
        file.write_text(whole[: len(whole) // 2] if damage == "cut" else damage)
        monkeypatch.setattr(examined, "_found", {})
        assert plan(name, cache).cells == first.cells and asked == ["deberta"] * 2
        assert file.read_text() == whole

    def test_one_thread_examines(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Where other work has a core, a plan took 11 s of two threads that wait for each other, and 5 s of one."""
        threads: list[int] = []

        def counting(model: Any, masked: bool = False) -> Any:
            threads.append(torch.get_num_threads())
            return examine(model, masked)

        examine, before = examination.examine, torch.get_num_threads()
        monkeypatch.setattr(examined, "_found", {})
        monkeypatch.setattr(examination, "examine", counting)
        torch.set_num_threads(2)
        try:
            plan(teacher(tmp_path / "fnet", "fnet"))
            assert (threads, torch.get_num_threads()) == ([1], 2)
        finally:
            torch.set_num_threads(before)

    def test_other_weights_or_code_are_examined_again(
        self, asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        cache = tmp_path / "cache"
        plan(teacher(tmp_path / "a", "electra", embedding_size=16), cache)
        plan(teacher(tmp_path / "b", "roberta", **LIKE_ROBERTA), cache)
        assert asked == ["electra", "roberta"]
        monkeypatch.setattr(examined, "fingerprint", lambda path: "edited")
        plan(str(tmp_path / "a"), cache)
        assert asked == ["electra", "roberta", "electra"]

    def test_a_plan_alone_writes_nothing(self, asked: list[str], tmp_path: Path) -> None:
        plan(teacher(tmp_path / "bert", "bert"), tmp_path / "cache", lenient=True)
        assert asked == ["bert"] and not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    "settings", [["learning_rate=1e-7"], ["teacher.schedule=polynomial", "teacher.learning_rate=1e-8"]]
)
def test_a_rate_that_a_schedule_cannot_end_below(settings: list[str]) -> None:
    settings = settings if len(settings) > 1 else ["schedule=polynomial", *settings]
    asked = Request("objectives_vs_init", "quick", "embedded:train", None, ["vanilla_kd"], inits=["random"])
    with pytest.raises(UserError, match="schedule polynomial ends at a rate of 1e-07, so learning_rate must be above"):
        resolve(dataclasses.replace(asked, overrides=settings))
