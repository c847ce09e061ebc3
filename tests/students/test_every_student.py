"""What every student must hold to, tested for whatever is registered: a new plugin needs no line here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForMaskedLM, AutoModelForSequenceClassification

from harness import combine, pairing
from harness.contracts import IGNORED, LAYER_SIGNALS, Batch, ModelInfo, Outputs, Signal, Task, Want
from harness.data.tasks import CORPUS
from harness.errors import UserError
from harness.modeling.bases import Student, StudentConfig
from harness.registry import OBJECTIVES, STUDENTS
from harness.runs.settings import TRAINING
from harness.teaching.outputs import Encoder
from harness.training.optimisation import Optimisation
from harness.training.sums import Sum
from tests.modeling.small_models import small_config, small_model

SINGLE = Task("single", "Single", "accuracy", ("accuracy",), labels=("x", "y", "z"))
PAIR = Task("pair", "Pair", "accuracy", ("accuracy",), labels=("x", "y"), pair=True)
SCORES = Task("scores", "Scores", "pearson", ("pearson",), pair=True)
VOCABULARY = 40
LENGTHS = ((9, 5, 7, 3, 8, 6), (4, 8, 3, 6, 5, 7))  # tokens of the first sentences and of the second
SETTINGS: dict[str, Any] = {name: h.default for name, h in TRAINING.items()} | {
    "learning_rate": 0.01,
    "warmup_ratio": 0.0,
}


@dataclass(frozen=True)
class Case:
    """A student on a task; `choices` are settings other than the defaults. Whole numbers, which are sizes, are 4."""

    name: str
    task: Task
    choices: tuple[tuple[str, Any], ...] = ()

    @property
    def plugin(self) -> type[Student]:
        return STUDENTS.get(self.name)

    @property
    def settings(self) -> dict[str, Any]:
        declared = self.plugin.hyperparameters
        small = {name: 4 if type(h.default) is int else h.default for name, h in declared.items()}
        return small | dict(self.choices)

    def describe(self, teacher_width: int = 32) -> ModelInfo:
        return self.plugin.describe(self.settings, self.teacher_info(teacher_width), self.task)

    def teacher_info(self, width: int = 32) -> ModelInfo:
        return ModelInfo("teacher", 4, width, 4, VOCABULARY, self.task.outputs, frozenset(Signal), "the teacher's")

    def build(self, seed: int = 0, teacher_width: int = 32) -> Student:
        """With its random start, as the engine makes it."""
        head = AutoModelForMaskedLM if self.task.corpus else AutoModelForSequenceClassification
        teacher = small_model("bert", head=head, width=teacher_width)
        torch.manual_seed(seed)
        own = 0 if self.describe().vocabulary else VOCABULARY  # one made of the training texts, of the same size
        shape = self.task.outputs, self.task.pair, own
        student = self.plugin(StudentConfig(self.name, self.settings, teacher.config.to_dict(), *shape))
        tokenizer: Any = None  # a random start takes nothing from it
        student.initialise("random", lambda: teacher, tokenizer)
        return student

    def batch(self, apart: bool | None = None, padding: int = 0) -> Batch:
        """Six examples as the student reads them, with `padding` positions more, of which anything may be in the ids.

        apart: a pair as two sequences; that of the student itself unless given.
        """
        apart = self.describe().pair_encoding != "joint" if apart is None else apart
        encodings = [_encoding(lengths, padding, seed) for seed, lengths in enumerate(LENGTHS[: 2 if apart else 1])]
        labels = torch.arange(6) % max(self.task.outputs, 2) if self.task.classification else torch.linspace(0, 5, 6)
        targets = None
        if self.task.corpus:
            chosen = encodings[0]["attention_mask"].bool() & (torch.arange(len(encodings[0]["input_ids"][0])) % 3 == 1)
            targets = torch.where(chosen, encodings[0]["input_ids"], IGNORED)
        return Batch(torch.arange(6), labels, tuple(encodings), targets)

    def everything(self) -> Want:
        """All that the student emits on the task."""
        described, batch = self.describe(), self.batch()
        signals = described.emits - {Signal.LOGITS if self.task.corpus else Signal.MLM_LOGITS}
        if len(batch.encodings) > 1:  # of a pair there is no sequence of states; its sentences have their own test
            signals = frozenset({Signal.LOGITS})
        want = Want.of(signals, range(1, described.layers + 1))
        return replace(want, hidden_states=want.hidden_states | {0}) if want.hidden_states else want


def _encoding(lengths: tuple[int, ...], padding: int, seed: int) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shape = len(lengths), max(lengths)
    mask = (torch.arange(shape[1]) < torch.tensor(lengths)[:, None]).long()
    ids = torch.randint(5, VOCABULARY, shape, generator=generator) * mask
    if padding:
        mask = torch.cat([mask, torch.zeros(shape[0], padding, dtype=torch.long)], 1)
        ids = torch.cat([ids, torch.randint(VOCABULARY, (shape[0], padding), generator=generator)], 1)
        ids = torch.where(mask.bool(), ids, torch.randint(VOCABULARY, ids.shape, generator=generator))
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": torch.zeros_like(ids)}


def cases(name: str) -> list[Case]:
    """On every task with the defaults, and with every other choice of each setting that has choices."""
    found = [Case(name, task) for task in (SINGLE, PAIR, SCORES, CORPUS)]
    for setting, declared in STUDENTS.get(name).hyperparameters.items():
        others = [choice for choice in declared.choices if choice != declared.default]
        tasks = (PAIR, SCORES) if setting == "pair_encoding" else (SINGLE, PAIR)
        found += [Case(name, task, ((setting, choice),)) for choice in others for task in tasks]
    return found


def named(case: Case) -> str:
    return "-".join([case.name, case.task.name, *(str(value) for _, value in case.choices)])


def possible(case: Case) -> bool:
    try:
        case.describe()
    except UserError:
        return False
    return True


NAMES = STUDENTS.names()
ALL = [case for name in NAMES for case in cases(name)]
CASES = [case for case in ALL if possible(case)]
each_case = pytest.mark.parametrize("case", CASES, ids=named)
PLAIN = [case for case in CASES if not case.choices or case.choices[0][0] == "pair_encoding"]


def signals_of(outputs: Outputs, batch: Batch) -> dict[tuple[str, int], Tensor]:
    """Every tensor of the outputs by (signal, layer), cut to the length of the unpadded batch, padding zeroed."""
    length = max(LENGTHS[0])
    mask = batch.mask[:, :length]
    found: dict[tuple[str, int], Tensor] = {}
    for name, value in vars(outputs).items():
        if value is None:
            continue
        for layer, tensor in value.items() if isinstance(value, dict) else [(-1, value)]:
            if name == "hidden_states":
                tensor = tensor[:, :length] * mask[..., None]
            elif name == "values":
                tensor = tensor[:, :, :length] * mask[:, None, :, None]
            elif name == "attention_scores":
                tensor = tensor[:, :, :length, :length] * (mask[:, None, :, None] & mask[:, None, None, :])
            found[name, layer] = tensor
    return found


@pytest.mark.parametrize("name", NAMES)
def test_an_impossible_choice_is_refused_with_a_sentence(name: str) -> None:
    for case in ALL:
        if case.name == name and not possible(case):
            with pytest.raises(UserError, match=r"\w+ \w+ \w+"):
                case.describe()
            with pytest.raises(UserError, match=r"\w+ \w+ \w+"):
                case.build()
    assert any(case.name == name and not case.choices for case in CASES)


@each_case
def test_it_is_what_it_describes(case: Case) -> None:
    described, batch, want = case.describe(), case.batch(), case.everything()
    assert described.name == case.name and described.labels == case.task.outputs
    assert described.vocabulary in (0, VOCABULARY) and described.emits == case.plugin.emits
    assert (described.tokenizer == "the teacher's") == (described.vocabulary == VOCABULARY)
    assert described.pair_encoding in (case.plugin.pair_encodings if case.task.pair else ("joint",))
    outputs = case.build().eval()(batch, want)
    size, length = batch.mask.shape
    assert {name for name, value in vars(outputs).items() if value is not None and value != {}} == {
        signal for signal, _ in want.parts()
    }
    if want.logits:
        assert outputs.logits.shape == (size, described.labels)
    if want.mlm_logits:
        assert batch.targets is not None
        assert outputs.mlm_logits.shape == ((batch.targets != IGNORED).sum(), described.vocabulary)
    if want.sentence:
        assert outputs.sentence.shape == (size, described.sentence_width or described.width)
    heads = described.heads
    for layer, states in outputs.hidden_states.items():
        assert states.shape == (size, length, described.width), layer
    for layer, scores in outputs.attention_scores.items():
        assert scores.shape == (size, heads, length, length), layer
    for layer, values in outputs.values.items():
        assert values.shape == (size, heads, length, described.width // heads), layer


def read_apart(case: Case) -> bool:
    return case.describe().pair_encoding != "joint"


@pytest.mark.parametrize("case", [c for c in CASES if read_apart(c)], ids=named)
def test_of_a_pair_read_apart_it_has_two_sentences_or_says_it_has_none(case: Case) -> None:
    described, student, want = case.describe(), case.build().eval(), Want(sentence=True)
    try:
        sentences = student(case.batch(), want).sentence
    except UserError as error:
        assert len(str(error).split()) > 5 and "\n" not in str(error)
        return
    assert sentences.shape == (6, 2, described.sentence_width or described.width)
    swapped = replace(case.batch(), encodings=case.batch(padding=4).encodings[::-1])
    assert torch.allclose(student(swapped, want).sentence, sentences.flip(1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("case", [c for c in PLAIN if read_apart(c)], ids=named)
def test_one_sequence_where_two_are_read_is_refused_with_a_sentence(case: Case) -> None:
    with pytest.raises(UserError, match=r"\w+ \w+ \w+"):
        case.build()(case.batch(apart=False), Want(logits=True))


@pytest.mark.parametrize("case", [c for c in PLAIN if c.task in (SINGLE, CORPUS)], ids=named)
def test_a_layer_it_has_not_is_refused_with_a_sentence(case: Case) -> None:
    described, student = case.describe(), case.build()
    for signal in LAYER_SIGNALS & described.emits:
        with pytest.raises(UserError, match=rf"{described.layers + 1}"):
            student(case.batch(), Want.of(frozenset({signal}), [described.layers + 1]))


@pytest.mark.parametrize("name", NAMES)
def test_what_the_first_token_sees(name: str) -> None:
    """`first_token_sees_all`: whether its last state changes with the last word."""
    case = Case(name, SINGLE)
    described, student, batch = case.describe(), case.build().eval(), case.batch()
    if Signal.HIDDEN_STATES not in described.emits:
        pytest.skip(f"{name} has no states")
    last, want = described.layers, Want(hidden_states=frozenset({described.layers}))
    ids = batch.encodings[0]["input_ids"].clone()
    ids[0, LENGTHS[0][0] - 1] = ids[0, LENGTHS[0][0] - 1] % (VOCABULARY - 5) + 5  # another ordinary word
    other = replace(batch, encodings=({**batch.encodings[0], "input_ids": ids},))
    before, after = (student(b, want).hidden_states[last][0, 0] for b in (batch, other))
    assert torch.equal(before, after) != described.first_token_sees_all


@each_case
def test_padding_changes_nothing(case: Case) -> None:
    student, want = case.build().eval(), case.everything()
    batch, longer = case.batch(), case.batch(padding=4)
    expected = signals_of(student(batch, want), batch)
    found = signals_of(student(longer, want), batch)
    assert expected.keys() == found.keys()
    for key, tensor in expected.items():
        assert torch.allclose(found[key], tensor, rtol=1e-4, atol=1e-5), key


@each_case
def test_it_goes_through_a_file(case: Case, tmp_path: Path) -> None:
    student, want, batch = case.build().eval(), case.everything(), case.batch()
    student.save_pretrained(tmp_path)
    again = case.plugin.from_pretrained(tmp_path).eval()
    weights = again.state_dict()
    assert weights.keys() == student.state_dict().keys()
    assert all(torch.equal(tensor, weights[name]) for name, tensor in student.state_dict().items())
    found = signals_of(again(batch, want), batch)
    assert all(torch.equal(tensor, found[key]) for key, tensor in signals_of(student(batch, want), batch).items())


@pytest.mark.parametrize("case", PLAIN, ids=named)
def test_the_seed_alone_decides_a_random_start(case: Case) -> None:
    first, same, other = (case.build(seed).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(tensor, same[name]) for name, tensor in first.items())
    matrices = [name for name, tensor in first.items() if tensor.ndim > 1]
    assert matrices and not any(torch.equal(first[name], other[name]) for name in matrices)
    assert all(tensor.isfinite().all() for tensor in first.values())


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_start_is_refused_with_near_names(name: str) -> None:
    plugin = STUDENTS.get(name)
    assert plugin.canonical_init(" random ") == "random"
    with pytest.raises(UserError, match="random"):
        plugin.canonical_init("randm")


@pytest.mark.parametrize("objective", OBJECTIVES.names())
@pytest.mark.parametrize("case", PLAIN, ids=named)
def test_one_step_with_every_objective_or_a_sentence(case: Case, objective: str) -> None:
    """From a teacher of another width, and from one as wide as the student's sentence vector."""
    described = case.describe()
    width = described.sentence_width or described.width
    heads = small_config("bert").num_attention_heads
    for teacher_width in {32, width if width % heads == 0 else 32}:
        described, teacher = case.describe(teacher_width), case.teacher_info(teacher_width)
        # An intermediate objective trains alone on a corpus and in the first of two stages.
        procedure = "general" if case.task.corpus else "two_stage"
        reason = pairing.refusal(objective, procedure, described, teacher, case.task)
        if reason:
            assert objective in reason and len(reason.split()) > 5 and "\n" not in reason
        else:
            _step(case, objective, described, teacher)


