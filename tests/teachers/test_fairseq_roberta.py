"""One small RoBERTa through fairseq itself, through the teacher, and after conversion through transformers."""

from __future__ import annotations

import math
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForMaskedLM, AutoModelForSequenceClassification

from harness.batch import positions
from harness.contracts import Outputs, Task, Want
from harness.data.tasks import get_task
from harness.errors import UserError
from harness.modeling.bases import StudentConfig
from harness.modeling.signals import emit
from harness.registry import STUDENTS
from harness.teachers.fairseq import FairseqTeacher
from harness.teachers.huggingface import HuggingFaceTeacher
from harness.teaching.outputs import Encoder
from harness.training.joint_model import Joint, load_joint_teacher, save_joint
from harness.training.weights import save
from tests.small_models import THREE, TWO
from tests.teachers import fairseq_models as small

pytest.importorskip("fairseq")
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # fairseq uses hydra as one used it long ago
ALL = frozenset(range(1, small.LAYERS + 1))
EVERYTHING = Want(
    sentence=True, embeddings=True, hidden_states=ALL | {0}, attention_scores=ALL, queries=ALL, keys=ALL, values=ALL
)
MNLI, RTE, STSB = get_task("mnli"), get_task("rte"), get_task("stsb")


def by_fairseq(folder: Path) -> Any:
    """fairseq's own RobertaModel of the folder, in evaluation mode, loaded by fairseq."""
    from fairseq.models.roberta import RobertaModel

    with torch.serialization.safe_globals([Namespace]):
        return RobertaModel.from_pretrained(str(folder), "model.pt", data_name_or_path=str(folder), bpe=None).eval()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small.save(tmp_path_factory.mktemp("fairseq"))


@pytest.fixture(scope="module")
def reference(folder: Path) -> Outputs:
    """What fairseq says of `ragged`; attention by its own `before_softmax`, without the mask of padding."""
    roberta = by_fairseq(folder)
    with torch.no_grad():
        states = roberta.extract_features(small.ragged()["input_ids"], return_all_hiddens=True)
        found = Outputs(hidden_states=dict(enumerate(states)), sentence=states[-1][:, 0])
        masked = roberta.model(small.ragged()["input_ids"], masked_tokens=small.targets() != -100)[0]
        found.mlm_logits = masked
        for number, layer in enumerate(roberta.model.encoder.sentence_encoder.layers, start=1):
            x = states[number - 1].transpose(0, 1)  # (L, B, D)
            layer.self_attn._set_skip_embed_dim_check()  # or it hands all to torch, and returns no scores
            scores, values = layer.self_attn(x, x, x, before_softmax=True)
            found.attention_scores[number] = scores.unflatten(0, (-1, small.ATTENTION_HEADS))
            found.values[number] = values.unflatten(0, (-1, small.ATTENTION_HEADS))
    return found


def ask(model: Any, want: Want = EVERYTHING, **encoding: Tensor) -> Outputs:
    with torch.no_grad():
        predicted = positions(small.targets() != -100)
        return emit(model, {**small.ragged(), **encoding}, want, predicted=predicted)


def check(found: Outputs, reference: Outputs) -> None:
    small.same(found.sentence, reference.sentence)
    assert found.hidden_states.keys() == reference.hidden_states.keys() == ALL | {0}
    for layer in ALL | {0}:
        small.same(
            small.tokens_of(found.hidden_states[layer]),
            small.tokens_of(reference.hidden_states[layer]),
        )
    for layer in ALL:
        scores = (small.tokens_of(o.attention_scores[layer], scores=True) for o in (found, reference))
        small.same(*scores)
        small.same(small.tokens_of(found.values[layer]), small.tokens_of(reference.values[layer]))


def stored(style: str) -> dict[str, Any]:
    """Arguments of `small.save` for each way in which fairseq has written checkpoints."""
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf
    from omegaconf import OmegaConf

    composed = convert_namespace_to_omegaconf(Namespace(**small.ARGUMENTS))
    plain = OmegaConf.to_container(composed, resolve=True, enum_to_str=True)
    return {
        "args": {},
        "args, legacy": {"zipped": False},
        "args, old names": {"state": small.old_names(small.weights())},
        "dictionary": {"recorded": {"args": None, "cfg": plain}},
        "dictionary, legacy": {"recorded": {"args": None, "cfg": plain}, "zipped": False},
        "omegaconf": {"recorded": {"args": None, "cfg": composed}},
        "omegaconf, legacy": {"recorded": {"args": None, "cfg": composed}, "zipped": False},
        "omegaconf alone": {"recorded": {"cfg": OmegaConf.create({"model": dict(small.ARGUMENTS)})}},
        "half precision": {"state": {name: tensor.half() for name, tensor in small.weights().items()}},
    }[style]


