"""Answers that are far more precise than the prior, against many digits."""

from dataclasses import replace

import mpmath as mp
import pytest
import torch
from truths import many_digits, precise_answers
from truths.engines import expectation_propagation, laplace

from botorch_pref.errors import InferenceWarning
from botorch_pref.inference import ExpectationPropagation, Laplace, UtilityPrior
from botorch_pref.inference.conditioning import lost_digits, site_posterior
from botorch_pref.inference.solvers import PointSolver, RowSolver
from botorch_pref.likelihoods.factors import BoxFactors
from botorch_pref.linalg import SparseDesign, pair_rows, point_rows

ENGINES = {"ep": expectation_propagation, "laplace": laplace}
each_engine = pytest.mark.parametrize("by", ENGINES)
each_dtype = pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)


@each_engine
@each_dtype
@pytest.mark.parametrize("ratio", [1.0, 1e2, 1e3, 1e5, 1e7])
def test_one_middle_level(by, dtype, ratio) -> None:
    problem = precise_answers.problem("one level", ratio, dtype)
    solution = precise_answers.solve(ENGINES[by], problem)
    off = precise_answers.errors(problem, solution, by)
    eps = torch.finfo(dtype).eps
    # What is left unmatched, and rounding of a mean so many deviations off the prior.
    assert off.mean_in_deviations <= solution.residual + 50 * eps * (1 + ratio**0.5)
    assert off.log_evidence <= 20 * eps
    # The prior variance less what is explained of it is known to rounding of the prior.
    assert off.variance_share <= solution.residual + 10 * eps * (1 + ratio)
    assert solution.rounding == pytest.approx(eps * ratio, rel=2, abs=1e-4)


@each_engine
@pytest.mark.parametrize(
    ("name", "ratio", "dtype"),
    [
        ("levels", 1e6, torch.float64),
        ("levels", 1e3, torch.float32),
        ("near-copies", 1e6, torch.float64),
        ("contradictory levels", 1e6, torch.float64),
        ("contradictory levels", 1e3, torch.float32),
        ("ties", 1e6, torch.float64),
        ("ties", 1e3, torch.float32),
        ("wins", 1e3, torch.float32),
    ],
)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_several_answers(by, name, ratio, dtype, seed) -> None:
    problem = precise_answers.problem(name, ratio, dtype, seed)
    solution = precise_answers.solve(ENGINES[by], problem)
    off = precise_answers.errors(problem, solution, by)
    # What the engine states is one error; predictions sum as many as there are points.
    points = problem.covar.shape[-1]
    allowed = 2 * solution.residual + points * solution.rounding
    assert solution.converged
    assert off.mean_in_deviations <= allowed
    assert off.variance_share <= 3 * allowed
    assert off.log_evidence <= allowed


