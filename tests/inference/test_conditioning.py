"""Conditioning on sites, by every solver, against dense inverses."""

import pytest
import torch
from cases import in_turn
from hypothesis import given
from hypothesis import strategies as st

from botorch_pref.errors import PrecisionError
from botorch_pref.inference import Engine, Solution
from botorch_pref.inference.conditioning import (
    Balance,
    NegativeSites,
    SitePosterior,
    SiteSolver,
    site_posterior,
)
from botorch_pref.inference.inducing import FeatureSolver, InducingPrior, inverse_root
from botorch_pref.inference.solvers import PointSolver, RowSolver, choose_solver
from botorch_pref.linalg import SparseDesign, psd_root
from botorch_pref.linalg.sparse_design import NoiseBlocks, stack_noise_blocks


def all_features(covar, rows, noise=None):
    """Makes the solver on features, with all points as inducing points."""
    variance = covar.diagonal(dim1=-2, dim2=-1)
    prior = InducingPrior(covar, variance, covar, covar, variance)
    root = inverse_root(covar, torch.finfo(covar.dtype).eps)
    return FeatureSolver(prior, root, rows, noise)


each_solver = pytest.mark.parametrize(
    "solver", [RowSolver, PointSolver, all_features], ids=["rows", "points", "features"]
)


class Problem:
    """Random rows of random points, and precisions of either sign."""

    def __init__(
        self, m, n, batch=(), precision=1.0, noise=False, share=0.0, covar=None
    ):
        self.generator = torch.Generator().manual_seed(m * n)
        root = self.normal(*batch, n, n)
        self.covar = root @ root.mT + 0.1 * torch.eye(n, dtype=torch.float64)
        if covar is not None:
            self.covar = covar
        index = torch.randint(n, (m, 2), generator=self.generator)
        self.rows = SparseDesign(index, self.normal(m, 2), n)
        self.noise = self._blocks(m, batch) if noise else None
        self.a = self.rows.dense()
        self.c = self.a @ self.covar @ self.a.mT
        if self.noise is not None:
            self.c = self.c + self.noise.dense()
        self.eye = torch.eye(m, dtype=torch.float64)
        self.tau = precision * self.normal(*batch, m).square()
        # A site without precision is an answer that says nothing.
        self.tau[..., 0] = 0.0
        if share:
            self._widen(share, batch)
        t = torch.diag_embed(self.tau)
        # Sigma = C (I + T C)^-1 and W = T (I + C T)^-1 need no inverse of C or T.
        self.sigma = self.c @ torch.linalg.inv(self.eye + t @ self.c)
        self.w = t @ torch.linalg.inv(self.eye + self.c @ t)
        self.log_det = torch.linalg.slogdet(self.eye + t @ self.c).logabsdet

    def normal(self, *shape):
        return torch.randn(*shape, generator=self.generator, dtype=torch.float64)

    def _blocks(self, m, batch):
        """Makes noise that four, three and two rows share."""
        index = torch.tensor([[0, 1, 2, 3], [5, 4, 6, m], [m - 2, m - 1, m, m]])
        root = self.normal(*batch, 3, 4, 2)
        root[..., 1, 3:, :] = 0
        root[..., 2, 2:, :] = 0
        return NoiseBlocks(index, root @ root.mT, m)

    def _widen(self, share, batch):
        """Makes every other precision negative: a share of what leaves a posterior."""
        m = self.tau.shape[-1]
        sign = torch.ones(*batch, m, dtype=torch.float64)
        sign[..., 1::2] = -1
        if batch:
            # A row may be negative in one element of the batch only.
            sign.view(-1, m)[0, 1] = 1
        positive = torch.diag_embed(self.tau * sign.clamp_min(0))
        sigma = self.c @ torch.linalg.inv(self.eye + positive @ self.c)
        negative = (self.tau * (-sign).clamp_min(0)).sqrt()
        scaled = negative.unsqueeze(-1) * sigma * negative.unsqueeze(-2)
        largest = torch.linalg.eigvalsh(scaled).amax(-1, keepdim=True)
        self.tau = torch.where(sign > 0, self.tau, -share * self.tau / largest)

    def slopes_in_rows(self, factor):
        """Derivatives in the coefficients: by the form, and by the dense matrix."""
        weights = self.rows.coefficients.clone().requires_grad_()
        rows = SparseDesign(self.rows.indices, weights, self.rows.num_points)
        c = self.c - self.a @ self.covar @ self.a.mT
        c = c + rows.dense() @ self.covar @ rows.dense().mT
        t = torch.diag_embed(self.tau)
        truth = 0.5 * torch.linalg.slogdet(self.eye + t @ c).logabsdet
        forms = factor.rows_form(rows, self.covar), truth
        return [torch.autograd.grad(form.sum(), weights)[0] for form in forms]

    def assert_agrees(self, factor, built, atol):
        """Compares every quantity of a posterior of sites with the inverses."""
        values = self.normal(*self.tau.shape, 3)
        q, p, h = factor.root(), factor.widening(), factor.row_root()
        w_points = self.a.mT @ self.w @ self.a
        balance = factor.solve(values)
        forces = values - torch.diag_embed(self.tau) @ self.sigma @ values
        energy = (forces * (self.sigma @ values)).sum(-2)
        variance = self.sigma.diagonal(dim1=-2, dim2=-1)
        softening = self.eye - self.sigma @ torch.diag_embed(self.tau)
        explained = q @ q.mT - (0.0 if p is None else p @ p.mT)
        pairs = {
            "log det": (factor.log_det, self.log_det),
            "forces": (balance.forces, forces),
            "moved": (balance.moved, self.sigma @ values),
            "weights of points": (balance.weights, self.a.mT @ forces),
            "energy": (balance.energy, energy),
            "product": (factor.covariance_times(values), self.sigma @ values),
            "mean": (factor.mean(values[..., 0]), (self.sigma @ values)[..., 0]),
            "variance": (factor.variance(), variance),
            "cavities": (
                factor.cavity_ratio(factor.variance()),
                softening.diagonal(dim1=-2, dim2=-1),
            ),
            "weights": (factor.weights(values), self.a.mT @ self.w @ values),
            "root": (explained, w_points),
            "precision": (factor.precision(), w_points),
            "influence": (factor.influence(), softening @ self.a),
            "row root": (h @ h.mT, self.sigma),
            "rows form": self.slopes_in_rows(factor),
            "squared covariance": (
                factor.squared_covariance()(values[..., 0]),
                (self.sigma.square() @ values)[..., 0],
            ),
        }
        if self.noise is not None:
            blocks = factor.noise_precision(self.noise), self.noise.take_square(self.w)
            pairs["noise"] = blocks
        else:
            # Newton's step, in the space of the solver.
            pull = built.gather(values[..., 0])
            step, moved = factor.respond(pull), (self.sigma @ values)[..., 0]
            pairs["opposed"] = step.opposed, built.gather(forces[..., 0])
            pairs["step"] = built.rows_of(step.moved), moved
            pairs["decrement"] = step.decrement, (values[..., 0] * moved).sum(-1)
        for name, (got, want) in pairs.items():
            near = atol * (1 + float(want.abs().max()))
            want = want.expand_as(got)
            torch.testing.assert_close(
                got, want, rtol=0, atol=near, msg=lambda m, name=name: f"{name}: {m}"
            )


