"""Answers and parameters at the edges: what fails elsewhere must not fail here.

Every case runs on every engine that takes its answers. Gradients of the evidence are
compared with finite differences at the start, which is where the edges are.
"""

import math
import warnings
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from draws import uniform
from gpytorch.kernels import RBFKernel, ScaleKernel
from torch import Tensor

from botorch_pref import (
    AffineProbitLikelihood,
    BetaRatingLikelihood,
    Choices,
    Comparisons,
    EPPreferenceGP,
    InferenceWarning,
    LaplacePreferenceGP,
    OrdinalProbitLikelihood,
    OrdinalRatings,
    PairwiseBetaLikelihood,
    PairwiseLogitLikelihood,
    PairwiseProbitLikelihood,
    PlackettLuceLikelihood,
    PlackettLuceRegression,
    PreferenceMarginalLogLikelihood,
    Rankings,
    Ratings,
    SkewPreferenceGP,
    Strengths,
    Validity,
    VariationalPreferenceGP,
)
from botorch_pref.models import PreferenceGP

DOUBLE = torch.float64
LAPLACE, EP = LaplacePreferenceGP, EPPreferenceGP
SKEW, VARIATIONAL = SkewPreferenceGP, VariationalPreferenceGP
ALL = (LAPLACE, EP, SKEW, VARIATIONAL)
BOXED = (LAPLACE, EP, SKEW)
GAUSSIAN = (LAPLACE, EP)
SOFTMAX = (LAPLACE, VARIATIONAL)


def nearer(points: Tensor, count: int) -> Tensor:
    """Draws duels of random pairs, won by the point that is nearer to 0.6."""
    generator = torch.Generator().manual_seed(1)
    pairs = torch.stack(
        [torch.randperm(len(points), generator=generator)[:2] for _ in range(count)]
    )
    distance = (points - 0.6).square().sum(-1)[pairs]
    first = distance[:, 0] < distance[:, 1]
    return torch.where(first[:, None], pairs, pairs.flip(-1))


def spiral(count: int) -> tuple[Tensor, Tensor]:
    """Makes points that crowd around an optimum, each better than the one before."""
    step = torch.arange(count + 1, dtype=DOUBLE)
    circle = torch.stack([(2.4 * step).cos(), (2.4 * step).sin()], dim=-1)
    points = 0.6 + 0.4 * (0.79**step)[:, None] * circle
    return points, torch.stack([torch.arange(count) + 1, torch.arange(count)], dim=-1)


POINTS = uniform(8, 2)
WINS = nearer(POINTS, 12)
TIES = torch.tensor([[0, 1], [2, 3]])
WIN = torch.tensor([[0, 1]])
EVERY_PAIR = torch.combinations(torch.arange(5))
LEVELS = OrdinalRatings(torch.arange(8), torch.tensor([0, 1, 2, 3, 3, 2, 1, 0]), 4)
SETS = torch.tensor([[0, 1, 2, 3], [4, 5, 6, 7], [1, 3, 5, -1]])
CHOICES, RANKINGS = Choices(SETS, torch.tensor([1, 6, 3])), Rankings(SETS)
UNIT = torch.tensor(
    [0.6, 0.8, 0.9, 0.35, 0.7, 0.55, 0.9, 0.6, 0.8, 0.9, 0.35, 0.7], dtype=DOUBLE
)
ENDS = torch.tensor([1e-6, 1 - 1e-6, 0.5, 1e-3] * 3, dtype=DOUBLE)


Builder = Callable[[type[PreferenceGP]], PreferenceGP]
CASES: dict[str, tuple[tuple[type[PreferenceGP], ...], Builder]] = {}


def case(
    name: str,
    engines: tuple[type[PreferenceGP], ...],
    *arguments: Any,
    lengthscale: float | None = None,
    outputscale: float | None = None,
    num_draws: int = 128,
    **options: Any,
) -> None:
    def build(engine: type[PreferenceGP]) -> PreferenceGP:
        likelihood = options.get("likelihood")
        own = {} if likelihood is None else {"likelihood": likelihood()}
        # A thousand equal rows take chains long to forget, more of them less long.
        draws = {"num_draws": num_draws} if engine is SKEW else {}
        model = engine(*arguments, **(options | own | draws))
        if lengthscale is not None:
            model.covar_module = ScaleKernel(RBFKernel()).double()
            model.covar_module.outputscale = 2.0
            model.covar_module.base_kernel.lengthscale = lengthscale
        if outputscale is not None:
            model.covar_module.outputscale = outputscale
        return model

    CASES[name] = engines, build


