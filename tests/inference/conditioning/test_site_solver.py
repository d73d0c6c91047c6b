"""Conditioning on sites against dense inverses."""

import pytest
import torch

from botorch_pref.errors import PrecisionError
from botorch_pref.inference.solvers import PointSolver, RowSolver, choose_solver
from botorch_pref.linalg.sparse_design import SparseDesign

each_solver = pytest.mark.parametrize("solver", [RowSolver, PointSolver])


def problem(m=4, n=3, batch=(), dtype=torch.float64, precision=1.0):
    generator = torch.Generator().manual_seed(m * n)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)

    root = normal(*batch, n, n)
    covar = root @ root.mT + 0.1 * torch.eye(n, dtype=dtype)
    rows = SparseDesign(
        torch.randint(n, (*batch, m, 2), generator=generator), normal(*batch, m, 2), n
    )
    tau = precision * normal(*batch, m).square()
    # A site without precision is an answer that says nothing.
    tau[..., 0] = 0.0
    return covar, rows, tau, normal


def dense(covar, rows, tau):
    a = rows.apply_matrix(torch.eye(rows.num_points, dtype=covar.dtype))
    c, t = a @ covar @ a.mT, torch.diag_embed(tau)
    identity = torch.eye(rows.num_rows, dtype=covar.dtype)
    # Sigma = C (I + T C)^-1 and W = T (I + C T)^-1 need no inverse of C or T.
    sigma = c @ torch.linalg.inv(identity + t @ c)
    w = t @ torch.linalg.inv(identity + c @ t)
    return a, c, sigma, w, torch.linalg.slogdet(identity + t @ c).logabsdet


@each_solver
@pytest.mark.parametrize("batch", [(), (2,), (2, 3)])
@pytest.mark.parametrize("size", [(4, 3), (2, 5), (6, 6)])
@pytest.mark.parametrize("precision", [1e-6, 1.0, 1e4])
def test_every_quantity_agrees_with_dense_inverses(
    solver, batch, size, precision
) -> None:
    covar, rows, tau, normal = problem(*size, batch, precision=precision)
    a, c, sigma, w, log_det = dense(covar, rows, tau)
    built = solver(covar, rows)
    factor = built.factor(tau)
    m = rows.num_rows
    nu, targets = normal(*batch, m), normal(*batch, m, 3)

    def times(matrix, vector):
        return (matrix @ vector.unsqueeze(-1)).squeeze(-1)

    root, row_root = factor.root(), factor.row_root()
    pairs = {
        "prior variance": (built.variance, c.diagonal(dim1=-2, dim2=-1)),
        "prior product": (built.covariance_times(nu), times(c, nu)),
        "log det": (factor.log_det, log_det),
        "mean": (factor.mean(nu), times(sigma, nu)),
        "variance": (factor.variance(), sigma.diagonal(dim1=-2, dim2=-1)),
        "weights": (factor.weights(targets), a.mT @ w @ targets),
        "root": (root @ root.mT, a.mT @ w @ a),
        "precision": (factor.precision(), a.mT @ w @ a),
        "row root": (row_root @ row_root.mT, sigma),
    }
    for name, (got, want) in pairs.items():
        # Digits lost to the condition of B, up to precision times variance.
        scale = float(want.abs().max()) + 1
        atol = 1e-13 * scale * (1 + precision * 100)
        torch.testing.assert_close(got, want, rtol=0, atol=atol, msg=name)


@each_solver
def test_a_singular_prior_is_ordinary_input(solver) -> None:
    """Two equal points: the difference of the two is known to be zero."""
    covar = torch.tensor(
        [[1.0, 1.0, 0.3], [1.0, 1.0, 0.3], [0.3, 0.3, 1.0]], dtype=torch.float64
    )
    rows = SparseDesign(
        torch.tensor([[0, 1], [0, 2], [2, 1]]),
        torch.tensor([[1.0, -1.0]] * 3, dtype=torch.float64),
        3,
    )
    tau = torch.tensor([2.0, 0.5, 3.0], dtype=torch.float64)
    built = solver(covar, rows)
    factor = built.factor(tau)
    _, _, sigma, _, log_det = dense(covar, rows, tau)
    torch.testing.assert_close(factor.log_det, log_det)
    torch.testing.assert_close(factor.variance(), sigma.diagonal(), rtol=0, atol=1e-12)
    # The row of duplicates has a prior variance of no more than rounding.
    assert (built.variance <= built.rounding).tolist() == [True, False, False]


def test_rounding_is_far_below_real_variances() -> None:
    covar, rows, _, _ = problem(4, 3)
    built = RowSolver(covar, rows)
    terms = (rows.coefficients.square() * covar.diagonal()[rows.indices]).sum(-1)
    expected = 16 * torch.finfo(torch.float64).eps * terms
    torch.testing.assert_close(built.rounding, expected)


def test_the_smaller_space_is_chosen() -> None:
    for m, n, expected in ((3, 4, RowSolver), (4, 4, RowSolver), (5, 4, PointSolver)):
        covar, rows, _, _ = problem(m, n)
        assert type(choose_solver(covar, rows)) is expected


def test_noise_below_the_rounding_of_the_prior_is_an_error_that_says_so() -> None:
    covar = torch.tensor([[1.0, 1.0], [1.0, 1.0]])
    covar[0, 1] += 1e-6  # as rounding in single precision leaves it
    covar[1, 0] += 1e-6
    rows = SparseDesign(torch.tensor([[0, 1]]), torch.tensor([[1.0, -1.0]]), 2)
    solver = RowSolver(covar, rows)
    with pytest.raises(PrecisionError, match="double precision"):
        solver.factor(torch.tensor([1e7]))
