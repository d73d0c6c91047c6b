"""Softmax factors as rows of pairs, against the softmax and autograd."""

import torch
from cases import in_turn
from draws import normal, uniform

from botorch_pref.likelihoods.logit import (
    PlackettLuceFactors,
)

DOUBLE = torch.float64
LIKE = torch.zeros((), dtype=DOUBLE)
STAGES = torch.tensor([[0, 1, 2, -1], [3, 1, -1, -1], [4, 0, 2, 3], [2, 4, -1, -1]])
N = 5


def log_likelihood(stages, f):
    """Sums log softmax probabilities, set by set, of stages in lists."""
    total = torch.zeros((), dtype=DOUBLE)
    for stage in stages:
        members = [i for i in stage if i >= 0]
        if members:
            total = total + f[members[0]] - torch.logsumexp(f[members], 0)
    return total


def dense(factors):
    return factors.rows.apply_matrix(torch.eye(N, dtype=DOUBLE))


def utilities(scale, seed=0):
    return scale * normal(N, seed=seed)


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
    gradient = torch.autograd.functional.jacobian(truth, f)
    hessian = torch.autograd.functional.hessian(truth, f)
    torch.testing.assert_close(a.mT @ first, gradient, **close)
    torch.testing.assert_close(a.mT @ (second.unsqueeze(-1) * a), hessian, **close)
    assert bool((second <= 0).all())


@in_turn("scale", [1.0, 6.0])
def test_curvature_gradient_by_finite_differences(scale) -> None:
    factors = PlackettLuceFactors(STAGES, N, LIKE)
    z = dense(factors) @ utilities(scale)
    weights = uniform(3, len(z), seed=1)
    h = 1e-5
    steps = h * torch.eye(len(z), dtype=DOUBLE)

    def weighted(z):
        return (weights.unsqueeze(-2) * factors.log_prob(z).second).sum(-1)

    got = factors.curvature_gradient(z, weights)
    want = (weighted(z + steps) - weighted(z - steps)) / (2 * h)
    # Second derivatives of p_i p_j are below 1: h^2 / 6 and rounding / h.
    torch.testing.assert_close(got, want, rtol=0, atol=5e-10)


# --- Ragged sets as one row of items