case("points within 1e-3", ALL, 0.5 + 1e-3 * POINTS, WINS)
case("points within 1e-8", ALL, 0.5 + 1e-8 * POINTS, WINS)
case("pairs of points within 1e-8", ALL,
     torch.cat([POINTS[:4], POINTS[:4] + 1e-8 * POINTS[4:]]), WINS)  # fmt: skip
case("a pair 1,000 times", ALL, POINTS[:2], WIN.repeat(1000, 1), num_draws=512)
case("a pair 900 and 100 times", ALL, POINTS[:2],
     torch.cat([WIN.repeat(900, 1), WIN.flip(-1).repeat(100, 1)]))  # fmt: skip
case("every pair both ways", ALL, POINTS[:5],
     torch.cat([EVERY_PAIR, EVERY_PAIR.flip(-1)]))  # fmt: skip
case("cycles", ALL, POINTS[:3], torch.tensor([[0, 1], [1, 2], [2, 0]]).repeat(10, 1))
case("50 features", ALL, uniform(30, 50), nearer(uniform(30, 50), 40))
case("a point and its copy", ALL, torch.cat([POINTS, POINTS[:2]]),
     torch.cat([WINS, torch.tensor([[0, 8], [9, 1]])]))  # fmt: skip
case("only a point and its copy", ALL, POINTS[:1].repeat(2, 1), WIN)
case("one answer", ALL, POINTS[:2], WIN)
case("crowded, noise 1e-6", BOXED, *spiral(60),
     likelihood=lambda: PairwiseProbitLikelihood(1e-6))  # fmt: skip
case("crowded, output scale 1e4", (VARIATIONAL,), *spiral(60), outputscale=1e4)
for value in (1e-3, 1e3):
    case(f"lengthscale {value:g}", ALL, POINTS, WINS, lengthscale=value)
for value in (1e-4, 1e4):
    case(f"output scale {value:g}", ALL, POINTS, WINS, outputscale=value)
    case(f"logistic, output scale {value:g}", GAUSSIAN, POINTS, WINS, outputscale=value,
         likelihood=PairwiseLogitLikelihood)  # fmt: skip
for value in (1e-6, 1e3):
    # Much noise is a small output scale, which the other engines have above. With
    # little, rows that determine each other cost chains thousands of gradients a step;
    # one case is below.
    boxed = (SKEW,) if value > 1 else BOXED
    dependent = (SKEW,) if value > 1 else GAUSSIAN
    case(f"noise {value:g}", dependent, POINTS, WINS,
         likelihood=lambda v=value: PairwiseProbitLikelihood(v))  # fmt: skip
    case(f"tie threshold {value:g}", BOXED, POINTS, Comparisons(WINS, TIES),
         likelihood=lambda v=value: PairwiseProbitLikelihood(
             tie_threshold=v))  # fmt: skip
    case(f"validity, noise {value:g}", boxed, POINTS,
         feedback=[Validity(torch.arange(8), torch.arange(8) > 3)],
         likelihood=lambda v=value: AffineProbitLikelihood(v))  # fmt: skip
    of_sets = (SKEW,) if value > 1 else (EP,)
    of_choices = (SKEW,) if value > 1 else (EP, SKEW)
    case(f"choices, noise {value:g}", of_choices, POINTS, feedback=[CHOICES],
         likelihood=lambda v=value: PairwiseProbitLikelihood(v))  # fmt: skip
    case(f"rankings, noise {value:g}", of_sets, POINTS, feedback=[RANKINGS],
         likelihood=lambda v=value: PairwiseProbitLikelihood(v))  # fmt: skip
    case(f"softmax choices, output scale {value:g}", SOFTMAX, POINTS,
         feedback=[CHOICES], likelihood=PlackettLuceLikelihood,
         outputscale=value)  # fmt: skip
    case(f"softmax rankings, output scale {value:g}", SOFTMAX, POINTS,
         feedback=[RANKINGS], likelihood=PlackettLuceLikelihood,
         outputscale=value)  # fmt: skip
for value in (1e-5, 1e3):
    case(f"levels, noise {value:g}", (SKEW,) if value > 1 else BOXED, POINTS,
         feedback=[LEVELS],
         likelihood=lambda v=value: OrdinalProbitLikelihood(4, noise=v))  # fmt: skip
