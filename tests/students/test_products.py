"""Products of matrices: both forms against float64, values and gradients; padding; long inputs."""

from __future__ import annotations

from functools import reduce
from itertools import accumulate

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from harness.students import products

BOTH = ("sequential", "logarithmic")


def matrices(batch: int, length: int, size: int, noise: float = 0.01, seed: int = 0) -> Tensor:
    """Identity plus Gaussian noise, as the embeddings start: (B, L, n, n)."""
    generator = torch.Generator().manual_seed(seed)
    return torch.eye(size) + noise * torch.randn(batch, length, size, size, generator=generator)


def off(got: Tensor, exact: Tensor) -> float:
    """The largest error relative to the largest entry."""
    return float((got.double() - exact).abs().max() / exact.abs().max())


@pytest.mark.parametrize("form", BOTH)
class TestForms:
    def test_by_hand(self, form: str) -> None:
        given = torch.tensor([[[[1.0, 1], [0, 1]], [[1, 0], [1, 1]], [[0, 1], [1, 0]]]])
        assert products.product(given, form).tolist() == [[[1, 2], [1, 1]]]
        expected = [[[1, 1], [0, 1]], [[2, 1], [1, 1]], [[1, 2], [1, 1]]]
        assert products.prefixes(given, form).tolist() == [expected]

    @pytest.mark.parametrize(("size", "noise"), [(20, 0.01), (28, 0.01), (20, 0.05)])
    @pytest.mark.parametrize("length", [1, 2, 3, 31, 128])
    def test_values_and_gradients(self, form: str, length: int, size: int, noise: float) -> None:
        """Within 1e-5 of float64 at the length of a paragraph."""
        start = matrices(3, length, size, noise)
        weight = torch.randn(3, length, size, size, generator=torch.Generator().manual_seed(1))
        exact = start.double().requires_grad_()
        whole = list(accumulate(exact.unbind(1), torch.bmm))
        for got_of, expected in (
            (lambda m: products.product(m, form).unsqueeze(1), whole[-1].unsqueeze(1)),
            (lambda m: products.prefixes(m, form), torch.stack(whole, 1)),
        ):
            given = start.clone().requires_grad_()
            got = got_of(given)
            assert got.shape == expected.shape and off(got.detach(), expected.detach()) < 1e-5
            (got * weight[:, : got.size(1)]).sum().backward()
            assert given.grad is not None
            gradient = torch.autograd.grad((expected * weight[:, : got.size(1)]).sum(), exact, retain_graph=True)[0]
            assert off(given.grad, gradient) < 1e-5

    @given(length=st.integers(1, 40), padding=st.integers(0, 40), size=st.integers(1, 5), seed=st.integers(0, 9))
    def test_identities_at_the_end_change_no_bit(
        self, form: str, length: int, padding: int, size: int, seed: int
    ) -> None:
        short = matrices(2, length, size, 0.3, seed)
        long = torch.cat([short, torch.eye(size).expand(2, padding, size, size)], 1)
        assert torch.equal(products.product(long, form), products.product(short, form))
        assert torch.equal(products.prefixes(long, form)[:, :length], products.prefixes(short, form))


@given(length=st.integers(1, 70), size=st.integers(1, 6), seed=st.integers(0, 9))
def test_the_forms_are_equal_to_rounding(length: int, size: int, seed: int) -> None:
    given = matrices(2, length, size, 0.1, seed)
    for function in (products.product, products.prefixes):
        assert off(function(given, "logarithmic"), function(given, "sequential").double()) < 1e-5


def test_the_sequential_form_takes_matrices_as_they_come() -> None:
    given = matrices(2, 6, 4, 0.3)
    alive: list[int] = []

    def one_by_one() -> object:
        for place, matrix in enumerate(given.unbind(1)):
            alive.append(place)
            yield matrix

    assert torch.equal(products.product(one_by_one(), "sequential"), reduce(torch.bmm, given.unbind(1)))
    assert alive == list(range(6))
    assert torch.equal(products.prefixes(one_by_one(), "sequential"), products.prefixes(given, "sequential"))


def test_auto_is_chosen_by_device() -> None:
    assert products.choose("auto", torch.device("cpu")) == "sequential"
    assert products.choose("auto", torch.device("cuda")) == "logarithmic"
    for form in BOTH:
        assert products.choose(form, torch.device("cpu")) == products.choose(form, torch.device("cuda")) == form


class TestLongInputs:
    @pytest.mark.parametrize("size", [20, 28])
    def test_512_tokens_at_the_start_of_training(self, size: int) -> None:
        got = products.product(matrices(8, 512, size), "sequential")
        products.check(got, 512)
        peaks = got.abs().amax((1, 2))
        assert peaks.min() > 1 and peaks.max() < 4

    @pytest.mark.parametrize("form", BOTH)
    @pytest.mark.parametrize("scale", [1.2, 0.8])
    def test_what_overflows_or_vanishes_is_refused(self, form: str, scale: float) -> None:
        """1.2^512 = 3.5e40 and 0.8^512 = 2.4e-50, which float32 cannot hold."""
        with pytest.raises(FloatingPointError, match="512 tokens"):
            products.check(products.product(scale * torch.eye(4).expand(2, 512, 4, 4), form), 512)

    @pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e19, 1e-19, 0.0])
    def test_one_bad_product_is_enough(self, value: float) -> None:
        got = torch.eye(3).repeat(4, 1, 1)
        products.check(got, 7)
        got[2] *= value
        with pytest.raises(FloatingPointError, match="7 tokens"):
            products.check(got, 7)
        assert products.factors(got).isnan().tolist() == [False, False, True, False]
        assert products.factors(got)[0] == 1
