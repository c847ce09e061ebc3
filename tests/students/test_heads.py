"""Heads and pair encodings: sizes by hand, padding, the order that an LSTM reads in."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from harness.errors import UserError
from harness.students import heads, pairs


def size(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


class TestSizes:
    @pytest.mark.parametrize(
        ("kind", "widths", "outputs", "parameters"),
        [
            # galke2022, tables XII and XIII, "only classifier"
            ("linear", [784], 2, 3_138),
            ("linear", [400, 400, 400] * 3, 21, 82_821),
            ("mlp", [784], 3, 790_003),
            ("mlp", [400, 400] * 3, 2, 2_405_002),
            ("cnn", [784], 2, 4_212),
            ("cnn", [400, 400], 21, 27_601),
            ("cnn", [784] * 3, 3, 10_817),
            ("bilstm", [784] * 3, 2, 99_618_962),
            ("bilstm", [400, 400] * 3, 21, 103_771_221),
            ("bilstm", [784], 21, 11_093_621),
        ],
    )
    def test_published(self, kind: str, widths: list[int], outputs: int, parameters: int) -> None:
        with torch.device("meta"):
            assert size(heads.build(kind, widths, outputs)) == parameters

    @pytest.mark.parametrize("kind", ["linear", "mlp", "cnn"])
    @pytest.mark.parametrize("side", [3, 4, 5, 6, 7, 8])
    def test_outputs(self, kind: str, side: int) -> None:
        """The convolutions leave something of matrices of any size that is not refused."""
        head = heads.build(kind, [side * side] * 2, 5).eval()
        assert head(torch.randn(3, 2 * side * side)).shape == (3, 5)


@pytest.mark.parametrize("widths", [[400, 399], [10], [16, 9], [4]])
def test_a_cnn_needs_square_parts_of_one_size(widths: list[int]) -> None:
    heads.check("mlp", widths)
    for refuse in (lambda: heads.check("cnn", widths), lambda: heads.build("cnn", widths, 2)):
        with pytest.raises(UserError, match="square matrix of one size"):
            refuse()


def test_a_cnn_sees_each_part_as_one_channel() -> None:
    """Swapping two parts is swapping two channels."""
    torch.manual_seed(0)
    head = heads.build("cnn", [9, 9], 2).eval()
    vector = torch.randn(1, 18)
    channels = vector.view(1, 2, 3, 3)
    assert torch.equal(head(vector), head[1:](channels))


class TestBiLSTM:
    @pytest.fixture
    def head(self) -> heads.BiLSTM:
        torch.manual_seed(0)
        return heads.BiLSTM(6, 3).eval()

    def test_it_reads_from_both_ends(self, head: heads.BiLSTM) -> None:
        """The last states are the forward one at the last token and the backward one at the first."""
        states = torch.randn(2, 5, 6)
        outputs, _ = head.lstm(states)
        ends = torch.cat([outputs[:, -1, :6], outputs[:, 0, 6:]], 1)
        assert torch.allclose(head(states, torch.tensor([5, 5])), head.output(ends), atol=1e-6)

    def test_of_one_token_nothing_after_it_is_read(self, head: heads.BiLSTM) -> None:
        states = torch.randn(2, 5, 6)
        alone = head(states[1:, :1], torch.tensor([1]))
        assert torch.allclose(head(states, torch.tensor([5, 1]))[1:], alone, atol=1e-6)


class TestPairs:
    U, V = torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, -1.0]])

    @pytest.mark.parametrize(
        ("encoding", "expected"),
        [("diffcat", [1, 2, 3, -1, 2, 3]), ("compare", [1, 2, 3, -1, 2, 3, 3, -2])],
    )
    def test_by_hand(self, encoding: str, expected: list[float]) -> None:
        got = pairs.combine(encoding, [self.U, self.V])
        assert got.tolist() == [expected] and got.size(1) == pairs.PARTS[encoding] * 2

    def test_joint_is_the_sequence_itself(self) -> None:
        assert pairs.combine("joint", [self.U]) is self.U

    @pytest.mark.parametrize(("encoding", "count"), [("joint", 2), ("diffcat", 1), ("compare", 1)])
    def test_a_wrong_number_of_sentences(self, encoding: str, count: int) -> None:
        with pytest.raises(UserError, match=f"{encoding} was given {count} sequences"):
            pairs.combine(encoding, [self.U] * count)

    def test_align(self) -> None:
        short, long = torch.ones(2, 2, 3), 2 * torch.ones(2, 4, 3)
        masks = [torch.tensor([[1, 0], [1, 1]]).bool(), torch.tensor([[1, 1, 1, 0], [1, 0, 0, 0]]).bool()]
        u, v = pairs.align([short, long], masks)
        assert u[..., 0].tolist() == [[1, 0, 0, 0], [1, 1, 0, 0]]
        assert v[..., 0].tolist() == [[2, 2, 2, 0], [2, 0, 0, 0]]
