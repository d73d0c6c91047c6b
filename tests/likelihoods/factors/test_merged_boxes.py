"""Rows that each element of a batch merges in its own way, against each by itself."""

import pytest
import torch

from botorch_pref.likelihoods.factors import BoxFactors, joint_factors
from botorch_pref.linalg import SparseDesign
from botorch_pref.linalg.sparse_design import row_groups

ENDS = [-1.3, -0.9, -0.5, -0.2]


def boxes_of(pairs: list[list[list[int]]]) -> BoxFactors:
    """Ties of some noises whose pairs differ between the elements of a batch."""
    indices = torch.tensor(pairs)
    signs = torch.tensor([1.0, -1.0]).double().expand(indices.shape)
    lower = torch.tensor(ENDS).double().expand(indices.shape[:-1])
    rows = SparseDesign(indices, signs, 4)
    return BoxFactors(rows, 0.3 - 0.1 * lower, lower, lower + 1.7)


def test_elements_of_a_batch_are_merged_by_themselves() -> None:
    """An answer of a row that one element merges may be of a lone row in another."""
    pairs = [[[0, 1], [2, 3], [0, 1], [1, 2]], [[0, 1], [0, 2], [1, 3], [1, 0]]]
    mean = torch.linspace(-1, 1, 6).double().reshape(2, 3)
    variance = torch.linspace(0.2, 2, 6).double().reshape(2, 3)
    together = boxes_of(pairs).merged(None, row_groups)
    moments = together.tilted(mean, variance)
    for element, element_pairs in enumerate(pairs):
        alone = boxes_of([element_pairs]).merged(None, row_groups)
        expected = alone.tilted(mean[element : element + 1], variance[element])
        for got, want in zip(moments, expected, strict=True):
            torch.testing.assert_close(got[element], want[0], rtol=1e-9, atol=1e-9)


def test_one_element_of_answers_serves_every_element_of_means() -> None:
    """Answers of a batch of one, as a noise of that batch makes them."""
    together = boxes_of([[[0, 1], [2, 3], [0, 1], [1, 2]]]).merged(None, row_groups)
    mean = torch.linspace(-1, 1, 6).double().reshape(2, 3)
    variance = torch.linspace(0.2, 2, 3).double()
    moments = together.tilted(mean, variance)
    for element in range(2):
        expected = together.tilted(mean[element : element + 1], variance)
        for got, want in zip(moments, expected, strict=True):
            torch.testing.assert_close(got[element], want[0], rtol=1e-9, atol=1e-9)


def test_repeated_duels_of_any_noise_by_sums_over_a_fine_grid() -> None:
    """Rows with few answers and many, with noises far below the cavity and above it."""
    counts = torch.tensor([2.0, 3.0, 1.0, 40.0, 2.0, 1.0])
    indices = torch.tensor([[0, 1], [1, 2], [2, 1], [2, 3], [0, 3], [3, 0]])
    signs = torch.tensor([1.0, -1.0]).double().expand(indices.shape)
    noise = torch.tensor([1e-2, 0.1, 0.1, 0.05, 5.0, 5.0]).double().requires_grad_()
    zero, end = torch.zeros(6).double(), torch.full((6,), torch.inf).double()
    boxes = BoxFactors(SparseDesign(indices, signs, 4), noise, zero, end)
    merged = boxes.merged(counts, row_groups)
    mean = torch.tensor([-0.7, 0.4, 0.2, 1.1]).double()
    variance = torch.tensor([2.0, 0.5, 0.3, 0.8]).double()
    moments = merged.tilted(mean, variance)
    # The rows 1 and 2 are one with three wins and a loss, and so are 4 and 5.
    wins = torch.tensor([2.0, 3.0, 40.0, 2.0]).double()
    losses = torch.tensor([0.0, 1.0, 0.0, 1.0]).double()
    row_noise = noise[torch.tensor([0, 1, 3, 4])]
    grid = torch.linspace(-12, 12, 100_001, dtype=torch.double).unsqueeze(-1)
    z, scale = mean + variance.sqrt() * grid, row_noise.rsqrt()
    logs = wins * torch.special.log_ndtr(z * scale)
    logs = logs + losses * torch.special.log_ndtr(-z * scale) - 0.5 * grid.square()
    value = logs.logsumexp(0) + torch.log((grid[1] - grid[0]) / (2 * torch.pi) ** 0.5)
    weights = logs.softmax(0)
    centre = (weights * z).sum(0)
    spread = (weights * (z - centre).square()).sum(0)
    expected = (
        value,
        (centre - mean) / variance,
        (spread / variance - 1) / variance,
        spread / variance,
    )
    for got, want in zip(moments, expected, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-10)
    (got,) = torch.autograd.grad(moments.value.sum(), noise)
    (want,) = torch.autograd.grad(value.sum(), noise)
    # One answer of a row stands for the noise of all.
    row = torch.tensor([0, 1, 1, 2, 3, 3])
    got, want = (torch.zeros(4).double().index_add(0, row, g) for g in (got, want))
    torch.testing.assert_close(got, want, rtol=1e-7, atol=1e-9)


