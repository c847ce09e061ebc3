"""Plans of distillation on a corpus: which settings are part of what a run is, and which are refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.errors import UserError
from harness.planning.plan import resolve
from harness.planning.planned import Plan
from harness.planning.recipe import recipes_before
from harness.planning.request import Request
from harness.runs import CorpusDistillationRun, MaskedTeacherRun
from harness.search.results import distillations
from tests.search.builders import of_kind

STUDY = """
from harness.contracts import Profile, Row, Study
from harness.registry import study

study(
    Study(
        name="two_on_a_corpus",
        title="Two objectives on a corpus",
        question="What do they share?",
        procedure="general",
        rows=(
            Row("layers", "att_mse", "Layers"),
            Row("masks", "mlm_kd", "Masks"),
            Row("both", "att_mse+mlm_kd", "Both"),
        ),
        students=("transformer",),
        profiles={
            "quick": Profile(
                "embedded", ("sst2",), ("random",), 1, 1,
                settings={"transformer.layers": 2, "general.batch_size": 32},
            )
        },
    )
)
"""


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("plugin") / "two_on_a_corpus.py"
    path.write_text(STUDY)
    return str(path)


Planned = Callable[..., Plan]


@pytest.fixture(scope="module")
def planned(plugin: str, checkpoint: Path, glue: Path, tmp_path_factory: pytest.TempPathFactory) -> Planned:
    """planned(*settings, objectives=...): the plan with these settings."""
    corpus = tmp_path_factory.mktemp("corpus") / "corpus.txt"
    corpus.write_text("the dog was great .\n")
    places = {"teacher": str(checkpoint), "data": str(glue), "corpus": str(corpus)}

    def plan(*settings: str, study: str = "two_on_a_corpus", **request: Any) -> Plan:
        given: dict[str, Any] = {**places, "plugins": (plugin,), "overrides": settings, **request}
        return resolve(Request(study, **given))

    return plan


def general(plan: Plan) -> dict[str, str]:
    """Objective -> the run that distils by it."""
    return {made.objective: run for run, made in of_kind(plan, CorpusDistillationRun).items()}


def settings_of(plan: Plan, run: str) -> Mapping[str, Any]:
    return plan.first[run].run.settings


def without_effect(planned: Planned, *settings: str, **request: Any) -> None:
    """The first setting is refused, in one sentence."""
    with pytest.raises(UserError) as error:
        planned(*settings, **request)
    assert str(error.value) == f"setting {settings[0].partition('=')[0]!r} has no effect: no selected cell uses it"


@pytest.fixture(scope="module")
def plain(planned: Planned) -> dict[str, str]:
    return general(planned())


def test_several_seeds_share_one_distillation() -> None:
    def of(objective: str, seeds: int) -> int:
        asked = {"objectives": [objective], "students": ["cbow"], "seeds": seeds, "trials": 1}
        return distillations(resolve(Request("objectives_vs_students", **asked)))

    assert (of("sra", 2), of("sra", 1), of("vanilla_kd", 2)) == (1, 0, 0)


def test_the_last_layer_is_part_of_what_compares_layers(planned: Planned, plain: dict[str, str]) -> None:
    plan = planned("general.transferred_layers=last")
    last = general(plan)
    changed = {objective for objective in plain if plain[objective] != last[objective]}
    assert changed == {"att_mse", "att_mse+mlm_kd"} and plain.keys() == {*changed, "mlm_kd"}
    layers = {objective: settings_of(plan, run)["transferred_layers"] for objective, run in last.items()}
    assert layers == {"att_mse": "last", "att_mse+mlm_kd": "last", "mlm_kd": "mapped"}
    assert general(planned("general.transferred_layers=mapped")) == plain
    without_effect(planned, "general.transferred_layers=last", objectives=["masks"])


def test_steps_take_the_place_of_epochs(planned: Planned, plain: dict[str, str]) -> None:
    plan = planned("general.steps=50")
    found = general(plan)
    assert set(found.values()).isdisjoint(plain.values())
    assert {settings_of(plan, run)["steps"] for run in found.values()} == {50}
    assert general(planned("general.steps=0")) == plain
    without_effect(planned, "general.epochs=2", "general.steps=50")


@pytest.mark.parametrize(("size", "acts"), [(1, True), (31, True), (32, False), (64, False)])
def test_a_micro_batch_is_smaller_than_the_batch(
    size: int, acts: bool, planned: Planned, plain: dict[str, str]
) -> None:
    if not acts:
        without_effect(planned, f"general.micro_batch={size}")
        return
    assert set(general(planned(f"general.micro_batch={size}")).values()).isdisjoint(plain.values())
    without_effect(planned, f"general.micro_batch={size}", f"general.batch_size={size}")


def test_a_whole_batch_is_the_same_run_however_it_is_said(
    planned: Planned, tmp_path: Path, plain: dict[str, str]
) -> None:
    """Where a profile's micro-batch is as large as the batch."""
    other = tmp_path / "other.py"
    text = STUDY.replace('"general.batch_size": 32', '"general.batch_size": 32, "general.micro_batch": 64')
    other.write_text(text.replace("two_on_a_corpus", "with_micro_batches"))
    assert general(planned(study="with_micro_batches", plugins=(str(other),))) == plain