STYLES = ("args", "args, legacy", "args, old names", "dictionary", "dictionary, legacy")
STYLES += ("omegaconf", "omegaconf, legacy", "omegaconf alone")


class TestSignals:
    @pytest.mark.parametrize("style", STYLES)
    def test_through_the_teacher(self, style: str, reference: Outputs, tmp_path: Path) -> None:
        teacher = FairseqTeacher(str(small.save(tmp_path, **stored(style))))
        model = teacher.masked_language_model().eval()
        check(ask(model), reference)
        small.same(ask(model, Want(mlm_logits=True)).mlm_logits, reference.mlm_logits)

    @pytest.mark.parametrize("style", ["args, old names", "omegaconf"])  # of what is read it is the same
    def test_after_conversion(self, style: str, reference: Outputs, tmp_path: Path) -> None:
        FairseqTeacher(str(small.save(tmp_path, **stored(style)))).convert(tmp_path / "converted")
        check(ask(HuggingFaceTeacher(str(tmp_path / "converted")).model(RTE, None).eval()), reference)
        model = AutoModelForMaskedLM.from_pretrained(tmp_path / "converted", attn_implementation="eager").eval()
        with torch.no_grad():
            found = model(**small.ragged(), output_hidden_states=True, output_attentions=True)
        small.same(found.logits[small.targets() != -100], reference.mlm_logits)
        for layer, states in enumerate(found.hidden_states):
            small.same(small.tokens_of(states), small.tokens_of(reference.hidden_states[layer]))
        padding = small.ragged()["attention_mask"][:, None, None] == 0
        for layer, attention in enumerate(found.attentions, start=1):
            own = reference.attention_scores[layer].masked_fill(padding, -torch.inf).softmax(-1)
            small.same(small.tokens_of(attention, scores=True), small.tokens_of(own, scores=True))


def test_half_precision_is_computed_in_single(folder: Path, tmp_path: Path) -> None:
    model = FairseqTeacher(str(small.save(tmp_path, **stored("half precision")))).model(TWO, None)
    assert model.encoder.layers[0].fc1.weight.dtype == torch.float32
    expected = small.weights()["encoder.sentence_encoder.layers.0.fc1.weight"].half().float()
    assert torch.equal(model.encoder.layers[0].fc1.weight, expected)


def test_asking_for_more_changes_nothing(folder: Path) -> None:
    model = FairseqTeacher(str(folder)).model(TWO, None).eval()
    alone, among = ask(model, Want(logits=True)), ask(model, EVERYTHING | Want(logits=True))
    assert torch.equal(alone.logits, among.logits)
    assert alone.hidden_states == alone.attention_scores == alone.values == {} and alone.sentence is None
    assert ask(model, Want(values=frozenset({2}))).values.keys() == {2}
    with pytest.raises(UserError, match="layers are 1 to 3"):
        ask(model, Want(values=frozenset({4})))


def test_the_mask_says_what_padding_is(folder: Path, reference: Outputs) -> None:
    """Whatever stands at masked positions."""
    batch = small.ragged()
    filled = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, 99)
    check(ask(FairseqTeacher(str(folder)).masked_language_model().eval(), input_ids=filled), reference)


def test_signals_in_training_are_those_of_the_pass(folder: Path) -> None:
    """With dropout, scores and values of layer 2 are those of the states that layer 1 gave, and carry gradients."""
    model = FairseqTeacher(str(folder)).model(TWO, None).train()
    torch.manual_seed(0)
    found = emit(model, small.ragged(), EVERYTHING | Want(logits=True))
    again = emit(model, small.ragged(), EVERYTHING)
    assert not torch.allclose(found.hidden_states[1], again.hidden_states[1])
    weights = small.weights()

    def projected(name: str) -> Tensor:
        prefix = f"encoder.sentence_encoder.layers.1.self_attn.{name}_proj"
        flat = found.hidden_states[1] @ weights[f"{prefix}.weight"].T + weights[f"{prefix}.bias"]
        return flat.reshape(*flat.shape[:2], 4, 8).permute(0, 2, 1, 3)

    for signal in ("queries", "keys", "values"):
        small.same(getattr(found, signal)[2], projected(signal[0]))
    assert torch.equal(found.embeddings, found.hidden_states[0])
    small.same(found.attention_scores[2], projected("q") @ projected("k").mT / math.sqrt(8))
    found.attention_scores[2].sum().backward()
    assert model.encoder.layers[1].self_attn.q_proj.weight.grad is not None
    assert model.encoder.layers[0].fc1.weight.grad is not None