@pytest.mark.parametrize("solver", [RowSolver, PointSolver])
@pytest.mark.parametrize("signs", ["positive", "vague", "mixed"])
@pytest.mark.parametrize(
    ("dtype", "ratio"),
    [(torch.float64, 1e2), (torch.float64, 1e7), (torch.float32, 1e4)],
    ids=str,
)
def test_forces_and_means_of_sites_of_any_sign(solver, signs, dtype, ratio) -> None:
    generator = torch.Generator().manual_seed(3)

    def uniform(*shape):
        return torch.rand(*shape, generator=generator, dtype=torch.float64)

    x = uniform(4, 1)
    covar = torch.exp(-2 * (x - x.mT).square()).to(dtype)
    signs_of = torch.tensor([1.0, -1.0], dtype=dtype).repeat(6, 1)
    # The last four see one point, and the first two a difference.
    signs_of[2:, 1] = 0.0
    pairs = torch.tensor([[0, 1], [2, 3], [1, 1], [2, 2], [3, 3], [0, 0]])
    rows = SparseDesign(pairs, signs_of, 4)
    tau = ratio * 10 ** (-2 * uniform(6))
    if signs != "positive":
        tau[1], tau[4] = 1e-20, 0.0
    if signs == "mixed":
        tau[1], tau[4] = -0.3, -1e-9
    tau = tau.to(dtype)
    shift = (tau * (2 * uniform(6) - 1) + uniform(6)).to(dtype)
    built = solver(covar, rows)
    factor, proper = site_posterior(built, tau)
    assert bool(proper.all())
    balance = factor.solve(shift[:, None])
    exact_forces, moved, weights = (
        many_digits.exact(v.squeeze(-1))
        for v in (balance.forces, balance.moved, balance.weights)
    )
    with mp.workdps(many_digits.DIGITS):
        design = many_digits.exact(rows.apply_matrix(torch.eye(4, dtype=dtype)))
        k = many_digits.exact(covar)
        c = design * k * design.T
        sigma, forces, _ = many_digits.conditioned(
            c, many_digits.exact(tau), many_digits.exact(shift)
        )
        # Of predictions at the rows, in their posterior deviations.
        by_weights = design * k * mp.matrix(weights) - c * forces
        by_means = mp.matrix(moved) - c * forces
        deviations = [mp.sqrt(sigma[i, i]) for i in range(6)]
        off = [
            max(abs(v[i]) / deviations[i] for i in range(6))
            for v in (by_weights, by_means)
        ]
        # Forces stay with their own rows, where they are compared with slopes.
        wrong = mp.matrix(exact_forces) - forces
        off += [abs(wrong[i]) * deviations[i] for i in range(6)]
        # What is left of a change of the prior means, beside those that change.
        inverse = (mp.eye(6) + c * mp.diag(many_digits.exact(tau))) ** -1
        left_of_it = many_digits.exact(factor.influence()) - inverse * design
        off += [abs(v) for v in left_of_it]
        cavity_ratio = many_digits.exact(factor.cavity_ratio(factor.variance()))
        shares = [
            abs(cavity_ratio[i] / (1 - tau[i].item() * sigma[i, i]) - 1)
            for i in range(6)
        ]
    # The targets are that far from each other in posterior deviations, and more.
    allowed = 100 * torch.finfo(dtype).eps * ratio
    assert float(max(off)) <= allowed
    assert float(max(shares)) <= allowed
    eps = torch.finfo(dtype).eps
    assert lost_digits(built, factor, balance.of_column(), eps) <= allowed


@pytest.mark.parametrize("solver", [RowSolver, PointSolver])
@pytest.mark.parametrize("precision", [1e3, 1e12])
def test_rounding_is_the_same_in_other_units_of_utility(solver, precision) -> None:
    x = torch.tensor([0.0, 0.01, 0.5, 0.9]).double()
    covar = torch.exp(-2 * (x - x.unsqueeze(-1)).square())
    tau = precision * torch.tensor([1.0, 0.3, 0.1]).double()
    shift = tau * torch.tensor([0.5, -1.0, 0.2]).double()
    roundings = []
    for unit in (1.0, 2.0**-10, 2.0**10):
        rows = pair_rows(torch.tensor([[0, 1], [1, 2], [3, 0]]), 4, x)
        rows = replace(rows, coefficients=unit * rows.coefficients)
        built = solver(covar / unit**2, rows)
        factor = built.factor(tau)
        balance = factor.solve(shift[:, None]).of_column()
        roundings.append(lost_digits(built, factor, balance, torch.finfo(x.dtype).eps))
    # Above a ten thousandth it is the exact one, and below a bound.
    assert (roundings[0] > 1e-4) == (precision > 1e3)
    assert roundings[1:] == pytest.approx([roundings[0], roundings[0]], rel=1e-9)


@pytest.mark.parametrize("engine", [ExpectationPropagation(), Laplace()])
def test_digits_that_are_gone_are_said_to_be(engine) -> None:
    for ratio, dtype, says in [
        (1e3, torch.float32, False),
        (1e6, torch.float32, True),
        (1e6, torch.float64, False),
    ]:
        problem = precise_answers.problem("levels", ratio, dtype)
        prior = UtilityPrior(torch.zeros(5, 1), problem.mean, problem.covar[:-1, :-1])
        solution = engine.solve(prior, problem.factors)
        assert any("digits are gone" in text for text in solution.failures) == says
        diagnostics = solution.diagnostics()
        assert diagnostics["converged"] == (not says)
        assert (diagnostics["rounding"] > 1e-2) == says
        if says:
            with pytest.warns(
                InferenceWarning, match="torch.float32.*double precision"
            ):
                solution.warn("It")