def test_stored_targets_are_part_of_what_predicts_masked_tokens(planned: Planned, plain: dict[str, str]) -> None:
    stored = general(planned("general.stored_top_k=5"))
    assert {objective for objective in plain if plain[objective] != stored[objective]} == {"mlm_kd", "att_mse+mlm_kd"}
    without_effect(planned, "general.stored_top_k=5", objectives=["layers"])


def test_what_is_off_is_not_told_and_a_number_of_pieces_is_a_limit(planned: Planned) -> None:
    told = " ".join(recipes_before(planned()))
    assert "stored_top_k" not in told and "pieces all; " in told and "pieces at most" not in told
    told = " ".join(recipes_before(planned("general.stored_top_k=5", "general.pieces=7")))
    assert "stored_top_k 5" in told and "pieces at most 7; " in told


def test_the_second_moment_is_that_of_adam(planned: Planned, plain: dict[str, str]) -> None:
    assert set(general(planned("general.adam_beta2=0.98")).values()).isdisjoint(plain.values())
    assert general(planned("general.adam_beta2=0.999")) == plain
    without_effect(planned, "general.adam_beta2=0.98", "general.optimiser=adadelta")
    without_effect(planned, "general.adam_epsilon=1e-6", "general.optimiser=adadelta")
    assert set(general(planned("general.optimiser=adadelta")).values()).isdisjoint(plain.values())


def test_adam_on_the_tasks_is_set_apart_from_that_on_the_corpus(planned: Planned, plain: dict[str, str]) -> None:
    def cells(*settings: str) -> set[str]:
        plan = planned(*settings)
        assert general(plan) == plain
        return {cell.id for cell in plan.cells}

    before = cells()
    assert cells("adam_beta2=0.999", "adam_epsilon=1e-8") == before
    for changed in ("adam_beta2=0.98", "adam_epsilon=1e-6", "gradient_clip=0"):
        assert cells(changed).isdisjoint(before), changed
    without_effect(planned, "adam_epsilon=1e-6", "optimiser=adadelta")
    without_effect(planned, "teacher.adam_beta2=0.9", "teacher.optimiser=adadelta")


@pytest.mark.parametrize("whose", ["", "teacher.", "general."])
def test_a_constant_rate_has_no_warm_up(planned: Planned, whose: str) -> None:
    without_effect(planned, f"{whose}warmup_ratio=0.2", f"{whose}schedule=constant")
    planned(f"{whose}warmup_ratio=0", f"{whose}schedule=constant")


def test_packed_pieces_are_other_text(planned: Planned, plain: dict[str, str]) -> None:
    packed = general(planned("general.pack=true"))
    assert set(packed.values()).isdisjoint(plain.values())
    assert general(planned("general.pack=false")) == plain
    without_effect(planned, "general.pack=true", "general.text=sentences", objectives=["layers"])


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("general.peices=80", "unknown setting 'general.peices': did you mean general.pieces"),
        ("general.patience=2", "unknown setting 'general.patience'"),
        ("general.stored_top_k=few", "general.stored_top_k must be a whole number, not 'few'"),
        ("general.stored_top_k=23", "general.stored_top_k must be at most 22, the teacher's vocabulary, not 23"),
        ("general.steps=-1", "general.steps must be at least 0, not -1"),
        ("general.micro_batch=-8", "general.micro_batch must be at least 0, not -8"),
        ("general.adam_beta2=1", "general.adam_beta2 must be between 0.5 and 0.999999, not 1.0"),
        ("general.transferred_layers=first", "general.transferred_layers is one of mapped, last, not 'first'"),
        ("steps=5", "unknown setting 'steps'"),
        ("adam_beta2=1", "adam_beta2 must be between 0.5 and 0.999999, not 1.0"),
        ("general.adam_epsilon=0", "general.adam_epsilon must be between 1e-12 and 1.0, not 0.0"),
        ("teacher.gradient_clip=-1", "teacher.gradient_clip must be at least 0.0, not -1.0"),
        ("general.transformer.layers=3", "unknown setting 'general.transformer.layers'"),
    ],
)
def test_a_value_that_is_none(setting: str, said: str, planned: Planned) -> None:
    with pytest.raises(UserError) as error:
        planned(setting)
    assert str(error.value).startswith(said) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    "settings",
    [("general.steps=50",), ("general.transferred_layers=last",), ("general.adam_beta2=0.98", "general.batch_size=8")],
)
def test_the_head_of_a_teacher_does_not_depend_on_how_students_learn(
    settings: tuple[str, ...], planned: Planned, headless: Path
) -> None:
    def plan(*given: str) -> Plan:
        return planned(*given, teacher=str(headless))

    def head(of: Plan) -> str:
        (run,) = of_kind(of, MaskedTeacherRun)
        return run

    before, after = plan(), plan(*settings)
    assert head(plan("general.batch_size=64", "general.micro_batch=32")) == head(before)  # its own batch is of 32
    assert head(after) == head(before)
    assert general(after)["att_mse"] != general(before)["att_mse"]
    assert after.first[general(after)["att_mse"]].after == [head(after)]
    assert head(plan("general.mask_probability=0.3")) != head(before)  # how its text is masked does