@each_solver
@pytest.mark.parametrize("batch", [(), (2, 3)])
@pytest.mark.parametrize(
    ("size", "noise"),
    [((4, 3), False), ((2, 5), False), ((6, 6), False), ((11, 5), True)],
)
@pytest.mark.parametrize("precision", [1e-6, 1.0, 1e4])
def test_every_quantity_agrees_with_dense_inverses(
    solver, batch, size, noise, precision
) -> None:
    problem = Problem(*size, batch, precision, noise)
    built = solver(problem.covar, problem.rows, problem.noise)
    prior = problem.c.diagonal(dim1=-2, dim2=-1)
    torch.testing.assert_close(built.variance, prior, rtol=1e-12, atol=1e-12)
    # Digits lost to the condition of B, up to precision times variance.
    atol = 1e-12 * (1 + precision * 100)
    problem.assert_agrees(built.factor(problem.tau), built, atol)


@each_solver
@pytest.mark.parametrize("batch", [(), (2, 3)])
@pytest.mark.parametrize(
    ("size", "noise"), [((4, 3), False), ((2, 5), False), ((11, 5), True)]
)
@pytest.mark.parametrize("share", [1e-6, 0.5, 0.99])
def test_so_it_does_where_precisions_are_negative(
    solver, batch, size, noise, share
) -> None:
    problem = Problem(*size, batch, 1.0, noise, share)
    built = solver(problem.covar, problem.rows, problem.noise)
    factor, proper = site_posterior(built, problem.tau)
    assert isinstance(factor, NegativeSites)
    assert bool(proper.all())
    assert torch.equal(factor.tau, problem.tau)
    # Digits lost to 1 - share and to the condition of the dense inverses.
    problem.assert_agrees(factor, built, atol=1e-10 / (1 - share))


@in_turn(
    ("num_items", "batch", "noise"),
    [
        (items, batch, noise)
        for items in (6, 102)
        for batch in ((), (2,))
        for noise in (False, True)
    ],
)
def test_points_that_few_others_say_anything_of_are_no_exception(
    num_items, batch, noise
) -> None:
    """Items of two categories each, so few that they are dense, and more."""
    generator = torch.Generator().manual_seed(num_items)
    order = torch.randperm(2 * num_items, generator=generator)
    agreement = torch.tensor([[1.5, 0.9], [0.9, 1.5]], dtype=torch.float64)
    covar = torch.kron(torch.eye(num_items, dtype=torch.float64), agreement)
    covar = covar[order][:, order]
    problem = Problem(2 * num_items + 9, len(covar), batch, noise=noise, covar=covar)
    built = PointSolver(covar, problem.rows, problem.noise)
    assert (built.sparse_root is not None) == (num_items > 100)
    problem.assert_agrees(built.factor(problem.tau), built, atol=1e-11)