def test_rows_that_an_element_lacks_say_nothing() -> None:
    """Four duels are one row in the second element, and three rows say nothing."""
    indices = torch.tensor([[[0, 1], [1, 2], [2, 3], [0, 3]], [[0, 1]] * 4])
    signs = torch.tensor([1.0, -1.0]).double().expand(indices.shape)
    noise = torch.full((2, 4), 0.3, dtype=torch.double).requires_grad_()
    zero, end = torch.zeros(2, 4).double(), torch.full((2, 4), torch.inf).double()
    boxes = BoxFactors(SparseDesign(indices, signs, 4), noise, zero, end)
    merged = boxes.merged(None, row_groups)
    mean, variance = torch.zeros(2, 4).double(), torch.ones(2, 4).double()
    moments = merged.tilted(mean, variance)
    for moment in moments[:3]:
        assert moment[1, 1:].eq(0).all()
    assert moments.ratio[1, 1:].eq(1).all()
    # Of the integral of four wins, by mpmath.
    expected = [-1.204680076616300, -0.881981300852494]
    moment = moments.value[1].sum()
    (slope,) = torch.autograd.grad(moment, noise)
    assert [moment.item(), slope[1].sum().item()] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("learned", [[0, 1], [0], [1]])
def test_equal_noises_of_two_blocks_have_gradients_of_their_own(learned) -> None:
    """A win that is heard with one noise, and a loss of the same row with another."""
    noises = [torch.ones((), dtype=torch.float64) for _ in range(2)]
    wanted = [noises[place].requires_grad_() for place in learned]
    zero, end = torch.zeros(1).double(), torch.full((1,), torch.inf).double()
    won, lost = (
        BoxFactors(
            SparseDesign(
                torch.tensor([[0]]), torch.tensor([[sign]]).double(), num_points=1
            ),
            noise.expand(1),
            zero,
            end,
        )
        for sign, noise in zip((1.0, -1.0), noises, strict=True)
    )
    factors = joint_factors([won, lost])
    assert factors.rows.num_rows == 1
    z = torch.linspace(-12, 12, 4001, dtype=torch.float64)
    density = torch.exp(-0.5 * (z - 0.7).square() / 1.5)
    blocks = [
        torch.special.log_ndtr(side * z / noise.sqrt())
        for side, noise in zip((1, -1), noises, strict=True)
    ]
    want = torch.autograd.grad((density * sum(blocks).exp()).sum().log(), wanted)
    cavities = torch.tensor([[0.7], [1.5]], dtype=torch.float64)
    got = torch.autograd.grad(factors.tilted(*cavities).value.sum(), wanted)
    torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-12)
