"""Laplace and EP on every kind of factor, against quadrature and each other.

Each row of the table PROBLEMS is run through each engine; a class of factors without a
row fails.
"""

import inspect
import math
from typing import ClassVar

import numpy as np
import pytest
import torch
from draws import uniform
from scipy import optimize, special, stats
from torch.distributions import Bernoulli
from truths.engines import expectation_propagation, laplace

from botorch_pref import LaplacePreferenceGP
from botorch_pref.errors import BotorchPrefError
from botorch_pref.feedback import (
    Choices,
    Comparisons,
    Rankings,
    Ratings,
    Strengths,
    Validity,
)
from botorch_pref.inference.conditioning import Response
from botorch_pref.inference.inducing import BlurredFactors
from botorch_pref.inference.laplace import Laplace, Point, find_mode
from botorch_pref.likelihoods import (
    AffineProbitLikelihood,
    BetaRatingLikelihood,
    DensityFactors,
    Factors,
    LapsingProbitLikelihood,
    PairwiseBetaLikelihood,
    PairwiseLogitLikelihood,
    PairwiseProbitLikelihood,
    PlackettLuceLikelihood,
    PositiveParameter,
    PreferenceLikelihood,
    RaoKupperLikelihood,
    register_positive,
)
from botorch_pref.likelihoods.factors import CorrelatedBoxFactors, joint_factors
from botorch_pref.likelihoods.lapses import LapsingBoxes
from botorch_pref.likelihoods.logit import PlackettLuceFactors, SoftmaxFactors

ENGINES = {"laplace": laplace, "ep": expectation_propagation}
each_engine = pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES.keys())

PAIRS = torch.tensor([[0, 1], [2, 1], [3, 2], [0, 3], [1, 4]])
TIES = torch.tensor([[0, 2], [4, 3]])
VALID = Validity(torch.tensor([0, 4, 1]), torch.tensor([True, False, True]))
# The last two are answers that the others make unlikely: they bend the wrong way.
STRENGTHS = Strengths(
    torch.tensor([[0, 1], [2, 1], [3, 2], [0, 3], [1, 4], [0, 1], [1, 2]]),
    torch.tensor([0.9, 0.6, 0.7, 0.55, 0.3, 0.02, 0.97]),
)
RATINGS = Ratings(torch.tensor([0, 4, 1, 4]), torch.tensor([0.7, 0.2, 0.5, 0.98]))


class Problem:
    """Points, a prior with three hyper-parameters, and answers."""

    def __init__(self, *blocks, scale=2.0, noise=0.5, threshold=0.4, far=1.0):
        self.points = uniform(5, 2, seed=1)
        # log lengthscale, log output scale, a constant and a slope of the mean
        self.prior = torch.tensor(
            [math.log(0.6), math.log(scale), 0.3, far], dtype=torch.float64
        ).requires_grad_()
        self.blocks, self.likelihoods = [], []
        for kind, block in blocks:
            module = kind().double()
            if issubclass(kind, PairwiseProbitLikelihood):
                module = kind(tie_threshold=threshold).double()
                module.tie_threshold = threshold
            if hasattr(module, "noise"):
                module.noise = noise
                module.raw_noise.requires_grad_()
            self.blocks.append(block)
            self.likelihoods.append(module)

    @property
    def parameters(self):
        return [self.prior, *(p for m in self.likelihoods for p in m.parameters())]

    def covariance(self):
        gaps = (self.points.unsqueeze(-2) - self.points.unsqueeze(-3)) / (
            self.prior[0].exp()
        )
        return self.prior[1].exp() * torch.exp(-0.5 * gaps.square().sum(-1))

    def mean(self):
        return self.prior[2] + self.prior[3] * (self.points[..., 0] - 0.5)

    def factors(self):
        n = self.points.shape[-2]
        return joint_factors(
            [
                m.factors(b, n)
                for m, b in zip(self.likelihoods, self.blocks, strict=True)
            ],
            [b.answer_counts if b.is_counted else None for b in self.blocks],
        )

    def arguments(self):
        return self.covariance(), self.mean(), self.factors()

    def detached(self, dtype=torch.float64):
        for module in self.likelihoods:
            module.to(dtype).requires_grad_(False)
        covar, mean = self.covariance().detach(), self.mean().detach()
        return covar.to(dtype), mean.to(dtype), self.factors()


