"""Conditioning on sites of either sign against dense inverses."""

import pytest
import torch

from botorch_pref.inference.conditioning import (
    NegativeSites,
    site_posterior,
)
from botorch_pref.inference.solvers import PointSolver, RowSolver
from botorch_pref.linalg.sparse_design import SparseDesign

each_solver = pytest.mark.parametrize("solver", [RowSolver, PointSolver])


def problem(m, n, batch, share):
    """Some precisions are negative, by a share of what leaves a posterior."""
    generator = torch.Generator().manual_seed(m * n)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    root = normal(*batch, n, n)
    covar = root @ root.mT + 0.1 * torch.eye(n, dtype=torch.float64)
    rows = SparseDesign(
        torch.randint(n, (*batch, m, 2), generator=generator), normal(*batch, m, 2), n
    )
    tau = 0.1 + normal(*batch, m).square()
    a = rows.apply_matrix(torch.eye(n, dtype=torch.float64))
    sign = torch.ones(m, dtype=torch.float64)
    sign[1::2] = -1
    if batch:
        # A row may be negative in one element of the batch only.
        sign = sign.expand(*batch, m).clone()
        sign.view(-1, m)[0, 1] = 1
    positive = tau * sign.clamp_min(0)
    c = a @ covar @ a.mT
    eye = torch.eye(m, dtype=torch.float64)
    sigma = c @ torch.linalg.inv(eye + torch.diag_embed(positive) @ c)
    negative = (tau * (-sign).clamp_min(0)).sqrt()
    scaled = negative.unsqueeze(-1) * sigma * negative.unsqueeze(-2)
    largest = torch.linalg.eigvalsh(scaled).amax(-1, keepdim=True)
    tau = torch.where(sign > 0, tau, -share * tau / largest)
    return covar, rows, tau, a, c, normal


@each_solver
@pytest.mark.parametrize("batch", [(), (2,), (2, 3)])
@pytest.mark.parametrize("size", [(4, 3), (2, 5), (7, 6)])
@pytest.mark.parametrize("share", [1e-6, 0.5, 0.99])
def test_every_quantity_agrees_with_dense_inverses(solver, batch, size, share) -> None:
    m, n = size
    covar, rows, tau, a, c, normal = problem(m, n, batch, share)
    factor, proper = site_posterior(solver(covar, rows), tau)
    assert isinstance(factor, NegativeSites)
    assert bool(proper.all())
    assert torch.equal(factor.tau, tau)
    eye, t = torch.eye(m, dtype=torch.float64), torch.diag_embed(tau)
    sigma = c @ torch.linalg.inv(eye + t @ c)
    w = t @ torch.linalg.inv(eye + c @ t)
    values = normal(*batch, m, 3)
    q, p, h = factor.root(), factor.widening(), factor.row_root()
    pairs = {
        "log det": (factor.log_det, torch.linalg.slogdet(eye + t @ c).logabsdet),
        "product": (factor.covariance_times(values), sigma @ values),
        "mean": (factor.mean(values[..., 0]), (sigma @ values)[..., 0]),
        "variance": (factor.variance(), sigma.diagonal(dim1=-2, dim2=-1)),
        "weights": (factor.weights(values), a.mT @ w @ values),
        "roots": (q @ q.mT - p @ p.mT, a.mT @ w @ a),
        "precision": (factor.precision(), a.mT @ w @ a),
        "row root": (h @ h.mT, sigma),
    }
    for name, (got, want) in pairs.items():
        # Digits lost to 1 - share and to the condition of the dense inverses.
        atol = 1e-11 * (1 + float(want.abs().max())) / (1 - share)
        torch.testing.assert_close(got, want, rtol=0, atol=atol, msg=name)


@each_solver
def test_where_there_is_no_posterior_it_says_so(solver) -> None:
    covar, rows, tau, _, _, _ = problem(6, 4, (2,), 0.5)
    tau[1] = torch.where(tau[1] < 0, 2.5 * tau[1], tau[1])
    built = solver(covar, rows)
    factor, proper = site_posterior(built, tau)
    assert proper.tolist() == [True, False]
    # There it leaves the negative precisions out, and nowhere else.
    base = built.factor(tau.clamp_min(0))
    assert torch.equal(factor.tau[0], tau[0])
    assert torch.equal(factor.tau[1], tau[1].clamp_min(0))
    torch.testing.assert_close(factor.variance()[1], base.variance()[1])
    torch.testing.assert_close(factor.log_det[1], base.log_det[1])
    torch.testing.assert_close(factor.precision()[1], base.precision()[1])
    assert bool((factor.variance()[0] > base.variance()[0]).all())


@each_solver
def test_non_negative_precisions_are_not_touched(solver) -> None:
    covar, rows, tau, _, _, _ = problem(6, 4, (), 0.5)
    built = solver(covar, rows)
    factor, proper = site_posterior(built, tau.abs())
    assert type(factor) is type(built.factor(tau.abs()))
    assert bool(proper)
    assert factor.widening() is None