case("ties alone", BOXED, POINTS, Comparisons(None, TIES))
case("all valid", BOXED, POINTS,
     feedback=[Validity(torch.arange(8), torch.ones(8, dtype=torch.bool))])  # fmt: skip
case("equal levels", BOXED, POINTS,
     feedback=[OrdinalRatings(torch.arange(8), torch.full((8,), 2), 4)])  # fmt: skip
case("cut points 1e-6 and 1e3 apart", BOXED, POINTS, feedback=[LEVELS],
     likelihood=lambda: OrdinalProbitLikelihood(
         cutpoints=torch.tensor([-1e-6, 0.0, 1e3], dtype=DOUBLE)))  # fmt: skip
for value in (1e-2, 1e3, 1e5):
    case(f"strengths, precision {value:g}", GAUSSIAN, POINTS,
         feedback=[Strengths(WINS, UNIT)],
         likelihood=lambda v=value: PairwiseBetaLikelihood(v))  # fmt: skip
    case(f"ratings, precision {value:g}", GAUSSIAN, POINTS,
         feedback=[Ratings(torch.arange(8), UNIT[:8])],
         likelihood=lambda v=value: BetaRatingLikelihood(v))  # fmt: skip
case("strengths next to 0 and 1", (LAPLACE,), POINTS, feedback=[Strengths(WINS, ENDS)])
case("ratings next to 0 and 1", GAUSSIAN, POINTS,
     feedback=[Ratings(torch.arange(8), ENDS[:8])])  # fmt: skip
case("equal ratings", GAUSSIAN, POINTS,
     feedback=[Ratings(torch.arange(8), UNIT[4].repeat(8))])  # fmt: skip
case("strengths both ways", GAUSSIAN, POINTS,
     feedback=[Strengths(torch.cat([WINS, WINS]),
                         torch.cat([UNIT, 1 - UNIT]))])  # fmt: skip

# Fits of EP go to where the evidence is flat: to precisions of which it sums terms of
# millions, with too few digits left for differences, or to none.
NOT_FITTED = {
    ("ratings, precision 0.01", EP),
    ("ratings, precision 100000", EP),
    ("strengths, precision 100000", EP),
    ("equal ratings", EP),
    # Its line searches end in rounding, and what happens then is a matter of restarts.
    ("strengths, precision 100000", LAPLACE),
    ("ratings, precision 100000", LAPLACE),
}

each = pytest.mark.parametrize(
    ("name", "engine"),
    [(name, engine) for name, (engines, _) in CASES.items() for engine in engines],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)


def learned(model: PreferenceGP) -> list[Tensor]:
    return [p for p in model.parameters() if p.requires_grad]


def gradient_error(model: Any) -> tuple[float, float]:
    """Computes by how much the evidence's gradient is off, and may be.

    Along a direction that moves every parameter alike. Differences over up to six
    distances, each extrapolated with the next (Ridders 1982): the two estimates that
    differ least say how exact they are, and none is needed after two that agree to a
    tenth of what rounding allows. An evidence has the rounding errors of its terms,
    which precise answers make large and its gradient shares: five parts in a million of
    the parts that are added up here. Differences divide them by their distance, which
    is allowed for where it matters: as the evidence scatters over moves of 1e-12.
    """
    parameters = learned(model)
    gradient = torch.autograd.grad(model.log_evidence(), parameters, allow_unused=True)
    generator = torch.Generator().manual_seed(len(parameters))
    signs = [
        torch.randint(0, 2, p.shape, generator=generator).to(p) * 2 - 1
        for p in parameters
    ]
    pairs = zip(gradient, signs, strict=True)
    got = sum((g * s).sum().item() for g, s in pairs if g is not None)
    size = sum(g.abs().sum().item() for g in gradient if g is not None)
    start = [p.detach().clone() for p in parameters]

    def evidence(distance: float) -> float:
        with torch.no_grad():
            for p, first, sign in zip(parameters, start, signs, strict=True):
                p.copy_(first + distance * sign)
            return model.log_evidence().item()

    rounding = 5e-6 * max(1.0, size)
    slopes: list[float] = []
    gap, best, nearest = math.inf, math.nan, math.nan
    for h in (2e-2 / 5**k for k in range(6)):
        slopes.append((evidence(h) - evidence(-h)) / (2 * h))
        finer = [(25 * b - a) / 24 for a, b in pairwise(slopes)]
        if len(finer) > 1 and abs(finer[-1] - finer[-2]) < gap:
            gap, best, nearest = abs(finer[-1] - finer[-2]), finer[-1], h
        if 10 * gap <= rounding / 10:
            break
    error, allowed = abs(got - best), 10 * gap + rounding
    if error > allowed:
        scattered = [evidence(k * 1e-12) for k in range(-4, 5)]
        allowed += (max(scattered) - min(scattered)) / nearest
    evidence(0.0)
    return error, allowed