class BlurredProblem(Problem):
    """Rows that are known up to noise, as sparse models see them."""

    def factors(self):
        exact = super().factors()
        blur = torch.linspace(0.1, 0.5, exact.rows.num_rows).to(exact.rows.coefficients)
        return BlurredFactors(exact, blur, None)


class LogisticByDensity(PreferenceLikelihood[Comparisons]):
    """The logistic likelihood as a user would write it."""

    explains: ClassVar = {Comparisons: DensityFactors}
    noise = PositiveParameter()

    def __init__(self):
        super().__init__()
        register_positive(self, "noise", 1.0, learned=True)

    def forward(self, function_samples):
        return Bernoulli(logits=function_samples / self.noise.sqrt())


WINS, WITH_TIES = Comparisons(PAIRS), Comparisons(PAIRS, TIES)
# Pairs answered both ways, and ties among them.
COUNTED = Comparisons(
    torch.tensor([[0, 1], [1, 0], [2, 1], [3, 0], [0, 3]]),
    torch.tensor([[1, 0], [2, 4]]),
    pair_counts=torch.tensor([7, 4, 1, 40, 1]),
    tie_counts=torch.tensor([3, 5]),
)
COUNTED_WINS = Comparisons(
    torch.tensor([[0, 1], [1, 0], [2, 1], [4, 0]]),
    pair_counts=torch.tensor([9, 4, 30, 1]),
)
VALIDITY, STRONG = (AffineProbitLikelihood, VALID), (PairwiseBetaLikelihood, STRENGTHS)
# A new kind of factor needs a row.
PROBLEMS = {
    "wins": [(PairwiseProbitLikelihood, WINS)],
    "mixed": [(PairwiseProbitLikelihood, WITH_TIES), VALIDITY],
    "logit": [(PairwiseLogitLikelihood, WINS)],
    "logit and validity": [(PairwiseLogitLikelihood, WINS), VALIDITY],
    "density": [(LogisticByDensity, WINS)],
    "counted": [(PairwiseProbitLikelihood, COUNTED), VALIDITY],
    "counted logit": [(PairwiseLogitLikelihood, COUNTED_WINS)],
    "counted logit with ties": [(RaoKupperLikelihood, COUNTED)],
    "strengths": [STRONG],
    "strengths, ratings and wins": [
        STRONG,
        (PairwiseProbitLikelihood, WITH_TIES),
        (BetaRatingLikelihood, RATINGS),
    ],
    "lapses": [(LapsingProbitLikelihood, WITH_TIES)],
    "counted lapses": [(LapsingProbitLikelihood, COUNTED)],
    "blurred": [(PairwiseProbitLikelihood, WITH_TIES)],
}
# Rows of a set are coupled, which EP does not take.
SETS = [
    (
        PlackettLuceLikelihood,
        Choices(torch.tensor([[0, 1, 2, 4], [3, 2, 1, -1]]), torch.tensor([2, 1])),
    ),
    (PlackettLuceLikelihood, Rankings(torch.tensor([[2, 0, 1, 3], [3, 4, 0, -1]]))),
]
# Those of the others are among these, together with factors of other kinds.
SOME = ["mixed", "density", "counted", "logit and validity", "counted logit"]
each_problem = pytest.mark.parametrize("name", PROBLEMS)
some_problems = pytest.mark.parametrize("name", [*SOME, "strengths, ratings and wins"])


def problem(name, **settings):
    kind = BlurredProblem if name == "blurred" else Problem
    return kind(*(PROBLEMS | {"sets": SETS})[name], **settings)