class TestHeads:
    def answering(self, folder: Path, head: str, task: Task, labels: tuple[str, ...] = (), **recorded: Any) -> Path:
        arguments = {"args": Namespace(**small.arguments(**recorded))}
        return small.save(folder, arguments, small.weights({head: task.outputs, "other": 5}), labels)

    def fairseq_logits(self, folder: Path, head: str) -> Tensor:
        with torch.no_grad():
            logits: Tensor = by_fairseq(folder).model(small.ragged()["input_ids"], classification_head_name=head)[0]
        return logits

    @pytest.mark.parametrize(
        ("labels", "head", "recorded"),
        [
            (("contradiction", "neutral", "entailment"), "mnli", {}),
            (("neutral", "contradiction", "entailment"), "sentence_classification_head", {"data": "/data/MNLI-bin"}),
            (("contradiction", "entailment", "neutral"), "MNLI", {"data": "/data/RTE-bin:/more"}),
        ],
    )
    def test_outputs_are_in_the_order_of_the_task(
        self, labels: tuple[str, ...], head: str, recorded: Mapping[str, str], tmp_path: Path
    ) -> None:
        folder = self.answering(tmp_path, head, MNLI, labels, **recorded)
        theirs = self.fairseq_logits(folder, head)
        expected = torch.stack([theirs[:, labels.index(label)] for label in MNLI.labels], dim=1)
        teacher = FairseqTeacher(str(folder))
        assert teacher.answers(MNLI) and not teacher.answers(RTE)
        small.same(ask(teacher.model(MNLI, None).eval(), Want(logits=True)).logits, expected)
        teacher.convert(tmp_path / "converted")
        converted = HuggingFaceTeacher(str(tmp_path / "converted"))
        assert converted.answers(MNLI) and not converted.answers(RTE)
        small.same(ask(converted.model(MNLI, None).eval(), Want(logits=True)).logits, expected)
        own = AutoModelForSequenceClassification.from_pretrained(tmp_path / "converted").eval()
        with torch.no_grad():
            small.same(own(**small.ragged()).logits, expected)
        assert own.config.id2label == dict(enumerate(MNLI.labels))

    def test_scores_are_on_the_tasks_scale(self, tmp_path: Path) -> None:
        """fairseq trains STS-B on scores from 0 to 1, the task's go from 0 to 5."""
        folder = self.answering(tmp_path, "sentence_classification_head", STSB, data="/data/STS-B-bin/")
        expected = 5 * self.fairseq_logits(folder, "sentence_classification_head")
        teacher = FairseqTeacher(str(folder))
        assert teacher.answers(STSB) and not teacher.answers(get_task("similarity"))
        small.same(ask(teacher.model(STSB, None).eval(), Want(logits=True)).logits, expected)
        teacher.convert(tmp_path / "converted")
        converted = HuggingFaceTeacher(str(tmp_path / "converted"))
        assert converted.answers(STSB)
        small.same(ask(converted.model(STSB, None).eval(), Want(logits=True)).logits, expected)

    def test_a_fresh_head_is_drawn_from_the_seed_as_fairseq_draws_it(self, folder: Path) -> None:
        teacher, heads = FairseqTeacher(str(folder)), []
        for seed in (1, 1, 2):
            torch.manual_seed(seed)
            heads.append(teacher.model(THREE, None).classification_head)
        first, same, other = (head.out_proj.weight for head in heads)
        assert first.shape == (3, small.WIDTH) and torch.equal(first, same) and not torch.equal(first, other)
        # A linear layer's own initialisation: uniform within 1 / sqrt(width), biases too.
        for part in (heads[0].dense.weight, heads[0].dense.bias):
            assert 0.5 * 32**-0.5 < part.abs().max() <= 32**-0.5

    def test_a_checkpoint_without_masked_head_gets_a_fresh_one(self, tmp_path: Path) -> None:
        state = {name: tensor for name, tensor in small.weights().items() if "lm_head" not in name}
        teacher = FairseqTeacher(str(small.save(tmp_path, state=state)))
        assert not teacher.predicts_masked()
        model = teacher.masked_language_model()
        assert torch.equal(model.lm_head.weight, state["encoder.sentence_encoder.embed_tokens.weight"])
        with torch.no_grad():
            model.lm_head.dense.weight.mul_(2)
        save(model, tmp_path / "trained")
        again = teacher.masked_language_model(tmp_path / "trained")
        assert again.state_dict().keys() == model.state_dict().keys()
        assert all(torch.equal(tensor, again.state_dict()[name]) for name, tensor in model.state_dict().items())