def assert_sound(model: PreferenceGP, distance: float, is_new: bool = True) -> bool:
    """Tells whether the engine found a posterior; if so it must be one.

    At first with the right gradient of the evidence; that of draws is EP's.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", InferenceWarning)
        diagnostics = model.diagnostics()
        evidence = model.log_evidence()
    warned = [w for w in caught if issubclass(w.category, InferenceWarning)]
    assert bool(warned) == (not diagnostics["converged"])
    if not diagnostics["converged"]:
        return False
    assert bool(evidence.isfinite())
    if is_new and not isinstance(model, SkewPreferenceGP):
        error, allowed = gradient_error(model)
        assert error <= allowed
    d = model.datapoints.shape[-1]
    middle = model.datapoints.mean(0)
    away = uniform(3, d, seed=9) - 0.5
    x = torch.cat([model.datapoints[:2], middle + distance * away]).requires_grad_()
    posterior = model.posterior(x)
    assert bool(posterior.mean.isfinite().all())
    assert bool((posterior.variance >= 0).all())
    assert bool(posterior.variance.isfinite().all())
    for noisy in (False, True):
        if noisy and "Comparisons" not in model.likelihoods:
            continue
        won = model.duel_probability(x, x.flip(0), observation_noise=noisy)
        assert bool(((won >= 0) & (won <= 1)).all())
        if not getattr(model.likelihood, "tie_threshold", torch.zeros(())).any():
            torch.testing.assert_close(won + won.flip(-1), torch.ones_like(won))
    # A point differs from itself by nothing but rounding, and nobody is warned.
    itself = model.duel_posterior(x[:1].detach(), x[:1].detach())
    scale = model.covar_module(x[:1]).diagonal() + posterior.mean.abs().max()
    assert itself.variance.item() <= 1e-12 * scale.item()
    assert abs(itself.mean.item()) <= 1e-12 * scale.item()
    (slope,) = torch.autograd.grad(
        (posterior.mean + posterior.variance).sum(), x, retain_graph=False
    )
    assert bool(slope.isfinite().all())
    return True


@each
def test_evidence_and_posterior_before_and_after_a_fit(name: str, engine: Any) -> None:
    model = CASES[name][1](engine)
    spread = float((model.datapoints.max(0)[0] - model.datapoints.min(0)[0]).max())
    assert assert_sound(model, max(spread, 1e-9))
    # SkewGP's evidence is EP's, and so is the fit.
    if engine is SKEW or (name, engine) in NOT_FITTED:
        return
    mll = PreferenceMarginalLogLikelihood(model.likelihood, model)
    with warnings.catch_warnings(), torch.random.fork_rng():
        # Where a fit is started anew, BoTorch draws from the priors.
        torch.manual_seed(0)
        # On the way, the optimiser may look at what has no posterior.
        warnings.simplefilter("ignore", InferenceWarning)
        model.train()
        before = mll(model(*model.train_inputs), model.train_targets).item()
        fit_gpytorch_mll(mll, optimizer_kwargs={"options": {"maxiter": 2}})
        model.train()
        after = mll(model(*model.train_inputs), model.train_targets).item()
    assert math.isfinite(after)
    assert after >= before
    assert all(bool(p.isfinite().all()) for p in model.parameters())
    assert assert_sound(model.eval(), max(spread, 1e-9), is_new=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "engine", "message"),
    [
        # Fractions of a millionth that contradict each other: sites that widen.
        ("strengths next to 0 and 1", EP, "posterior standard deviations"),
        # Walls a thousandth of a deviation thick, and a ranking that others determine:
        # most proposals end behind one.
        ("rankings, noise 1e-06", SKEW, "R-hat"),
    ],
    ids=["EPPreferenceGP", "SkewPreferenceGP"],
)
def test_what_does_not_converge_says_so_and_is_finite(
    name: str, engine: Any, message: str
) -> None:
    model = CASES[name][1](engine)
    with pytest.warns(InferenceWarning, match=message) as caught:
        diagnostics = model.diagnostics()
    assert caught[0].filename == __file__
    assert not diagnostics["converged"]
    # Nor does it go on for long.
    if engine is SKEW:
        assert model.solution().sampled.latent.num_steps == 16
    posterior = model.posterior(uniform(3, 2))
    assert bool(posterior.mean.isfinite().all())
    assert bool((posterior.variance > 0).all() & posterior.variance.isfinite().all())


# --- One pair is a problem in one dimension, z = f_a - f_b


@pytest.mark.parametrize("engine", ALL, ids=lambda e: e.__name__)
@pytest.mark.parametrize("name", ["every pair both ways", "cycles"])
def test_answers_that_contradict_each_other_leave_means_at_zero(
    name: str, engine: Any
) -> None:
    """By symmetry: of all pairs both ways, and of cycles of three by rotation too."""
    model = CASES[name][1](engine)
    if name == "cycles":
        # Of points that are alike for the prior.
        model.set_train_data(
            torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.5, math.sqrt(0.75)]]).double()
        )
    posterior = model.eval().posterior(model.datapoints)
    ratio = posterior.mean.abs() / posterior.variance.sqrt()
    sampled = engine is SKEW
    assert float(ratio.detach().max()) <= (5 * 128**-0.5 if sampled else 1e-6)


# --- Parameters of likelihoods


def test_python_numbers_keep_their_digits() -> None:
    model = EP(
        POINTS,
        Comparisons(WINS, TIES),
        likelihood=PairwiseProbitLikelihood(0.3, tie_threshold=0.7),
    )
    assert model.likelihood.noise.item() == pytest.approx(0.3, rel=1e-15)
    assert model.likelihood.tie_threshold.item() == pytest.approx(0.7, rel=1e-15)
    beta = PairwiseBetaLikelihood(precision=12.3, noise=torch.tensor(0.7, dtype=DOUBLE))
    assert beta.double().precision.item() == pytest.approx(12.3, rel=1e-15)
    assert beta.noise.item() == pytest.approx(0.7, rel=1e-15)


@pytest.mark.parametrize("raw", [-1e3, -1e6])
def test_an_optimiser_that_goes_too_far_sees_a_small_evidence(raw: float) -> None:
    """There a softplus is zero: no threshold, no precision."""
    probit = PairwiseProbitLikelihood(tie_threshold=1.0)
    probit.initialize(raw_tie_threshold=torch.tensor(raw).double())
    beta = PairwiseBetaLikelihood(precision=1.0)
    beta.initialize(raw_precision=torch.tensor(raw).double())
    for engine in GAUSSIAN:
        for feedback, likelihood in (
            (Comparisons(WINS, TIES), probit),
            (Strengths(WINS, UNIT), beta),
        ):
            model = engine(POINTS, feedback=[feedback], likelihood=likelihood)
            evidence = model.log_evidence()
            gradient = torch.autograd.grad(evidence, learned(model), allow_unused=True)
            assert -1e4 < evidence.item() < -100
            assert all(bool(g.isfinite().all()) for g in gradient if g is not None)


@pytest.mark.parametrize("engine", GAUSSIAN)
@pytest.mark.parametrize("precision", [1e3, 1e4])
def test_precise_answers_are_found_again_from_another_prior(engine, precision) -> None:
    """Sites are then so stiff that their rounding hides what steps gain.

    A fit starts from the solution before and may learn so large a precision. A model
    that does not converge warns, and warnings are errors.
    """
    generator = torch.Generator().manual_seed(1)
    draws = torch.rand(17, generator=generator, dtype=DOUBLE)
    model = engine(
        draws[:12].reshape(6, 2),
        feedback=[Ratings(torch.arange(5), 0.02 + 0.5 * draws[12:])],
        likelihood=BetaRatingLikelihood(precision=precision, noise=0.4),
    )
    for lengthscale in (0.3, 0.1, 1.0, 0.5, 2.0):
        model.covar_module.base_kernel.lengthscale = lengthscale
        warm = model.log_evidence().detach()
        model.set_train_data()
        # Weights are a difference of numbers 1e4 times as large.
        assert float(model.log_evidence().detach() - warm) == pytest.approx(0, abs=1e-5)


def test_a_start_from_far_parameters_does_not_lead_astray() -> None:
    """Ratings have no concave factors: sites may lead nowhere; warnings are errors."""
    generator = torch.Generator().manual_seed(1)
    x = torch.rand(12, 1, generator=generator, dtype=DOUBLE)
    rated = torch.special.ndtr(torch.sin(5 * x.squeeze(-1)))
    model = EPPreferenceGP(x, feedback=[Ratings(torch.arange(12), rated)])
    # Its line search tries an output scale of 1e-4 and a mean of 22.
    fit_gpytorch_mll(PreferenceMarginalLogLikelihood(model.likelihood, model))
    assert model.diagnostics()["converged"]
    warm = float(model.log_evidence().detach())
    model.set_train_data()
    assert float(model.log_evidence().detach()) == pytest.approx(warm, abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "seed"),
    [(EP, 0), (LAPLACE, 3)],
)
def test_answers_without_noise_fit_by_default(engine, seed) -> None:
    """No precision is too large for them, but for the prior; warnings are errors."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(16, 1, generator=generator, dtype=DOUBLE)
    truth = math.sqrt(2) * torch.sin(5 * x.squeeze(-1))
    rated = torch.special.ndtr(truth / math.sqrt(2))
    model = engine(x, feedback=[Ratings(torch.arange(16), rated)])
    fit_gpytorch_mll(PreferenceMarginalLogLikelihood(model.likelihood, model))
    assert model.diagnostics()["converged"]
    posterior = model.posterior(x)
    off = (posterior.mean.detach() - truth.unsqueeze(-1)).abs()
    largest = float((off / posterior.variance.detach().sqrt()).max())
    assert largest < 4, "a mean is farther off than four deviations"
    # For each factor of e in the precision the evidence gains half a nat for each
    # answer at most, which the exponential prior takes back.
    precision = model.likelihoods["Ratings"].precision.item()
    assert 1e4 < precision < 16 / 2 * 3e4
    # A thousandth of the scale is then as much as anybody can say.
    assert float(off.max()) < 0.01


