"""The matrix-embedding students: what they compute, against loops in float64, and how they plug in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from harness.contracts import Batch, ModelInfo, Signal, Task, Want
from harness.errors import UserError
from harness.modeling.bases import StudentConfig
from harness.registry import STUDENTS
from harness.students.matrix import MatrixStudent
from tests.small_models import THREE, TWO

NAMES = ("cbow", "cmow", "hybrid", "bidirectional_hybrid")
WITH_PRODUCTS = NAMES[1:]
PAD = 1
SOURCE = {"vocab_size": 30, "pad_token_id": PAD}
TEACHER = ModelInfo("t", 4, 32, 4, 30, 3, frozenset(Signal), "fingerprint")
CORPUS = Task("text", "Text", "perplexity", ("perplexity",), corpus=True)
PUBLISHED = Path(__file__).parents[2] / "reports" / "papers" / "published"
STATES = Want(hidden_states=frozenset({0, 1}))
FORMS = ("sequential", "logarithmic")


def sizes(name: str, vector: int = 9, side: int = 3) -> dict[str, Any]:
    both = {"vector_size": vector, "matrix_size": side}
    return {key: value for key, value in both.items() if key in STUDENTS.get(name).hyperparameters}


def build(name: str, outputs: int = 3, noise: float = 0.3, seed: int = 0, **settings: Any) -> MatrixStudent:
    """A small student in evaluation mode, its words farther from neutral than they start."""
    torch.manual_seed(seed)
    student = STUDENTS.get(name)(StudentConfig(name, sizes(name) | settings, dict(SOURCE), outputs)).eval()
    with torch.no_grad():
        for table in student.embedding.tables():
            row = table.weight[PAD].clone()
            table.weight.add_(noise * torch.randn_like(table.weight))
            table.weight[PAD] = row
    return student


def encoding(
    lengths: tuple[int, ...] = (7, 4, 1), seed: int = 0, width: int = 0, padding: int = PAD
) -> dict[str, Tensor]:
    length = max(width, *lengths)
    mask = torch.arange(length) < torch.tensor(lengths).unsqueeze(1)
    ids = torch.randint(2, 30, (len(lengths), max(lengths)), generator=torch.Generator().manual_seed(seed))
    ids = nn.functional.pad(ids, (0, length - max(lengths)))
    return {"input_ids": torch.where(mask, ids, padding), "attention_mask": mask.long()}


def batch(*encodings: dict[str, Tensor]) -> Batch:
    return Batch(torch.arange(3), torch.zeros(3, dtype=torch.long), encodings or (encoding(),))


def pair() -> Batch:
    return batch(encoding(), encoding((2, 5, 3), seed=1))


class TestContract:
    @pytest.mark.parametrize("name", NAMES)
    def test_what_it_describes(self, name: str) -> None:
        plugin = STUDENTS.get(name)
        described = plugin.describe(sizes(name), TEACHER, THREE)
        widths = {"cbow": (9, 9), "cmow": (9, 9), "hybrid": (18, 18), "bidirectional_hybrid": (36, 27)}[name]
        assert (described.width, described.sentence_width) == widths
        assert (described.layers, described.heads, described.vocabulary, described.labels) == (1, 0, 30, 3)
        assert described.first_token_sees_all is (name == "bidirectional_hybrid")
        of_tokens = {Signal.EMBEDDINGS, Signal.HIDDEN_STATES, Signal.MLM_LOGITS}
        assert described.emits == {Signal.LOGITS, Signal.SENTENCE} | of_tokens
        assert (described.tokenizer, described.pair_encoding) == ("fingerprint", "joint")

    @pytest.mark.parametrize("name", NAMES)
    def test_the_pair_encoding_counts_for_pairs_alone(self, name: str) -> None:
        plugin, settings = STUDENTS.get(name), {"pair_encoding": "diffcat"}
        assert plugin.describe(settings, TEACHER, THREE).pair_encoding == "diffcat"
        assert plugin.describe(settings, TEACHER, TWO).pair_encoding == "joint"
        assert plugin.describe(settings, TEACHER, CORPUS).labels == 0

    def test_published_sizes_are_the_defaults(self) -> None:
        described = {name: STUDENTS.get(name).describe({}, TEACHER, TWO) for name in NAMES}
        assert {name: (d.width, d.sentence_width) for name, d in described.items()} == {
            "cbow": (784, 784),
            "cmow": (784, 784),
            "hybrid": (800, 800),
            "bidirectional_hybrid": (1600, 1200),
        }

    @pytest.mark.parametrize("name", NAMES)
    def test_initialisations(self, name: str) -> None:
        plugin = STUDENTS.get(name)
        assert plugin.canonical_init(" random ") == "random"
        assert plugin.canonical_init("vectors:~/My File.txt") == "vectors:~/My File.txt"
        student = plugin.describe({}, TEACHER, TWO)
        assert plugin.layer_map("random", student, TEACHER).pairs == ((1, 4),)
        for wrong in ("every", "vectors", "vectors:", "random:embeddings"):
            with pytest.raises(UserError, match="vectors:FILE"):
                plugin.canonical_init(wrong)
            with pytest.raises(UserError, match="vectors:FILE"):
                plugin.layer_map(wrong, student, TEACHER)

    @pytest.mark.parametrize(
        ("name", "settings"),
        [
            ("hybrid", {"head": "cnn", "vector_size": 8}),
            ("cbow", {"head": "cnn", "vector_size": 10}),
            ("hybrid", {"matrix_size": 0}),
            ("cmow", {"embedding_dropout": 1.0}),
            ("cmow", {"head": "conv"}),
        ],
    )
    def test_wrong_settings(self, name: str, settings: dict[str, Any]) -> None:
        with pytest.raises(UserError):
            STUDENTS.get(name).describe(sizes(name) | settings, TEACHER, TWO)
        with pytest.raises(UserError):
            build(name, **settings)

    @pytest.mark.parametrize("name", NAMES)
    def test_what_it_cannot_emit(self, name: str) -> None:
        with pytest.raises(UserError, match="not of 2"):
            build(name)(batch(), Want(hidden_states=frozenset({1, 2})))
        apart = build(name, pair_encoding="diffcat")
        for want in (Want(sentence=True), STATES):
            with pytest.raises(UserError, match="apart"):
                apart(pair(), want)
        with pytest.raises(UserError, match="diffcat was given 1"):
            apart(batch(), Want(logits=True))

    def test_a_teacher_without_padding(self) -> None:
        for source in ({"vocab_size": 30}, {"vocab_size": 30, "pad_token_id": None}):
            with pytest.raises(UserError, match="pad_token_id"):
                STUDENTS.get("cmow")(StudentConfig("cmow", {}, source, 2))


class TestValues:
    """Against loops over single tokens in float64."""

    def words(self, student: MatrixStudent, ids: list[int]) -> tuple[list[Tensor], list[list[Tensor]]]:
        """(vectors, for each direction matrices) of the tokens."""
        embedding = student.embedding
        vectors = [] if embedding.vectors is None else [embedding.vectors.weight[i].detach().double() for i in ids]
        tables = embedding.tables()[embedding.vectors is not None :]
        return vectors, [[t.weight[i].detach().double().view(3, 3) for i in ids] for t in tables]

    def product(self, matrices: list[Tensor]) -> Tensor:
        result = torch.eye(3, dtype=torch.float64)
        for matrix in matrices:
            result = result @ matrix
        return result.flatten()

    @pytest.mark.parametrize("name", NAMES)
    @pytest.mark.parametrize("form", FORMS)
    @pytest.mark.parametrize("gradients", [True, False])
    def test_sentences_and_states(self, name: str, form: str, gradients: bool) -> None:
        student = build(name, **({"product": form} if name != "cbow" else {}))
        read = batch()
        with torch.set_grad_enabled(gradients):
            got = student(read, STATES)
            pooled = student(read, Want(sentence=True)).sentence
            with_states = student(read, STATES | Want(sentence=True)).sentence
        assert torch.allclose(pooled, with_states, atol=1e-6)
        for row, length in enumerate((7, 4, 1)):
            ids = read.encodings[0]["input_ids"][row, :length].tolist()
            vectors, matrices = self.words(student, ids)
            zero = torch.zeros(0, dtype=torch.float64)
            sentence = [sum(vectors)] if vectors else []
            sentence += [self.product(m[::-1] if direction else m) for direction, m in enumerate(matrices)]
            assert torch.allclose(pooled[row].double(), torch.cat([zero, *sentence]), atol=1e-5)
            for place in range(length):
                up, down = slice(place + 1), slice(place, None)
                state, alone = [], []
                for direction in range(max(1, len(matrices))):
                    part = down if direction else up
                    for words, total in ((vectors, sum), *((m, self.product) for m in matrices[direction:][:1])):
                        if words:
                            state.append(total(words[part][:: -1 if direction else 1]))
                            alone.append(words[place].flatten())
                assert torch.allclose(got.hidden_states[1][row, place].double(), torch.cat(state), atol=1e-5)
                assert torch.allclose(got.hidden_states[0][row, place].double(), torch.cat(alone), atol=1e-6)

    @pytest.mark.parametrize("name", NAMES)
    def test_the_order_of_words(self, name: str) -> None:
        """CBOW is blind to it, a product is not."""
        student, read = build(name), batch(encoding((6, 6, 6)))
        turned = batch({key: tensor.flip(1) for key, tensor in read.encodings[0].items()})
        one, other = (student(b, Want(sentence=True)).sentence for b in (read, turned))
        assert torch.allclose(one, other, atol=1e-6) is (name == "cbow")


class TestPadding:
    @pytest.mark.parametrize("name", NAMES)
    @pytest.mark.parametrize("gradients", [True, False])
    @pytest.mark.parametrize("form", FORMS)
    def test_it_changes_no_bit(self, name: str, gradients: bool, form: str) -> None:
        """And the mask tells what is padding, whatever stands there.

        The logarithmic form pairs other tokens where it reads backwards, or takes the sentence from the last prefix.
        """
        student = build(name, **({"product": form} if name != "cbow" else {}))
        lengths = (7, 7, 7)
        read = [batch(encoding(lengths)), batch(encoding(lengths, width=13, padding=20))]
        with torch.set_grad_enabled(gradients):
            (plain, padded), pooled = (
                [student(b, want) for b in read]
                for want in (Want(sentence=True, logits=True) | STATES, Want(sentence=True, logits=True))
            )
        both = [(o.hidden_states[1][:, :7], o.sentence) for o in (plain, padded)]
        exact = (form == "sequential", name != "bidirectional_hybrid")
        same = torch.equal if any(exact) else torch.allclose
        assert same(both[0][0], both[1][0]) and same(pooled[0].sentence, pooled[1].sentence)
        same = torch.equal if exact[0] or name == "cbow" else torch.allclose
        assert same(both[0][1], both[1][1])
        assert torch.allclose(plain.logits, padded.logits, atol=1e-5)

    @pytest.mark.parametrize("name", NAMES)
    def test_it_starts_neutral_and_is_never_trained(self, name: str) -> None:
        student = build(name).train()
        before = [table.weight.detach().clone() for table in student.embedding.tables()]
        rest = [p for n, p in student.named_parameters() if not n.startswith("embedding.")]
        tables = [table.weight for table in student.embedding.tables()]
        optimisers = [torch.optim.SparseAdam(tables, lr=0.1), torch.optim.AdamW(rest)]
        read = batch()
        student(read, Want(logits=True) | STATES).logits.square().sum().backward()
        for optimiser in optimisers:
            optimiser.step()
        used = set(read.encodings[0]["input_ids"].flatten().tolist()) - {PAD}
        for old, table in zip(before, student.embedding.tables(), strict=True):
            matrix = table.embedding_dim == 9 and table is not student.embedding.vectors
            neutral = torch.eye(3).flatten() if matrix else torch.zeros(9)
            assert torch.equal(table.weight[PAD], neutral)
            assert table.weight.grad is not None and table.weight.grad.is_sparse
            changed = {row for row in range(30) if not torch.equal(table.weight[row], old[row])}
            assert changed == used


class TestRandomStart:
    @pytest.mark.parametrize("name", NAMES)
    def test_identity_and_noise(self, name: str) -> None:
        plugin = STUDENTS.get(name)
        torch.manual_seed(0)
        student = plugin(StudentConfig(name, {}, {"vocab_size": 200, "pad_token_id": 0}, 2))
        for table in student.embedding.tables():
            side = round(table.embedding_dim**0.5)
            neutral = torch.zeros(()) if table is student.embedding.vectors else torch.eye(side).flatten()
            noise = (table.weight - neutral)[1:]
            assert noise.mean().abs() < 1e-3 and abs(noise.std() - 0.01) < 1e-3
            assert torch.equal(table.weight[0], neutral.expand(table.embedding_dim))


class TestCorpus:
    @pytest.mark.parametrize("name", NAMES)
    def test_it_predicts_masked_tokens(self, name: str) -> None:
        student, read = build(name, outputs=0), batch()
        read.targets = torch.full((3, 7), -100)
        read.targets[0, 2], read.targets[1, 0], read.targets[1, 3] = 7, 8, 9
        logits = student(read, Want(mlm_logits=True)).mlm_logits
        states = student(read, STATES).hidden_states[1]
        assert logits.shape == (3, 30)
        assert torch.allclose(logits, student.head(states[[0, 1, 1], [2, 0, 3]]))
        assert student.head_weights() == {"head.weight", "head.bias"}


class TestDropout:
    def test_a_long_product_survives_it(self) -> None:
        """Were entries of the matrices dropped, and not of what tells them from the identity, none would."""
        student = build("cmow", noise=0.0, embedding_dropout=0.5, matrix_size=20).train()
        read = batch(encoding((64, 64, 64)))
        torch.manual_seed(0)
        sentence = student(read, Want(sentence=True)).sentence.view(3, 20, 20)
        assert sentence.diagonal(dim1=1, dim2=2).min() > 0.5 and sentence.max() < 2

    @pytest.mark.parametrize("name", NAMES)
    def test_it_spares_padding(self, name: str) -> None:
        student = build(name, embedding_dropout=0.5).train()
        nothing = batch({"input_ids": torch.full((3, 5), 9), "attention_mask": torch.zeros(3, 5, dtype=torch.long)})
        sentence = student(nothing, Want(sentence=True)).sentence
        parts = {"cbow": [0], "cmow": [1], "hybrid": [0, 1], "bidirectional_hybrid": [0, 1, 1]}[name]
        neutral = torch.cat([torch.eye(3).flatten() if matrix else torch.zeros(9) for matrix in parts])
        assert torch.equal(sentence, neutral.expand(3, -1))

    @pytest.mark.parametrize("name", NAMES)
    @pytest.mark.parametrize("setting", ["embedding_dropout", "hidden_dropout"])
    def test_it_acts_in_training_alone(self, name: str, setting: str) -> None:
        other = {"embedding_dropout": 0.0, "hidden_dropout": 0.0}
        still, student = build(name, **other), build(name, **(other | {setting: 0.5}))
        ask = Want(logits=True)
        assert torch.equal(still(batch(), ask).logits, student(batch(), ask).logits)
        assert torch.allclose(still.train()(batch(), ask).logits, student(batch(), ask).logits, atol=1e-5)
        assert not torch.allclose(still(batch(), ask).logits, student.train()(batch(), ask).logits, atol=1e-5)


class TestNumbers:
    @pytest.mark.parametrize("name", WITH_PRODUCTS)
    def test_products_stay_in_float32_under_autocast(self, name: str) -> None:
        student = build(name, noise=0.0)
        plain = student(batch(), Want(sentence=True) | STATES)
        with torch.autocast("cpu", torch.bfloat16):
            got = student(batch(), Want(sentence=True, logits=True) | STATES)
        assert torch.equal(got.sentence, plain.sentence)
        assert torch.equal(got.hidden_states[1], plain.hidden_states[1])
        assert got.logits.dtype == torch.bfloat16

    @pytest.mark.parametrize("head", ["linear", "mlp", "cnn", "bilstm"])
    def test_it_trains_under_autocast(self, head: str) -> None:
        student = build("bidirectional_hybrid", head=head, pair_encoding="diffcat").train()
        with torch.autocast("cpu", torch.bfloat16):
            logits = student(pair(), Want(logits=True)).logits
        logits.float().square().sum().backward()
        assert all(p.grad is not None for p in student.parameters())

    @pytest.mark.parametrize("form", FORMS)
    @pytest.mark.parametrize("want", [Want(sentence=True), STATES], ids=["pooled", "states"])
    def test_512_tokens(self, form: str, want: Want) -> None:
        """No trouble for matrices as they start; a refusal, never a silent wrong number, for ones far from it."""
        read = batch(encoding((512, 512, 512)))
        start = build("bidirectional_hybrid", noise=0.0, matrix_size=20, product=form)
        far = build("bidirectional_hybrid", noise=0.3, matrix_size=20, product=form)
        outputs = start(read, want)
        found = outputs.sentence if want.sentence else outputs.hidden_states[1]
        assert 1 < found.abs().max() < 1000  # thirty words, each seventeen times
        with pytest.raises(FloatingPointError, match="512 tokens"):
            far(read, want)

    @pytest.mark.parametrize("direction", [0, 1])
    def test_one_product_may_vanish_alone(self, direction: int) -> None:
        student, read = build("bidirectional_hybrid"), batch(encoding((20, 20, 20)))
        with torch.no_grad():
            student.embedding.tables()[1 + direction].weight.mul_(1e-3)
        for want in (Want(sentence=True), STATES):
            with pytest.raises(FloatingPointError, match="20 tokens"):
                student(read, want)
