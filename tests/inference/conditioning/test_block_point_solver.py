"""Solvers of rows that share noise, against dense linear algebra."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from botorch_pref.inference.solvers import (
    BlockPointSolver,
    PointSolver,
    RowSolver,
    choose_solver,
)
from botorch_pref.linalg.sparse_design import (
    NoiseBlocks,
    SparseDesign,
    stack_noise_blocks,
)

NUM_POINTS, NUM_ROWS = 5, 11
SOLVERS = {"rows": RowSolver, "points": BlockPointSolver}
each_solver = pytest.mark.parametrize("solver", SOLVERS.values(), ids=SOLVERS.keys())


def problem(seed, batch=()):
    """Blocks of four, three and two rows, and two rows by themselves."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    pairs = torch.stack(
        [torch.randperm(NUM_POINTS, generator=generator)[:2] for _ in range(NUM_ROWS)]
    )
    rows = SparseDesign(pairs, normal(NUM_ROWS, 2), NUM_POINTS)
    index = torch.tensor([[0, 1, 2, 3], [5, 4, 6, 11], [9, 10, 11, 11]])
    root = normal(*batch, 3, 4, 2)
    root[..., 1, 3:, :] = 0
    root[..., 2, 2:, :] = 0
    noise = NoiseBlocks(index, root @ root.mT, NUM_ROWS)
    factor = normal(*batch, NUM_POINTS, NUM_POINTS)
    tau = normal(*batch, NUM_ROWS).exp()
    tau[..., 2] = 0
    return factor @ factor.mT, rows, noise, tau, normal(*batch, NUM_ROWS)


def dense(rows):
    return rows.apply_matrix(torch.eye(NUM_POINTS, dtype=torch.float64))


def close(got, want):
    torch.testing.assert_close(got, want, rtol=1e-8, atol=1e-8)


@each_solver
@pytest.mark.parametrize("batch", [(), (3,)])
def test_everything_is_what_dense_algebra_says(solver, batch) -> None:
    covar, rows, noise, tau, nu = problem(7, batch)
    a = dense(rows)
    c = a @ covar @ a.mT + noise.dense()
    t = torch.diag_embed(tau)
    b = torch.eye(NUM_ROWS, dtype=torch.float64) + c @ t
    sigma = torch.linalg.solve(b, c)
    w = t - t @ sigma @ t
    build = solver(covar, rows, noise)
    factor = build.factor(tau)
    close(build.variance, c.diagonal(dim1=-2, dim2=-1))
    close(build.covariance_times(nu), (c @ nu.unsqueeze(-1)).squeeze(-1))
    close(factor.log_det, torch.linalg.slogdet(b).logabsdet)
    close(factor.mean(nu), (sigma @ nu.unsqueeze(-1)).squeeze(-1))
    close(factor.variance(), sigma.diagonal(dim1=-2, dim2=-1))
    close(factor.precision(), a.mT @ w @ a)
    close(factor.noise_precision(noise), noise.take_square(w))
    root = factor.root()
    close(root @ root.mT, a.mT @ w @ a)
    root = factor.row_root()
    close(root @ root.mT, sigma)
    targets = torch.stack([nu, 2 * nu + 1], dim=-1)
    close(factor.weights(targets), a.mT @ w @ targets)


def test_blocks_of_rows_without_noise_are_those_of_the_row_precision() -> None:
    """What a factor of points says of blocks, whatever noise there is."""
    covar, rows, noise, tau, _ = problem(3)
    a = dense(rows)
    t = tau.diag()
    c = a @ covar @ a.mT
    sigma = torch.linalg.solve(torch.eye(NUM_ROWS, dtype=torch.float64) + c @ t, c)
    got = PointSolver(covar, rows).factor(tau).noise_precision(noise)
    close(got, noise.take_square(t - t @ sigma @ t))


def test_the_smaller_space_is_chosen() -> None:
    covar, rows, noise, _, _ = problem(1)
    assert isinstance(choose_solver(covar, rows, noise), BlockPointSolver)
    assert isinstance(choose_solver(covar, rows), PointSolver)
    few = SparseDesign(rows.indices[:4], rows.coefficients[:4], NUM_POINTS)
    block = NoiseBlocks(noise.rows[:1], noise.covariance[:1], 4)
    assert isinstance(choose_solver(covar, few, block), RowSolver)


@given(st.lists(st.tuples(st.integers(1, 4), st.booleans()), min_size=1, max_size=5))
def test_stacked_noise_is_block_diagonal(parts) -> None:
    generator = torch.Generator().manual_seed(0)
    blocks, matrices = [], []
    for size, shares in parts:
        root = torch.randn(1, size, size, generator=generator, dtype=torch.float64)
        covariance = root @ root.mT
        noise = NoiseBlocks(torch.arange(size).unsqueeze(0), covariance, size)
        blocks.append((noise if shares else None, size))
        matrices.append(covariance[0] if shares else torch.zeros(size, size).double())
    stacked = stack_noise_blocks(blocks)
    want = torch.block_diag(*matrices)
    if stacked is None:
        assert float(want.abs().sum()) == 0
        return
    close(stacked.dense(), want)
    close(stacked.diagonal(), want.diagonal())
    values = torch.randn(len(want), 2, generator=generator, dtype=torch.float64)
    close(stacked.times(values), want @ values)
