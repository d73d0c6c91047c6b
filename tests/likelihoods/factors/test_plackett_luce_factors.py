"""Softmax factors as rows of pairs, against the softmax and autograd."""

import torch
from cases import in_turn

from botorch_pref.likelihoods.logit import (
    LogitFactors,
    PlackettLuceFactors,
    stage_items,
)
from botorch_pref.linalg import pair_rows

DOUBLE = torch.float64
LIKE = torch.zeros((), dtype=DOUBLE)
STAGES = torch.tensor([[0, 1, 2, -1], [3, 1, -1, -1], [4, 0, 2, 3], [2, 4, -1, -1]])
N = 5


def log_likelihood(stages, f):
    """Sum of log softmax probabilities, set by set, of stages in lists."""
    total = torch.zeros((), dtype=DOUBLE)
    for stage in stages:
        members = [i for i in stage if i >= 0]
        if members:
            total = total + f[members[0]] - torch.logsumexp(f[members], 0)
    return total


def dense(factors):
    return factors.rows.apply_matrix(torch.eye(N, dtype=DOUBLE))


def utilities(scale, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return scale * torch.randn(N, generator=generator, dtype=DOUBLE)


@in_turn("scale", [0.0, 1.0, 5.0, 300.0])
def test_value_gradient_and_hessian_are_those_of_the_softmax(scale) -> None:
    factors = PlackettLuceFactors(STAGES, N, LIKE)
    f, a = utilities(scale), dense(factors)
    value, first, second = factors.log_prob(a @ f)
    stages = STAGES.tolist()

    def truth(f):
        return log_likelihood(stages, f)

    close = {"rtol": 1e-12, "atol": 1e-13}
    torch.testing.assert_close(value.sum(), truth(f), **close)
    torch.testing.assert_close(a.mT @ first, torch.func.grad(truth)(f), **close)
    torch.testing.assert_close(
        a.mT @ (second.unsqueeze(-1) * a), torch.func.hessian(truth)(f), **close
    )
    assert bool((second <= 0).all())


@in_turn("scale", [1.0, 6.0])
def test_curvature_gradient_by_finite_differences(scale) -> None:
    factors = PlackettLuceFactors(STAGES, N, LIKE)
    z = dense(factors) @ utilities(scale)
    generator = torch.Generator().manual_seed(1)
    weights = torch.rand(3, len(z), generator=generator, dtype=DOUBLE)
    h = 1e-5
    steps = h * torch.eye(len(z), dtype=DOUBLE)

    def weighted(z):
        return (weights.unsqueeze(-2) * factors.log_prob(z).second).sum(-1)

    got = factors.curvature_gradient(z, weights)
    want = (weighted(z + steps) - weighted(z - steps)) / (2 * h)
    # Second derivatives of p_i p_j are below 1: h^2 / 6 and rounding / h.
    torch.testing.assert_close(got, want, rtol=0, atol=5e-10)


def test_pairs_are_logistic_factors() -> None:
    pairs = torch.tensor([[0, 1], [3, 2], [1, 0]])
    z = torch.tensor([[-800.0, 0.3, 40.0], [1e-9, -3.0, 800.0]], dtype=DOUBLE)
    padded = torch.nn.functional.pad(pairs, (0, 2), value=-1)
    logit = LogitFactors(pair_rows(pairs, N, LIKE))
    weights = torch.tensor([0.3, 2.0, 1.0], dtype=DOUBLE)
    for stages in (pairs, padded):
        factors = PlackettLuceFactors(stages, N, LIKE)
        assert torch.equal(dense(factors), dense(logit))
        for got, want in zip(factors.log_prob(z), logit.log_prob(z), strict=True):
            torch.testing.assert_close(got, want, rtol=1e-13, atol=2e-16)
        torch.testing.assert_close(
            factors.curvature_gradient(z, weights),
            logit.curvature_gradient(z, weights),
            rtol=1e-13,
            atol=2e-16,
        )


def test_ragged_sets_have_no_rows_to_spare() -> None:
    rows = PlackettLuceFactors(STAGES, N, LIKE).rows
    assert rows.num_rows == 3 + 1 + 6 + 1
    assert bool((rows.coefficients != 0).all())


def test_batches_of_ragged_sets_equal_their_elements() -> None:
    other = torch.tensor(
        [[1, 0, -1, -1], [-1, -1, -1, -1], [2, 3, 4, -1], [0, 1, 2, 3]]
    )
    batch = PlackettLuceFactors(torch.stack([STAGES, other]), N, LIKE)
    f = torch.stack([utilities(1.0), utilities(2.0, seed=3)])
    z = batch.rows.apply(f)
    value, first, second = batch.log_prob(z)
    a = batch.rows.apply_matrix(torch.eye(N, dtype=DOUBLE))
    variance = (a @ a.mT).diagonal(dim1=-2, dim2=-1)
    moved = batch.curvature_gradient(z, variance)
    for i, stages in enumerate((STAGES, other)):
        alone = PlackettLuceFactors(stages, N, LIKE)
        b = dense(alone)
        want = alone.log_prob(b @ f[i])
        torch.testing.assert_close(value[i].sum(), want.value.sum())
        torch.testing.assert_close(a[i].mT @ first[i], b.mT @ want.first)
        torch.testing.assert_close(
            a[i].mT @ (second[i].unsqueeze(-1) * a[i]),
            b.mT @ (want.second.unsqueeze(-1) * b),
        )
        alone_moved = alone.curvature_gradient(b @ f[i], b.square().sum(-1))
        torch.testing.assert_close(a[i].mT @ moved[i], b.mT @ alone_moved)


def test_points_counted_once() -> None:
    factors = PlackettLuceFactors(STAGES, N, LIKE)
    inverse = torch.tensor([2, 0, 1, 0, 2])
    factors.reindex(inverse, 3)
    f = torch.tensor([0.3, -1.0, 2.0], dtype=DOUBLE)
    value = factors.log_prob(factors.rows.apply(f)).value.sum()
    torch.testing.assert_close(value, log_likelihood(STAGES.tolist(), f[inverse]))
    assert factors.stages[0].tolist() == [2, 0, 1, -1]


# --- Ragged sets as one row of items

RAGGED = torch.tensor([[4, 1, -1], [2, 0, 3], [-1, -1, -1], [3, 1, -1]])


def test_items_of_ragged_sets_without_phantoms() -> None:
    items = stage_items(RAGGED)
    assert items.points.tolist() == [4, 1, 2, 0, 3, 3, 1]
    assert items.stage.tolist() == [0, 0, 1, 1, 1, 2, 2]
    assert items.place.tolist() == [0, 1, 0, 1, 2, 0, 1]
    assert bool(items.present.all())
    assert items.num_stages == 3


def test_sums_maxima_and_padding_by_set() -> None:
    items = stage_items(RAGGED)
    values = torch.tensor([1.0, 2.0, -3.0, -1.0, -2.0, 5.0, 0.5])
    assert items.total(values).tolist() == [3.0, -6.0, 5.5]
    assert items.largest(values).tolist() == [2.0, -1.0, 5.0]
    assert items.spread(torch.tensor([7.0, 8.0, 9.0])).tolist() == [
        7, 7, 8, 8, 8, 9, 9,
    ]  # fmt: skip
    assert items.padded(values).tolist() == [[1, 2, 0], [-3, -1, -2], [5, 0.5, 0]]


def test_a_batch_holds_a_place_where_some_element_needs_it() -> None:
    other = torch.tensor([[0, 1, 2], [2, 0, -1], [-1, -1, -1], [-1, -1, -1]])
    items = stage_items(torch.stack([RAGGED, other]))
    assert items.stage.tolist() == [0, 0, 0, 1, 1, 1, 2, 2]
    assert items.points.tolist() == [[4, 1, 0, 2, 0, 3, 3, 1], [0, 1, 2, 2, 0, 0, 0, 0]]
    assert items.present.long().tolist() == [
        [1, 1, 0, 1, 1, 1, 1, 1],
        [1, 1, 1, 1, 1, 0, 0, 0],
    ]