class TestSavedHere:
    def test_a_fine_tuned_teacher_is_read_back(self, folder: Path, tmp_path: Path) -> None:
        teacher = FairseqTeacher(str(folder))
        model = teacher.model(TWO, None).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.01 * torch.randn_like(parameter))
        save(model, tmp_path / "weights")
        assert (tmp_path / "weights" / "model.safetensors").is_file()
        again = teacher.model(TWO, tmp_path / "weights").eval()
        assert torch.equal(ask(again, Want(logits=True)).logits, ask(model, Want(logits=True)).logits)
        with pytest.raises(UserError, match=r"out_proj.* has shape \(2.*\(3"):
            teacher.model(THREE, tmp_path / "weights")

    def test_a_truncated_file(self, folder: Path, tmp_path: Path) -> None:
        teacher = FairseqTeacher(str(folder))
        save(teacher.model(TWO, None), tmp_path / "weights")
        file = tmp_path / "weights" / "model.safetensors"
        file.write_bytes(file.read_bytes()[:-9])
        with pytest.raises(UserError, match="not a complete safetensors file"):
            teacher.model(TWO, tmp_path / "weights")

    def test_one_encoder_under_several_heads(self, folder: Path, tmp_path: Path) -> None:
        """Trained jointly and read back: the encoder is shared, each task has its own head."""
        teacher = FairseqTeacher(str(folder))
        joint = Joint((task.name, Encoder(teacher.model(task, None))) for task in (RTE, MNLI))
        networks = [joint.network(name) for name in ("rte", "mnli")]
        assert networks[0].encoder.layers[1].fc1.weight is networks[1].encoder.layers[1].fc1.weight
        with torch.no_grad():
            networks[0].encoder.layers[1].fc1.weight.mul_(1.1)
        save_joint(joint.eval(), tmp_path / "joint")
        for task, network in zip((RTE, MNLI), networks, strict=True):
            expected = ask(network, Want(logits=True)).logits
            assert expected.shape == (3, task.outputs)
            again = load_joint_teacher(teacher, task, tmp_path / "joint").eval()
            assert torch.equal(ask(again, Want(logits=True)).logits, expected)

    def test_weights_of_another_kind(self, folder: Path, tmp_path: Path) -> None:
        from tests.small_models import checkpoint

        with pytest.raises(UserError, match="lack encoder.embed_positions.weight"):
            FairseqTeacher(str(folder)).model(TWO, checkpoint(tmp_path, "roberta"))


@pytest.mark.parametrize(("init", "layers"), [("every", (2, 3)), ("3,1", (3, 1))])
def test_students_start_from_its_layers(init: str, layers: tuple[int, ...], folder: Path) -> None:
    """They hold its weights under transformers' names, and compute with them what it computes."""
    teacher = FairseqTeacher(str(folder))
    model = teacher.model(TWO, None).eval()
    config = StudentConfig(student="transformer", settings={"layers": 2}, source=teacher.configuration(), outputs=2)
    student = STUDENTS.get("transformer")(config).eval()
    before = torch.random.get_rng_state()
    student.initialise(init, lambda: model, teacher.tokenizer())
    assert torch.equal(torch.random.get_rng_state(), before)
    found, held = student.state_dict(), small.weights()
    prefix = "model.roberta."
    for ours, theirs in (("query", "q_proj"), ("key", "k_proj"), ("value", "v_proj")):
        for place, layer in enumerate(layers):
            expected = held[f"encoder.sentence_encoder.layers.{layer - 1}.self_attn.{theirs}.weight"]
            assert torch.equal(found[f"{prefix}encoder.layer.{place}.attention.self.{ours}.weight"], expected)
    embedded, theirs = (ask(part, Want(hidden_states=frozenset({0}))) for part in (student.model, model))
    small.same(small.tokens_of(embedded.hidden_states[0]), small.tokens_of(theirs.hidden_states[0]))
    with torch.no_grad():
        one = student.model.roberta.encoder.layer[1](theirs.hidden_states[0][:1])
        own = model.encoder.layers[layers[1] - 1](theirs.hidden_states[0][:1].transpose(0, 1), None).transpose(0, 1)
    small.same(one[0] if isinstance(one, tuple) else one, own)
