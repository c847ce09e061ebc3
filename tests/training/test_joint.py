"""One model of several tasks: what is shared and what is not, the objective, the folder of weights."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence
from transformers import AutoConfig, AutoModelForSequenceClassification

from harness import combine
from harness.contracts import Batch, LayerMap, ModelInfo, Outputs, Signal, Task, Want
from harness.errors import UserError
from harness.jobs.starting import load_pretrained
from harness.modeling.bases import Student, StudentConfig
from harness.registry import STUDENTS, TEACHERS
from harness.teaching.outputs import Encoder
from harness.testing.student_cases import PAIR, SCORES, SINGLE, Case
from harness.training import loop
from harness.training.joint_model import (
    Joint,
    JointData,
    JointObjective,
    heads_in,
    load_joint,
    load_joint_teacher,
    own_weights,
    save_joint,
)
from harness.training.loop import Clock, Stage, TrainingFailure, predict, train
from harness.training.optimisation import Optimisation
from harness.training.sums import Sum
from harness.training.weights import save_reader
from tests.small_models import small_batch, small_model
from tests.training.builders import CPU, VOCABULARY, examples, regime, settings

LOGITS = Want(logits=True)
INFO = ModelInfo("m", 1, 6, 1, VOCABULARY, 2, frozenset(Signal), "words")


class Recurrent(Student):
    """An LSTM, which keeps a list of its weights, and a normalisation, which has buffers."""

    name = "recurrent"

    def __init__(self, config: StudentConfig):
        super().__init__(config)
        self.words = nn.Embedding(VOCABULARY, 6)
        self.lstm = nn.LSTM(6, config.settings.get("width", 6), batch_first=True)
        self.norm = nn.BatchNorm1d(6)
        self.head = nn.Linear(6, config.outputs)
        self.post_init()

    def forward(self, batch: Batch, want: Want) -> Outputs:
        sizes = batch.mask.sum(1).cpu()
        words = pack_padded_sequence(self.words(batch.encodings[0]["input_ids"]), sizes, True, enforce_sorted=False)
        return Outputs(logits=self.head(self.norm(self.lstm(words)[1][0][0])))


def recurrent(outputs: int, seed: int = 0, width: int = 6) -> Recurrent:
    torch.manual_seed(seed)
    return Recurrent(StudentConfig("recurrent", {"width": width}, {}, outputs))


def made(kind: str, a: int = 2, b: int = 3) -> Joint:
    """A joint model of the tasks a and b, with as many outputs; each of its models had weights of its own."""
    if kind == "student":
        return Joint([("a", recurrent(a, 1)), ("b", recurrent(b, 2))])
    return Joint((t, Encoder(small_model(kind, n, labels=n))) for t, n in (("a", a), ("b", b)))


def batch(kind: str, task: str = "") -> Batch:
    if kind == "student":
        return replace(examples(6).batch(torch.arange(6)), task=task)
    return Batch(torch.arange(3), torch.tensor([0, 1, 1]), (small_batch(kind),), task=task)


def heads(joint: Joint, task: str) -> dict[str, Tensor]:
    return {name: tensor for name, tensor in joint.state_dict().items() if name.startswith(f"heads.{task}.")}


def copied(state: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in state.items()}


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(tensor, other[name]) for name, tensor in one.items())


each_kind = pytest.mark.parametrize("kind", ["student", "bert", "distilbert"])


# ---------------------------------------------------------------- what is shared


@each_kind
def test_a_step_on_one_task_moves_the_others_encoder_but_not_its_head(kind: str) -> None:
    joint = made(kind).eval()
    before, answered = copied(joint.state_dict()), joint(batch(kind, "b"), LOGITS).logits.detach()
    joint(batch(kind, "a"), LOGITS).logits.pow(2).sum().backward()
    with torch.no_grad():
        for parameter in joint.parameters():
            if parameter.grad is not None:
                parameter.sub_(0.1 * parameter.grad)
    after = joint.state_dict()
    moved = {name for name in after if not torch.equal(after[name], before[name])}
    assert heads(joint, "a") and heads(joint, "a").keys() <= moved
    assert not moved & heads(joint, "b").keys()
    assert any(not name.startswith("heads.") for name in moved)
    assert not torch.allclose(joint(batch(kind, "b"), LOGITS).logits, answered)


def test_an_update_on_one_task_leaves_the_others_head_at_rest() -> None:
    """Neither its moments nor its decay go on."""
    joint = made("student", 2, 2)
    optimisation = Optimisation(joint, nn.Identity(), settings(weight_decay=0.5, schedule="constant"), 4)
    before = {"b": copied(heads(joint, "b"))}
    for task, other in ("ab", "ba", "ab"):
        optimisation.step(joint(batch("student", task), LOGITS).logits.pow(2).sum())
        assert same(heads(joint, other), before[other]) and not same(heads(joint, task), before.get(task, {}))
        before[task] = copied(heads(joint, task))


@each_kind
def test_every_shared_weight_counts_once_and_is_the_first_models(kind: str) -> None:
    alone = copied(made(kind).network("a").state_dict())  # the first model as it was built
    joint = made(kind)
    a, b = joint.network("a"), joint.network("b")
    assert same(alone, a.state_dict())
    owned = [sum(p.numel() for n, p in net.named_parameters() if n in own_weights(net)) for net in (a, b)]
    assert min(owned) > 0 and owned[0] != owned[1]
    whole = sum(p.numel() for p in a.parameters())
    assert sum(p.numel() for p in joint.parameters()) == whole + owned[1]
    shared = sorted(set(a.state_dict()) - own_weights(a))
    first, second = a.state_dict(keep_vars=True), b.state_dict(keep_vars=True)
    assert shared and all(first[name] is second[name] for name in shared)
    assert set(joint.state_dict()) == {*shared, *heads(joint, "a"), *heads(joint, "b")}


@pytest.mark.parametrize("name", STUDENTS.names())
def test_every_student_is_one_model_of_several_tasks(name: str) -> None:
    """A joint model of every kind of task; what one says after a change to another is what fresh copies say."""
    cases = {"first": Case(name, SINGLE), "second": Case(name, PAIR), "third": Case(name, SCORES)}
    joint = Joint((task, case.build(seed)) for seed, (task, case) in enumerate(cases.items())).eval()
    with torch.no_grad():
        for tensor in joint.network("first").parameters():
            tensor.add_(0.05)
    for seed, (task, case) in enumerate(cases.items()):
        fresh, network = case.build(seed + 5).eval(), joint.network(task)
        fresh.load_state_dict(network.state_dict())
        seen = replace(case.batch(), task=task)
        with torch.no_grad():
            assert torch.equal(joint(seen, LOGITS).logits, fresh(seen, LOGITS).logits)
    one = joint.network("first")
    shared = one.state_dict().keys() - one.head_weights()  # type: ignore[operator]
    assert shared and shared <= joint.state_dict().keys()


def test_buffers_stay_shared_when_the_model_is_moved() -> None:
    joint = made("student").double().train()
    joint(batch("student", "a"), LOGITS)
    a, b = (joint.network(task).state_dict() for task in ("a", "b"))
    assert a["norm.running_mean"].dtype == torch.float64 and a["norm.running_mean"].abs().sum() > 0
    assert torch.equal(a["norm.running_mean"], b["norm.running_mean"])
    assert int(b["norm.num_batches_tracked"]) == 1


@each_kind
def test_loaded_weights_are_shared_as_before(kind: str) -> None:
    joint, other = made(kind).eval(), made(kind).eval()
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(0.1)
    joint.load_state_dict(copied(other.state_dict()))
    assert same(joint.state_dict(), other.state_dict())
    for task in ("a", "b"):
        assert torch.equal(joint(batch(kind, task), LOGITS).logits, other(batch(kind, task), LOGITS).logits)
    assert len(list(joint.parameters())) == len(list(other.parameters()))


def test_models_of_other_sizes_cannot_be_tied() -> None:
    with pytest.raises(TrainingFailure, match=r"a and b .* lstm.bias_hh_l0, .* is \(24,\) in one and \(28,\)"):
        Joint([("a", recurrent(2)), ("b", recurrent(2, width=7))])
    with pytest.raises(TrainingFailure, match="missing"):
        Joint((t, Encoder(small_model("bert", layers=n))) for t, n in (("a", 2), ("b", 3)))


# ---------------------------------------------------------------- the objective


def sums() -> dict[str, Sum]:
    terms = {"a": "vanilla_kd", "b": "labels_only+0.5*logit_mse"}
    return {task: Sum(combine.parse(text), INFO, INFO, LayerMap(()), {}) for task, text in terms.items()}


def test_the_loss_and_gradient_of_a_batch_are_those_of_its_task_alone() -> None:
    joint, parts = made("student", 2, 2).eval(), sums()
    objective = JointObjective(parts)
    for task in ("a", "b"):
        seen, theirs = batch("student", task), Outputs(logits=torch.tensor([[1.0, -2.0]] * 6))
        joint.zero_grad()
        loss, terms = objective(joint(seen, LOGITS), theirs, seen)
        loss.backward()
        alone = recurrent(2).eval()
        alone.load_state_dict(joint.network(task).state_dict())
        expected, single = parts[task](alone(seen, LOGITS), theirs, seen)
        expected.backward()
        assert loss.item() == expected.item()
        assert terms == {f"{name} of {task}": value for name, value in single.items()}
        gradients = dict(joint.network(task).named_parameters())
        for name, parameter in alone.named_parameters():
            assert torch.equal(gradients[name].grad, parameter.grad), name  # type: ignore[arg-type]


def test_it_wants_what_any_task_wants() -> None:
    student, teacher = JointObjective(sums()).wants()
    assert student == teacher == LOGITS
    assert JointObjective({"a": Sum(combine.parse("labels_only"), INFO, INFO, LayerMap(()), {})}).wants() == (
        LOGITS,
        Want(),
    )


# ---------------------------------------------------------------- training


def trained(folder: Path) -> tuple[Joint, loop.History]:
    torch.manual_seed(3)
    joint = made("student", 2, 2)
    objective = JointObjective(sums())
    data = JointData({"a": examples(40, 1), "b": examples(24, 2)})

    def teacher(seen: Batch, want: Want) -> Outputs:
        return Outputs(logits=torch.stack([seen.ids.float(), -seen.ids.float()], 1) / 20)

    def select(model: nn.Module) -> float:
        held = {"a": examples(20, 8), "b": examples(20, 9)}
        found = [predict(joint.models[task], part, 8, settings(), CPU, Clock()) for task, part in held.items()]
        return -float(torch.cat(found).std())  # falls as the model learns: the first epoch is the best

    stage = Stage("multi_task", objective, objective.wants(), 3, True)
    history = train(joint, [stage], data, teacher, select, regime(folder, settings()))
    return joint, history


def test_the_best_epochs_weights_are_handed_on(tmp_path: Path) -> None:
    joint, history = trained(tmp_path)
    assert history.best["epoch"] < 3
    held = {"a": examples(20, 8), "b": examples(20, 9)}
    found = [predict(joint.models[task], part, 8, settings(), CPU, Clock()) for task, part in held.items()]
    assert -float(torch.cat(found).std()) == history.best["selection"]


# ---------------------------------------------------------------- on disk

ONE = Task("sst2", "One", "accuracy", ("accuracy",), labels=("0", "1"))
TWO = Task("stsb", "Two", "pearson", ("pearson",), pair=True)
RUN = "0123456789abcdef"


def test_a_vocabulary_is_one_file_whatever_was_read_by_it(tmp_path: Path) -> None:
    reader = TEACHERS.get("embedded")("").tokenizer()
    for folder in ("before", "after"):
        save_reader(reader, tmp_path / folder)
        reader("a cat sees the dog", truncation=True, max_length=4, padding="max_length")
    files = [{path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("before", "after")]
    assert files[0] == files[1] and "tokenizer.json" in files[0]


def test_a_saved_student_is_read_again(tmp_path: Path) -> None:
    joint, folder = made("student").eval(), tmp_path / RUN / "weights"
    folder.parent.mkdir()
    save_joint(joint, folder)
    assert heads_in(folder) == ("a", "b") and heads_in(tmp_path) == ()
    with safe_open(folder / "model.safetensors", "pt") as file:  # entries of metadata stand in any order
        assert file.metadata() == {"format": "pt"}
    assert same(load_file(folder / "model.safetensors"), joint.state_dict())
    for task, outputs in (("a", 2), ("b", 3)):
        fresh = recurrent(outputs, 9).eval()
        load_joint(fresh, task, folder)
        assert torch.equal(fresh(batch("student"), LOGITS).logits, joint(batch("student", task), LOGITS).logits)
    with pytest.raises(UserError, match=f"run {RUN} was not trained on c, .* those of a, b"):
        load_joint(recurrent(2), "c", folder)
    assert [path.name for path in folder.parent.iterdir()] == ["weights"]


def test_a_student_starts_from_a_joint_run_by_its_shared_weights_and_its_own_head(tmp_path: Path) -> None:
    """Where the run was trained on the task, otherwise by the shared weights alone."""
    joint, folder = Joint([("sst2", recurrent(2, 1)), ("b", recurrent(3, 2))]), tmp_path / RUN / "weights"
    save_joint(joint, folder)
    student, other = recurrent(2, 5), recurrent(2, 6)
    load_pretrained(student, folder, RUN, ONE)
    assert same(student.state_dict(), joint.network("sst2").state_dict())
    drawn = copied(other.state_dict())
    load_pretrained(other, folder, RUN, replace(ONE, name="cola"))
    shared = {name for name in drawn if not name.startswith("head.")}
    for name, tensor in other.state_dict().items():
        assert torch.equal(tensor, joint.state_dict()[name] if name in shared else drawn[name]), name


@pytest.fixture(params=["ForMaskedLM", "ForSequenceClassification"])
def refined(request: pytest.FixtureRequest, checkpoint: Path, tmp_path: Path) -> tuple[Any, Joint, Path]:
    """(a teacher's source, the same refined on two tasks, the folder it is saved in).

    The base weights are an encoder's, or a classifier's of three classes, which answer none of the tasks.
    """
    base = shutil.copytree(checkpoint, tmp_path / "base")
    if request.param == "ForSequenceClassification":
        AutoModelForSequenceClassification.from_pretrained(checkpoint, num_labels=3).save_pretrained(base)
    source = TEACHERS.get("huggingface")(str(base))
    torch.manual_seed(4)
    joint = Joint((task.name, Encoder(source.model(task, None))) for task in (ONE, TWO)).eval()
    with torch.no_grad():
        for parameter in joint.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    save_joint(joint, tmp_path / "weights")
    return source, joint, tmp_path / "weights"


def test_a_saved_teacher_is_read_again(refined: tuple[Any, Joint, Path]) -> None:
    source, joint, folder = refined
    seen = small_batch("bert")
    seen["input_ids"] %= AutoConfig.from_pretrained(folder).vocab_size
    for task in (ONE, TWO):
        torch.manual_seed(7)
        model = load_joint_teacher(source, task, folder).eval()
        drawn = torch.rand(())
        torch.manual_seed(7)
        assert torch.equal(drawn, torch.rand(())), "loading changed the random state"
        assert same(model.state_dict(), joint.network(task.name).state_dict())
        assert model.config.num_labels == task.outputs and model.config.finetuning_task == task.name
        said = Encoder(model)(Batch(torch.arange(3), torch.zeros(3), (seen,)), LOGITS).logits
        assert torch.equal(said, joint(Batch(torch.arange(3), torch.zeros(3), (seen,), task=task.name), LOGITS).logits)


def test_a_head_that_a_teacher_was_not_given_is_refused(refined: tuple[Any, Joint, Path]) -> None:
    source, _, folder = refined
    with pytest.raises(UserError, match=r"was not trained on rte, .* sst2, stsb"):
        load_joint_teacher(source, replace(ONE, name="rte"), folder)


def test_a_tokenizer_of_its_own_is_kept_with_the_weights(refined: tuple[Any, Joint, Path]) -> None:
    source, joint, folder = refined
    assert not list(folder.glob("tokenizer*"))
    save_joint(joint, folder, source.tokenizer())  # in place of those of a run that was killed
    assert (folder / "tokenizer.json").is_file() and (folder / "model.safetensors").is_file()
    with pytest.raises(UserError, match="cannot be written"):
        save_joint(joint, folder / "config.json" / "weights", source.tokenizer())