def _step(case: Case, objective: str, described: ModelInfo, teacher: ModelInfo) -> None:
    student = case.build(teacher_width=teacher.width).train()
    layers = case.plugin.layer_map("random", described, teacher)
    loss_of = Sum(combine.parse(objective), described, teacher, layers, {})
    batch = case.batch()
    if not case.task.corpus:
        loss_of.prepare(batch.labels, len(batch.labels))
    head = AutoModelForMaskedLM if case.task.corpus else AutoModelForSequenceClassification
    imitated = Encoder(small_model("bert", seed=1, head=head, width=teacher.width, labels=case.task.outputs or 2))
    ours, theirs = loss_of.wants()
    with torch.no_grad():
        said = imitated.eval()(case.batch(apart=False), theirs)
    before = {name: tensor.clone() for name, tensor in student.state_dict().items()}
    loss, terms = loss_of(student(batch, ours), said, batch)
    Optimisation(student, loss_of, SETTINGS, 10).step(loss)
    after = student.state_dict()
    assert loss.isfinite() and terms.keys() == {objective}
    body = student.state_dict().keys() - student.head_weights()
    assert any(not torch.equal(after[name], before[name]) for name in body), "nothing but the head was trained"
    assert all(tensor.isfinite().all() for tensor in after.values())