class DenseSites(SitePosterior):
    """Solver as a newcomer writes it: five methods, here by dense inverses."""

    def __init__(self, problem: Problem) -> None:
        self.rows, self.tau, self._given = problem.rows, problem.tau, problem

    @property
    def log_det(self):
        return self._given.log_det

    def solve(self, shifts):
        moved = self._given.sigma @ shifts
        forces = shifts - self.tau.unsqueeze(-1) * moved
        weights = self.rows.adjoint_matrix(forces)
        return Balance(forces, moved, weights, (forces * moved).sum(-2))

    def variance(self):
        return self._given.sigma.diagonal(dim1=-2, dim2=-1)

    def root(self):
        return psd_root(self._given.a.mT @ self._given.w @ self._given.a)

    def row_root(self):
        return psd_root(self._given.sigma)


@in_turn(("m", "noise"), [(4, False), (11, True)])
def test_five_methods_are_a_posterior_of_sites(m, noise) -> None:
    problem = Problem(m, 5, (2,), noise=noise)
    written = {name for name in vars(DenseSites) if not name.startswith("_")}
    assert SitePosterior.__abstractmethods__ == written
    built = RowSolver(problem.covar, problem.rows, problem.noise)
    problem.assert_agrees(DenseSites(problem), built, atol=1e-10)


@in_turn("protocol", [SitePosterior, SiteSolver, Engine, Solution])
def test_a_protocol_asks_for_five_methods_at_most(protocol) -> None:
    assert 1 <= len(protocol.__abstractmethods__) <= 5


@each_solver
def test_where_there_is_no_posterior_it_says_so(solver) -> None:
    problem = Problem(6, 4, (2,), share=0.5)
    tau = problem.tau
    tau[1] = torch.where(tau[1] < 0, 2.5 * tau[1], tau[1])
    built = solver(problem.covar, problem.rows)
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
def test_a_singular_prior_is_ordinary_input(solver) -> None:
    """Two equal points: the difference of the two is known to be zero."""
    problem = Problem(3, 3)
    problem.covar = torch.tensor(
        [[1.0, 1.0, 0.3], [1.0, 1.0, 0.3], [0.3, 0.3, 1.0]], dtype=torch.float64
    )
    signs = torch.tensor([[1.0, -1.0]] * 3, dtype=torch.float64)
    rows = SparseDesign(torch.tensor([[0, 1], [0, 2], [2, 1]]), signs, 3)
    tau = torch.tensor([2.0, 0.5, 3.0], dtype=torch.float64)
    built = solver(problem.covar, rows)
    factor, proper = site_posterior(built, tau)
    assert bool(proper)
    assert factor.widening() is None
    c = rows.dense() @ problem.covar @ rows.dense().mT
    b = problem.eye + tau.diag() @ c
    sigma, log_det = c @ torch.linalg.inv(b), torch.linalg.slogdet(b).logabsdet
    torch.testing.assert_close(factor.log_det, log_det)
    torch.testing.assert_close(factor.variance(), sigma.diagonal(), rtol=0, atol=1e-12)
    # The row of duplicates has a prior variance of no more than rounding.
    assert (built.variance <= built.rounding).tolist() == [True, False, False]
    terms = torch.full((3,), 2.0, dtype=torch.float64)
    expected = 16 * torch.finfo(torch.float64).eps * terms
    torch.testing.assert_close(built.rounding, expected)


def test_the_smaller_space_is_chosen() -> None:
    for m, n, expected in ((3, 4, RowSolver), (4, 4, RowSolver), (5, 4, PointSolver)):
        problem = Problem(m, n)
        assert type(choose_solver(problem.covar, problem.rows)) is expected


def test_noise_below_the_rounding_of_the_prior_is_an_error_that_says_so() -> None:
    covar = torch.tensor([[1.0, 1.0], [1.0, 1.0]])
    covar[0, 1] += 1e-6  # as rounding in single precision leaves it
    covar[1, 0] += 1e-6
    rows = SparseDesign(torch.tensor([[0, 1]]), torch.tensor([[1.0, -1.0]]), 2)
    solver = RowSolver(covar, rows)
    with pytest.raises(PrecisionError, match="double precision"):
        solver.factor(torch.tensor([1e7]))


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
    torch.testing.assert_close(stacked.dense(), want)
    torch.testing.assert_close(stacked.diagonal(), want.diagonal())
    values = torch.randn(len(want), 2, generator=generator, dtype=torch.float64)
    torch.testing.assert_close(stacked.times(values), want @ values)