def concrete(cls):
    below = {leaf for child in cls.__subclasses__() for leaf in concrete(child)}
    return below if inspect.isabstract(cls) else below | {cls}


def test_every_kind_of_factor_has_a_row() -> None:
    # Correlated boxes are boxes with more unknowns: to an engine they are the same.
    # Lapsing boxes are the answers within the factors of lapses.
    within = {CorrelatedBoxFactors, LapsingBoxes, PlackettLuceFactors, SoftmaxFactors}
    kinds = {type(problem(name).factors()) for name in PROBLEMS}
    assert kinds == concrete(Factors) - within


def posterior(covar, mean, result):
    """Computes mean and covariance of f at the points by the predictive equation."""
    covar, mean = covar.double(), mean.double()
    explained = covar @ result.factor.root()
    shift = (covar @ result.weights.unsqueeze(-1)).squeeze(-1)
    covariance = covar - explained @ explained.mT
    if (widening := result.factor.widening()) is not None:
        widened = covar @ widening
        covariance = covariance + widened @ widened.mT
    return mean + shift, covariance


@each_problem
def test_tilted_moments_match_those_of_the_posterior(name) -> None:
    covar, mean, factors = problem(name).detached()
    result = expectation_propagation(covar, mean, factors)
    got_mean, got_covariance = posterior(covar, mean, result)
    rows = factors.rows
    z_mean, s = rows.apply(got_mean), rows.congruence(got_covariance).diagonal()
    cavity = 1 / (1 / s - result.sites.precision)
    cavity_mean = cavity * (z_mean / s - result.sites.shift)
    # Tilted moments by quadrature on each row.
    x, w = (torch.tensor(t) for t in np.polynomial.hermite_e.hermegauss(180))
    z = cavity_mean + cavity.sqrt() * x.unsqueeze(-1)
    mass = w.unsqueeze(-1) * factors.log_prob(z).value.exp()
    tilted = (mass * z).sum(0) / mass.sum(0)
    spread = (mass * (z - tilted).square()).sum(0) / mass.sum(0)
    torch.testing.assert_close(tilted, z_mean, rtol=0, atol=1e-5)
    torch.testing.assert_close(spread, s, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", [*PROBLEMS, "sets"])
@pytest.mark.parametrize("settings", [{}, {"scale": 100.0, "noise": 1e-2, "far": 20.0}])
def test_laplace_finds_the_mode_and_the_dense_evidence(name, settings) -> None:
    covar, mean, factors = problem(name, **settings).detached()
    result = laplace(covar, mean, factors)
    precision = torch.linalg.inv(covar)

    def negative(f):
        f = torch.as_tensor(f).requires_grad_()
        gap = f - mean
        value = factors.log_prob(factors.rows.apply(f)).value.sum() - 0.5 * (
            gap @ precision @ gap
        )
        (gradient,) = torch.autograd.grad(value, f)
        return -float(value.detach()), -gradient.numpy()

    optimum = optimize.minimize(
        negative, mean.numpy(), jac=True, method="BFGS", options={"gtol": 1e-9}
    )
    mode = torch.tensor(optimum.x)
    got_mean, got_covariance = posterior(covar, mean, result)
    torch.testing.assert_close(got_mean, mode, rtol=1e-5, atol=1e-5)

    def log_likelihood(f):
        return factors.log_prob(factors.rows.apply(f)).value.sum()

    hessian = -torch.autograd.functional.hessian(log_likelihood, got_mean)
    gap = got_mean - mean
    dense = (
        log_likelihood(got_mean)
        - 0.5 * gap @ precision @ gap
        - 0.5 * torch.linalg.slogdet(torch.eye(5) + covar @ hessian).logabsdet
    )
    torch.testing.assert_close(result.log_evidence, dense, rtol=1e-7, atol=1e-7)
    torch.testing.assert_close(
        got_covariance, torch.linalg.inv(precision + hessian), rtol=1e-5, atol=1e-6
    )


# How often one answer is given, and the prior mean and variance of its difference.
EQUAL_ANSWERS = [
    *((1, mean, 4.0) for mean in (-800.0, -6.0, 6.0, 800.0)),
    *((count, 0.0, 4.0) for count in (1, 30, 1000)),
    *((200, 0.0, variance) for variance in (20.0, 200.0, 2e6)),
]


@each_engine
@pytest.mark.parametrize(("count", "mean", "variance"), EQUAL_ANSWERS)
def test_equal_answers_in_one_dimension(count, mean, variance, engine) -> None:
    """One site has the moments of all of them under EP, their mode under Laplace."""
    block = Comparisons(PAIRS[:1], pair_counts=torch.tensor([count]))
    likelihood = PairwiseProbitLikelihood(1.0).double()
    factors = joint_factors([likelihood.factors(block, 2)], [block.answer_counts])
    covar = (variance / 2 * torch.eye(2).double()).requires_grad_()
    means = torch.tensor([mean, 0.0]).double().requires_grad_()
    result = engine(covar, means, factors)
    by_covar, by_mean = torch.autograd.grad(result.log_evidence, (covar, means))
    gap = (posterior(covar, means, result)[0] @ torch.tensor([1.0, -1]).double()).item()

    def hazard(z):
        return math.exp(stats.norm.logpdf(z) - stats.norm.logcdf(z))

    def slope(d):
        return count * hazard(d / 2**0.5) / 2**0.5 - (d - mean) / variance

    def log_joint(d):
        won = count * stats.norm.logcdf(d / 2**0.5)
        return won + stats.norm.logpdf(d, mean, variance**0.5)

    mode = optimize.brentq(slope, -900, 900, xtol=1e-13)
    if engine is laplace:
        z, h = mode / 2**0.5, hazard(mode / 2**0.5)
        bend = math.log1p(variance * count * h * (z + h) / 2)
        want = log_joint(mode) + 0.5 * math.log(2 * math.pi * variance) - 0.5 * bend
        assert gap == pytest.approx(mode, rel=1e-7)
        assert result.log_evidence.item() == pytest.approx(want, rel=1e-9, abs=1e-12)
        return
    # Trapezoids of a smooth function that vanishes at both ends.
    reach = 12 * variance**0.5
    d = np.linspace(min(mode, mean) - reach, max(mode, mean) + reach, 100_001)
    log_mass = log_joint(d) + math.log(d[1] - d[0])
    want = special.logsumexp(log_mass)
    share = np.exp(log_mass - want)
    assert result.log_evidence.item() == pytest.approx(want, rel=1e-11, abs=1e-9)
    assert gap == pytest.approx(share @ d, rel=1e-7)
    off = d - mean
    assert by_mean[0].item() == pytest.approx(share @ off / variance, rel=1e-6)
    by_scale = (share @ off**2 / variance - 1) / 2
    got = (by_covar * covar).sum().item()
    assert got == pytest.approx(by_scale, rel=1e-6, abs=2e-7)


FAR_APART, LITTLE_NOISE = {"scale": 10.0, "far": 800.0}, {"noise": 1e-4}
LARGE_SCALE = {"scale": 1e4, "far": 5.0}
# Simple answers are in the table of engines. Quadrature is slow, and EP fails on
# impossible answers; counted ones at a large scale are those with little noise.
GRADIENTS = [
    *((name, {}) for name in PROBLEMS if name not in ("wins", "logit")),
    *((name, change) for name in SOME for change in (FAR_APART, LITTLE_NOISE)),
    *((n, LARGE_SCALE) for n in (*SOME, "strengths") if n != "counted"),
]


@each_engine
@pytest.mark.parametrize(("name", "settings"), GRADIENTS)
def test_evidence_gradient_by_finite_differences(name, settings, engine) -> None:
    build = problem(name, **settings)
    result = engine(*build.arguments())
    assert result.converged
    gradients = torch.autograd.grad(result.log_evidence, build.parameters)

    def evidence():
        with torch.no_grad():
            # The solution does not depend on where it starts, its cost does.
            return float(engine(*build.arguments(), result.sites).log_evidence)

    # EP's evidence is stationary in its sites. Laplace's moves with the mode, which is
    # exact to 1.5e-8 deviations: by a hundred times as much where a deviation spans
    # many noises.
    error = 1e-13 * abs(float(result.log_evidence.detach())) + 1e-8
    if engine is laplace and settings:
        error += 2e-6
    generator = torch.Generator().manual_seed(0)
    for parameter, gradient in zip(build.parameters, gradients, strict=True):
        # One direction moves all entries, each by its own part of the step.
        parts = torch.rand(parameter.shape, generator=generator, dtype=torch.double)
        direction = (0.3 + 0.7 * parts) * torch.where(parts > 0.65, -1.0, 1.0)
        step, start = 5e-4, parameter.data.clone()
        differences = []
        for size in (step, 2 * step):
            parameter.data.copy_(start + size * direction)
            up = evidence()
            parameter.data.copy_(start - size * direction)
            differences.append((up - evidence()) / (2 * size))
        parameter.data.copy_(start)
        # Richardson: the error is of fourth order in the step.
        want = (4 * differences[0] - differences[1]) / 3
        got = float((gradient * direction).sum())
        # As exact as the largest of the parts, which may cancel.
        scale = float((gradient * direction).abs().sum())
        assert got == pytest.approx(want, rel=2e-5, abs=error / step + 2e-5 * scale)


@each_engine
@some_problems
def test_second_derivatives_of_the_evidence_are_refused(name, engine) -> None:
    """The closed form of the gradient would give some parts of them alone."""
    build = problem(name)
    result = engine(*build.arguments())
    slopes = torch.autograd.grad(
        result.log_evidence, build.parameters, create_graph=True
    )
    for slope, parameter in zip(slopes, build.parameters, strict=True):
        with pytest.raises(BotorchPrefError, match="take differences of gradients"):
            torch.autograd.grad(slope.sum(), parameter, retain_graph=True)


@each_engine
@some_problems
def test_gradient_reaches_a_dense_covariance_and_mean(name, engine) -> None:
    """In directions that no kernel has: entries of K and of the mean themselves."""
    covar, mean, factors = problem(name).detached()
    generator = torch.Generator().manual_seed(3)
    direction = torch.randn(5, 5, generator=generator, dtype=torch.float64)
    direction = direction + direction.mT
    shift = torch.randn(5, generator=generator, dtype=torch.float64)
    covar.requires_grad_()
    mean.requires_grad_()
    solution = engine(covar, mean, factors)
    by_covar, by_mean = torch.autograd.grad(solution.log_evidence, (covar, mean))
    # Rounding of all entries moves it by as much at most.
    moved = torch.finfo(covar.dtype).eps * (by_covar * covar).abs().sum()
    got = solution.evidence_rounding()
    torch.testing.assert_close(got, moved.detach(), rtol=1e-6, atol=0)
    covar, mean = covar.detach(), mean.detach()
    for got, move in (
        ((by_covar * direction).sum(), lambda t: (covar + t * direction, mean)),
        ((by_mean * shift).sum(), lambda t: (covar, mean + t * shift)),
    ):
        up, down = (engine(*move(t), factors).log_evidence for t in (1e-5, -1e-5))
        assert float(got) == pytest.approx(float(up - down) / 2e-5, rel=1e-4, abs=1e-5)


@each_engine
@some_problems
def test_single_precision_agrees_with_double(name, engine) -> None:
    settings = {"scale": 100.0, "noise": 1e-2}
    covar, mean, factors = problem(name, **settings).detached(torch.float32)
    got = engine(covar, mean, factors)
    covar, mean = covar.double(), mean.double()
    want = engine(covar, mean, problem(name, **settings).detached()[2])
    assert got.converged
    assert got.log_evidence.dtype == got.terms.weights.dtype == torch.float32
    # Of the same prior, with parameters of answers that are rounded.
    evidence = got.log_evidence.double()
    torch.testing.assert_close(evidence, want.log_evidence, rtol=1e-5, atol=1e-5)
    deviation = posterior(covar, mean, want)[1].diagonal().sqrt()
    gap = posterior(covar, mean, got)[0] - posterior(covar, mean, want)[0]
    assert float((gap / deviation).abs().max()) < 1e-5


def test_sites_too_precise_to_start_from_are_left() -> None:
    # Where a line search strays: beside this prior, rounding leaves such sites nothing.
    covar, mean, factors = problem("wins").detached()
    near = expectation_propagation(covar, mean, factors)
    strayed = 1e22 * torch.eye(len(covar), dtype=covar.dtype), mean, factors
    cold = expectation_propagation(*strayed)
    warm = expectation_propagation(*strayed, near.sites)
    assert cold.converged
    assert warm.converged
    torch.testing.assert_close(warm.log_evidence, cold.log_evidence)


def test_modes_of_many_points_are_those_of_plain_newton_steps() -> None:
    """Also where the fit before was of other scales, and its sites are the start."""
    generator = torch.Generator().manual_seed(2)
    points = torch.rand(320, 2, generator=generator, dtype=torch.double)
    pairs = torch.randint(0, 320, (900, 2), generator=generator)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    model = LaplacePreferenceGP(points, pairs, likelihood=PairwiseLogitLikelihood())
    eye, rows = torch.eye(320).double(), torch.arange(len(pairs))
    duels = torch.zeros(len(pairs), 320, dtype=torch.double)
    duels[rows, pairs[:, 0]], duels[rows, pairs[:, 1]] = 1.0, -1.0
    for scale in (3.0, 3.6):
        model.covar_module.outputscale = scale
        evidence = float(model.log_evidence().detach())
        covar = model.covar_module(points).to_dense().detach()
        f = torch.zeros(320).double()
        for _ in range(40):
            lost = torch.sigmoid(-(duels @ f))
            system = eye + covar @ (duels.mT * (lost * (1 - lost))) @ duels
            # Half of Newton's step never goes too far here.
            f = f + 0.5 * torch.linalg.solve(system, covar @ (duels.mT @ lost) - f)
        lost = torch.sigmoid(-(duels @ f))
        expected = lost.neg().log1p().sum() - 0.5 * lost @ (duels @ f)
        system = eye + covar @ (duels.mT * (lost * (1 - lost))) @ duels
        expected = expected - 0.5 * torch.logdet(system)
        assert evidence == pytest.approx(float(expected), abs=1e-6)


class Hill:
    """One over 300 numbers, whose top is at 1."""

    evaluations = 0

    def point(self, opposed, moved):
        self.evaluations += 1
        assert self.evaluations < 10, "the climb does not end"
        off = 1 - moved
        return Point(opposed, moved, off, -0.5 * off.square().sum(-1))

    def curvature(self, point):
        return self, torch.tensor(True)

    def respond(self, pull):
        return Response(pull, pull, pull.square().sum(-1))


class NoCurvature:
    """A curvature that answers every pull by a multiple that is no number."""

    def __init__(self, number):
        self.number = number

    def respond(self, pull):
        return Response(*[pull * self.number] * 2, pull.new_tensor(self.number))


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_an_earlier_curvature_that_is_no_number_is_left(number) -> None:
    hill, start = Hill(), torch.zeros(300).double()
    first, wrong = hill.point(start, start), NoCurvature(number)
    top, _, residual, _ = find_mode(hill, first, Laplace(1e-9, 10), wrong)
    torch.testing.assert_close(top.moved, torch.ones(300).double())
    assert residual < 1e-9