def contradictory_levels(seed: int, order: int, ratio: float):
    """Makes sixty levels of four points near each other, heard with unit noise."""
    generator = torch.Generator().manual_seed(seed)

    def uniform(*shape):
        return torch.rand(*shape, generator=generator, dtype=torch.float64)

    x = uniform(4, 1)
    covar = ratio * torch.exp(-0.02 * (x - x.mT).square())
    values, vectors = torch.linalg.eigh(covar)
    normal = torch.randn(4, generator=generator, dtype=torch.float64)
    utility = vectors @ (values.clamp_min(0).sqrt() * normal)
    index = torch.arange(60) % 4
    middle = utility[index] + 4 * uniform(60) - 2
    below, above = 3 * uniform(60) + 0.1, 3 * uniform(60) + 0.1
    shuffle = torch.randperm(60, generator=torch.Generator().manual_seed(order))
    ends = (middle - below)[shuffle], (middle + above)[shuffle]
    rows = point_rows(index[shuffle], 4, covar)
    return covar, BoxFactors(rows, torch.ones(60, dtype=torch.float64), *ends)


@each_engine
@pytest.mark.parametrize("ratio", [1e6, 1e8, 1e9])
@pytest.mark.parametrize("seed", [1, 2])
def test_the_order_of_contradictory_answers_is_one_of_rounding(by, ratio, seed) -> None:
    means, stated = [], 0.0
    for order in range(5):
        covar, factors = contradictory_levels(seed, order, ratio)
        solution = ENGINES[by](covar, torch.zeros(4, dtype=torch.float64), factors)
        assert solution.converged
        row = [int((factors.rows.indices[:, 0] == i).nonzero()[0]) for i in range(4)]
        means.append(covar @ solution.weights / solution.factor.variance()[row].sqrt())
        stated = max(stated, solution.rounding + solution.residual)
    spread = torch.stack(means).amax(0) - torch.stack(means).amin(0)
    assert float(spread.max()) <= 2 * stated
    # Sums of four terms of the means, each known to rounding of the prior.
    assert stated <= 1e-7 + 1000 * torch.finfo(torch.float64).eps * ratio


@each_dtype
@pytest.mark.parametrize("ratio", [1e2, 1e4, 1e6, 2e7])
def test_the_evidence_of_one_win_is_that_at_the_mode_itself(dtype, ratio) -> None:
    """Its slope in the mode is a thousand nats a posterior deviation here."""
    covar = ratio * torch.eye(2, dtype=dtype)
    zero, noise = torch.zeros(1, dtype=dtype), torch.ones(1, dtype=dtype)
    rows = pair_rows(torch.tensor([[0, 1]]), 2, covar)
    factors = BoxFactors(rows, noise, zero, zero + torch.inf)
    solution = laplace(covar, torch.zeros(2, dtype=dtype), factors)
    assert solution.converged
    with mp.workdps(40):
        prior = 2 * mp.mpf(ratio)

        def pull(z):
            return mp.npdf(z) / mp.ncdf(z)

        mode = mp.findroot(
            lambda z: pull(z) - z / prior, (0, mp.sqrt(prior)), solver="anderson"
        )
        curvature = pull(mode) * (pull(mode) + mode)
        truth = mp.log(mp.ncdf(mode)) - mode**2 / (2 * prior)
        truth -= mp.log1p(prior * curvature) / 2
    # A density exp(-z^2 / 2) is known to a rounding of z^2 / 2, and its logarithm moves
    # by z times that of z; for some operations each.
    allowed = 10 * (1 + float(mode) ** 2) * torch.finfo(dtype).eps
    assert abs(float(solution.log_evidence) - float(truth)) <= allowed