# --- Weights of features

FEATURES = uniform(12, 3)
WEIGHT_CASES: dict[str, tuple[Tensor, Tensor, float]] = {
    "eta 1e-6": (FEATURES, nearer(FEATURES, 20), 1e-6),
    "eta 1e6": (FEATURES, nearer(FEATURES, 20), 1e6),
    "features times 1e3": (FEATURES * 1e3, nearer(FEATURES, 20), 1.0),
    "features times 1e-3": (FEATURES * 1e-3, nearer(FEATURES, 20), 1.0),
    "features far from zero": (FEATURES + 1e4, nearer(FEATURES, 20), 1.0),
    "a pair 1,000 times": (FEATURES, WIN.repeat(1000, 1), 1.0),
    "one answer": (FEATURES, WIN, 1.0),
    "cycles": (FEATURES, torch.tensor([[0, 1], [1, 2], [2, 0]]).repeat(10, 1), 1.0),
    "50 features": (uniform(12, 50), nearer(FEATURES, 20), 1.0),
    "equal features": (FEATURES[:, :1].repeat(1, 3), nearer(FEATURES, 20), 1e-3),
}


WEAK_PRIORS = {"eta 1e-6", "features times 1e3", "50 features"}


@pytest.mark.filterwarnings("ignore:PlackettLuceRegression has few answers")
@pytest.mark.parametrize("inference", ["laplace", "variational"])
@pytest.mark.parametrize("name", WEIGHT_CASES)
def test_weights_at_the_edge(name: str, inference: Any) -> None:
    features, pairs, eta = WEIGHT_CASES[name]
    model = PlackettLuceRegression(features, pairs, inference=inference, eta=eta)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", InferenceWarning)
        diagnostics = model.diagnostics()
    assert not [w for w in caught if "converge" in str(w.message)]
    # Of few answers for a feature under a weak prior Laplace says that they are.
    weak = inference == "laplace" and name in WEAK_PRIORS
    assert bool(caught) == weak
    assert diagnostics["converged"]
    error, allowed = gradient_error(model)
    assert error <= allowed
    x = features[:4]
    posterior = model.posterior(x)
    assert bool(posterior.mean.isfinite().all())
    assert bool((posterior.variance >= 0).all())
    won = model.duel_probability(x, x.flip(0), observation_noise=True)
    torch.testing.assert_close(won + won.flip(-1), torch.ones_like(won))
    mll = PreferenceMarginalLogLikelihood(model.likelihood, model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InferenceWarning)
        fit_gpytorch_mll(mll)
    assert bool(model.eta.isfinite())
