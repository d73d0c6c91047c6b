"""What every likelihood must fulfil. A new one without an entry in CASES fails."""

import inspect
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field

import mpmath as mp
import numpy
import pytest
import torch
from gpytorch.priors import GammaPrior, LogNormalPrior, NormalPrior
from scipy import integrate, optimize
from scipy.stats import multivariate_normal

from botorch_pref.errors import FeedbackError, UnsupportedFeedbackError
from botorch_pref.feedback import (
    Choices,
    Comparisons,
    Feedback,
    OrdinalRatings,
    Rankings,
    Ratings,
    Strengths,
    Validity,
)
from botorch_pref.likelihoods import (
    AffineProbitLikelihood,
    BetaRatingLikelihood,
    OrdinalProbitLikelihood,
    PairwiseBetaLikelihood,
    PairwiseLogitLikelihood,
    PairwiseProbitLikelihood,
    PlackettLuceLikelihood,
    PreferenceLikelihood,
)
from botorch_pref.likelihoods.factors.beta_factors import BetaFactors
from botorch_pref.likelihoods.factors.box_factors import (
    BoxFactors,
    CorrelatedBoxFactors,
)
from botorch_pref.likelihoods.factors.factors import Factors
from botorch_pref.likelihoods.factors.joint_factors import JointFactors, joint_factors
from botorch_pref.likelihoods.factors.logit_factors import LogitFactors
from botorch_pref.likelihoods.factors.plackett_luce_factors import PlackettLuceFactors

mp.mp.dps = 40
PAIR = torch.tensor([[0, 1]])
SECOND_PAIR = torch.tensor([[2, 0]])


def number(tensor):
    return float(tensor.detach())


def phi_between(lower, upper):
    """``Phi(upper) - Phi(lower)`` with digits in both tails."""
    if lower > -upper:
        lower, upper = -upper, -lower
    return (mp.erfc(-upper / mp.sqrt(2)) - mp.erfc(-lower / mp.sqrt(2))) / 2


def probit_win(z, noise, tie_threshold=0):
    return phi_between(-mp.inf, (z - tie_threshold) / mp.sqrt(2 * noise))


def probit_tie(z, noise, tie_threshold):
    scale = mp.sqrt(2 * noise)
    return phi_between((-tie_threshold - z) / scale, (tie_threshold - z) / scale)


def affine(sign):
    return lambda z, noise: phi_between(-mp.inf, sign * z / mp.sqrt(noise))


def logistic(z):
    return 1 / (1 + mp.exp(-z))


@dataclass
class Case:
    """A likelihood, an answer, and the answer's probability given ``z``."""

    likelihood: type[PreferenceLikelihood]
    feedback: Feedback
    truth: Callable
    # Row of A over three points, from the definition of z.
    row: list[float]
    factors: type[Factors]
    parameters: dict = field(default_factory=dict)
    # All other answers that the same person could have given.
    others: list[Feedback] = field(default_factory=list)
    # Arguments of the likelihood that are no positive parameters.
    fixed: dict = field(default_factory=dict)
    # How many items are heard with noise.
    items: int = 2
    # Between the ends of the answer's interval.
    width: float = math.inf

    def build(self, dtype=torch.float64, **changes):
        arguments = self.fixed | self.parameters | changes
        module = self.likelihood(**arguments).to(dtype)
        for name, value in (self.fixed | self.parameters).items():
            # Constructed in the default dtype, which rounds.
            setattr(module, name, changes.get(name, value))
        return module

    def probability(self, z, **changes):
        return self.truth(mp.mpf(z), **(self.parameters | changes))


WIN, LOSS = Comparisons(PAIR), Comparisons(PAIR.flip(-1))
TIE = Comparisons(None, PAIR)
VALID = Validity(torch.tensor([1]), torch.tensor([True]))
FAILED = Validity(torch.tensor([1]), torch.tensor([False]))
THRESHOLD = {"noise": 0.3, "tie_threshold": 0.7}

CASES = {
    "probit win": Case(
        PairwiseProbitLikelihood, WIN, probit_win, [1, -1, 0], BoxFactors,
        {"noise": 0.3}, [LOSS],
    ),
    "probit win, little noise": Case(
        PairwiseProbitLikelihood, LOSS, probit_win, [-1, 1, 0], BoxFactors,
        {"noise": 1e-4}, [WIN],
    ),
    "probit win beyond a threshold": Case(
        PairwiseProbitLikelihood, WIN, probit_win, [1, -1, 0], BoxFactors,
        THRESHOLD, [LOSS, TIE],
    ),
    "probit tie": Case(
        PairwiseProbitLikelihood, TIE, probit_tie, [1, -1, 0], BoxFactors,
        THRESHOLD, [WIN, LOSS], width=1.4,
    ),
    "probit narrow tie": Case(
        PairwiseProbitLikelihood, TIE, probit_tie, [1, -1, 0], BoxFactors,
        {"noise": 2.0, "tie_threshold": 1e-4}, [WIN, LOSS], width=2e-4,
    ),
    "logit win": Case(
        PairwiseLogitLikelihood, WIN, logistic, [1, -1, 0], LogitFactors, {}, [LOSS]
    ),
    "valid": Case(
        AffineProbitLikelihood, VALID, affine(1), [0, 1, 0], BoxFactors,
        {"noise": 0.5}, [FAILED], items=1,
    ),
    "failed": Case(
        AffineProbitLikelihood, FAILED, affine(-1), [0, -1, 0], BoxFactors,
        {"noise": 0.5}, [VALID], items=1,
    ),
}  # fmt: skip
CUTPOINTS = [-0.5, 0.2, 1.1]
LEVELS = [
    OrdinalRatings(torch.tensor([1]), torch.tensor([level]), 4) for level in range(4)
]


def ordinal(level):
    ends = [-mp.inf, *map(mp.mpf, CUTPOINTS), mp.inf]
    lower, upper = ends[level], ends[level + 1]
    return lambda z, noise: phi_between(
        (lower - z) / mp.sqrt(noise), (upper - z) / mp.sqrt(noise)
    )


CASES |= {
    f"ordinal {level}": Case(
        OrdinalProbitLikelihood, LEVELS[level], ordinal(level), [0, 1, 0], BoxFactors,
        {"noise": 0.3}, [other for other in LEVELS if other is not LEVELS[level]],
        fixed={"cutpoints": torch.tensor(CUTPOINTS, dtype=torch.float64)}, items=1,
        width=dict(enumerate([math.inf, 0.7, 0.9, math.inf]))[level],
    )
    for level in range(4)
}  # fmt: skip

# In the failed case z = -f: the row already carries the sign.
CASES["failed"].truth = affine(1)


@dataclass
class SetCase:
    """A likelihood of a set of three: the log probability of one answer, given all."""

    likelihood: type[PreferenceLikelihood]
    kind: type[Feedback]
    factors: type[Factors]
    parameters: dict = field(default_factory=dict)


SET_CASES = [
    SetCase(PairwiseProbitLikelihood, Choices, CorrelatedBoxFactors, {"noise": 0.4}),
    SetCase(PairwiseProbitLikelihood, Rankings, CorrelatedBoxFactors, {"noise": 0.4}),
    SetCase(PlackettLuceLikelihood, Choices, PlackettLuceFactors),
    SetCase(PlackettLuceLikelihood, Rankings, PlackettLuceFactors),
]


def beta_density(y):
    def density(z, precision, noise):
        a = precision * phi_between(-mp.inf, z / mp.sqrt(2 * noise))
        return (
            mp.mpf(y) ** (a - 1)
            * (1 - mp.mpf(y)) ** (precision - a - 1)
            / mp.beta(a, precision - a)
        )

    return density


# Densities of a number, not log-concave: of the contract, what holds for them too. The
# rest is in test_beta_likelihoods.py.
DENSITIES = {
    "strength": Case(
        PairwiseBetaLikelihood, Strengths(PAIR, torch.tensor([0.8])), beta_density(0.8),
        [1, -1, 0], BetaFactors, {"precision": 7.0, "noise": 0.3},
    ),
    "rating": Case(
        BetaRatingLikelihood, Ratings(torch.tensor([1]), torch.tensor([0.1])),
        beta_density(0.1), [0, 1, 0], BetaFactors, {"precision": 0.8, "noise": 2.0},
        items=1,
    ),
}  # fmt: skip
ENTRIES = CASES | DENSITIES

each_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
each_entry = pytest.mark.parametrize("case", ENTRIES.values(), ids=ENTRIES.keys())
each_dtype = pytest.mark.parametrize("dtype", [torch.float64, torch.float32])


def concrete(cls):
    below = {leaf for child in cls.__subclasses__() for leaf in concrete(child)}
    return below if inspect.isabstract(cls) else below | {cls}


def test_every_likelihood_and_every_kind_of_factor_has_an_entry() -> None:
    explained = {
        (likelihood, kind)
        for likelihood in concrete(PreferenceLikelihood)
        for kind in likelihood.explains
    }
    entries = {(case.likelihood, type(case.feedback)) for case in ENTRIES.values()}
    entries |= {(case.likelihood, case.kind) for case in SET_CASES}
    assert entries == explained
    covered = {case.factors for case in ENTRIES.values()} | {JointFactors}
    covered |= {case.factors for case in SET_CASES}
    assert covered == concrete(Factors)


@each_entry
def test_entries_name_what_the_likelihood_takes(case) -> None:
    likelihood = case.build()
    assert likelihood.explains[type(case.feedback)] is case.factors
    assert type(likelihood.factors(case.feedback, 3)) is case.factors


@each_entry
def test_rows_are_the_latent_that_the_answer_sees(case) -> None:
    utilities = torch.tensor([1.0, 10.0, 100.0], dtype=torch.float64)
    row = torch.tensor(case.row, dtype=torch.float64)
    rows = case.build().factors(case.feedback, 3).rows
    assert rows.apply(utilities).tolist() == [float(row @ utilities)]


def log_derivatives(case, z, **changes):
    """Log probability and three derivatives, by mpmath's differences."""
    return [
        mp.diff(lambda t: mp.log(case.probability(t, **changes)), z, order)
        if order
        else mp.log(case.probability(z, **changes))
        for order in range(4)
    ]


@each_dtype
@each_case
@pytest.mark.parametrize("z", [-800.0, -30.0, -2.5, -0.1, 0.0, 0.4, 3.0, 30.0, 800.0])
def test_log_probability_and_derivatives(case, z, dtype) -> None:
    factors = case.build(dtype).factors(case.feedback, 3)
    at = torch.tensor([z], dtype=dtype)
    third = factors.curvature_gradient(at, torch.ones_like(at))
    got = factors.log_prob(at)
    eps = torch.finfo(dtype).eps
    expected = log_derivatives(case, mp.mpf(z))
    # In units of the noise: bounds there are seen with a relative rounding of eps, and
    # far from them the value is quadratic.
    noise = float(case.parameters.get("noise", 1.0))
    scale = math.sqrt(min(noise, 1.0))
    reach = (abs(z) + 1) / scale
    for order, (value, want) in enumerate(zip((*got, third), expected, strict=True)):
        got_value = number(value)
        size = 1 + (reach ** max(2 - order, 0) if order != 3 else min(reach, 1e3))
        relative = 40 * eps if dtype == torch.float64 else 100 * eps
        if order >= 2:
            # The digits that the hazard's excess keeps, see its documentation.
            relative *= 1 + min(reach, 43.0 if dtype == torch.float64 else 8.0) ** 2
        tolerance = relative * size / scale**order
        # The width of an interval is what is left of ends around z.
        tolerance += 8 * eps * abs(z) / case.width if order == 0 else 0
        assert abs(mp.mpf(got_value) - want) <= tolerance, order
    assert number(got.second) <= 0


@each_entry
def test_derivatives_are_those_of_autograd(case) -> None:
    z = torch.linspace(-6, 6, 25, dtype=torch.float64).unsqueeze(-1).requires_grad_()
    factors = case.build().factors(case.feedback, 3)
    third = factors.curvature_gradient(z, torch.ones_like(z))
    derivatives = (*factors.log_prob(z), third)
    scale = float(case.parameters.get("noise", 1.0)) ** 0.5
    for order in range(3):
        (got,) = torch.autograd.grad(derivatives[order].sum(), z, retain_graph=True)
        torch.testing.assert_close(
            got,
            derivatives[order + 1].detach(),
            rtol=1e-7,
            atol=1e-9 / scale ** (order + 1),
        )


def tilted_moments(case, mean, variance):
    """Log normaliser, mean shift and variance change of the tilted density."""
    scale = math.sqrt(variance)
    mean, variance = mp.mpf(mean), mp.mpf(variance)

    def log_integrand(t):
        value = mp.log(case.probability(mean + scale * mp.mpf(t)))
        return float(value - mp.mpf(t) ** 2 / 2)

    found = optimize.minimize_scalar(
        lambda t: -log_integrand(t), bracket=(-1.0, 1.0), tol=1e-10
    )
    mode, peak = float(found.x), -float(found.fun)
    noise_width = math.sqrt(float(case.parameters.get("noise", 1.0))) / scale
    kink = -float(mean) / scale
    edges = {mode + k for k in (-9, -5, -2.5, -1, 0, 1, 2.5, 5, 9)}
    edges |= {
        kink + k * noise_width
        for k in (-30, -8, -3, -1, 0, 1, 3, 8, 30)
        if abs(kink + k * noise_width - mode) < 9
    }
    edges = sorted(edges)
    moments = [0.0, 0.0, 0.0]
    for low, high in itertools.pairwise(edges):
        for k in range(3):
            value, _ = integrate.fixed_quad(
                lambda ts, k=k: [
                    (t - mode) ** k * math.exp(log_integrand(t) - peak) for t in ts
                ],
                low,
                high,
                n=20,
            )
            moments[k] += value
    mass, first, second = moments
    value = peak + math.log(mass) - 0.5 * math.log(2 * math.pi)
    shift = mode + first / mass
    spread = second / mass - (first / mass) ** 2
    return value, shift / scale, (spread - 1) / float(variance)


CAVITIES = [
    (0.0, 1.0),
    (-3.0, 0.2),
    (4.0, 9.0),
    (-20.0, 4.0),
    (1.0, 400.0),
    (0.3, 1e-4),
]


@each_case
@pytest.mark.parametrize(("mean", "variance"), CAVITIES)
def test_log_partition_against_quadrature(case, mean, variance) -> None:
    factors = case.build().factors(case.feedback, 3)
    got = factors.log_partition(
        torch.tensor([mean], dtype=torch.float64),
        torch.tensor([variance], dtype=torch.float64),
    )
    expected = tilted_moments(case, mean, variance)
    # Twenty Gauss points a piece leave about 1e-9 of the moments.
    tolerances = 1e-8, 1e-8 / math.sqrt(variance), 1e-8 / variance
    for value, want, tolerance in zip(got, expected, tolerances, strict=True):
        assert number(value) == pytest.approx(want, rel=1e-7, abs=tolerance)


@each_dtype
@each_case
@pytest.mark.parametrize("variance", [1e-6, 1.0, 1e4])
@pytest.mark.parametrize("mean", [-800.0, 800.0])
def test_partition_at_extremes_shrinks_the_cavity(case, mean, variance, dtype) -> None:
    factors = case.build(dtype).factors(case.feedback, 3)
    value, first, second = factors.log_partition(
        torch.tensor([mean], dtype=dtype), torch.tensor([variance], dtype=dtype)
    )
    for part in (value, first, second):
        assert part.isfinite().all()
    # Log-concave: -1 / s < second <= 0, so sites have non-negative precision.
    assert -1 / variance < number(second) <= 0
    assert number(value) <= 0


@each_dtype
@each_case
def test_probabilities_of_all_answers_sum_to_one(case, dtype) -> None:
    likelihood = case.build(dtype)
    utilities = torch.tensor(
        [[0.0, 0.0, 0], [1.0, -0.5, 0], [-2, 1.5, 0], [300, -300, 0], [0.2, 0.19, 0]],
        dtype=dtype,
    )
    total = torch.zeros(len(utilities), 1, dtype=dtype)
    for answer in [case.feedback, *case.others]:
        factors = likelihood.factors(answer, 3)
        total += factors.log_prob(factors.rows.apply(utilities)).value.exp()
    eps = torch.finfo(dtype).eps
    # Of z / sqrt(2 noise) in an exponent.
    atol = 16 * eps / case.parameters.get("noise", 1.0)
    torch.testing.assert_close(total, torch.ones_like(total), rtol=0, atol=atol)


def parameter_cases(cases):
    return [
        pytest.param(case, name, id=f"{label}: {name}")
        for label, case in cases.items()
        for name in case.parameters
    ]


@pytest.mark.parametrize(("case", "name"), parameter_cases(CASES))
@pytest.mark.parametrize("z", [-800.0, -3.0, 0.1, 2.0, 800.0])
def test_gradient_in_parameters(case, name, z) -> None:
    likelihood = case.build()
    raw = getattr(likelihood, f"raw_{name}").requires_grad_()
    value = number(getattr(likelihood, name))
    factors = likelihood.factors(case.feedback, 3)
    # d natural / d raw of the softplus constraint.
    slope = -math.expm1(-value)
    for what, variance in (("log_prob", 0.0), ("log_partition", 0.8)):
        mean = torch.tensor([z], dtype=torch.float64)
        arguments = (mean,) if what == "log_prob" else (mean, mean.new_tensor([0.8]))
        (got,) = torch.autograd.grad(
            getattr(factors, what)(*arguments).value.sum(), raw, retain_graph=True
        )
        # A box under N(z, s): noise and cavity variances add, whatever the parameter.
        share = variance / case.items

        def shifted(x, name=name, share=share):
            changes = {k: mp.mpf(v) for k, v in case.parameters.items()}
            changes[name] = x
            changes["noise"] += share
            return mp.log(case.truth(mp.mpf(z), **changes))

        want = float(mp.diff(shifted, mp.mpf(value))) * slope
        assert number(got) == pytest.approx(want, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(("case", "name"), parameter_cases(ENTRIES))
def test_parameters_are_set_read_and_kept_positive(case, name) -> None:
    likelihood = case.build()
    assert number(getattr(likelihood, name)) == pytest.approx(
        case.parameters[name], rel=1e-6
    )
    for value in (1e-4, 0.5, 30.0, torch.tensor(2.0)):
        setattr(likelihood, name, value)
        assert number(getattr(likelihood, name)) == pytest.approx(
            float(value), rel=1e-6
        )
    likelihood.initialize(**{name: 0.25})
    assert number(getattr(likelihood, name)) == pytest.approx(0.25, rel=1e-6)
    for value in (0.0, -1.0, math.nan, math.inf):
        message = f"{name} must be positive and finite"
        with pytest.raises(FeedbackError, match=message):
            setattr(likelihood, name, value)
        with pytest.raises(FeedbackError, match=message):
            case.build(**{name: value})
    assert number(getattr(likelihood, name)) == pytest.approx(0.25, rel=1e-6)


@pytest.mark.parametrize(("case", "name"), parameter_cases(ENTRIES))
def test_priors_see_the_natural_value_and_make_it_learned(case, name) -> None:
    prior = GammaPrior(2.0, 3.0)
    likelihood = case.build(**{f"{name}_prior": prior})
    assert getattr(likelihood, f"raw_{name}").requires_grad
    ((_, module, registered, closure, setting),) = likelihood.named_priors()
    assert registered is prior
    assert torch.equal(closure(module), getattr(likelihood, name))
    setting(module, torch.tensor(0.4))
    assert number(getattr(likelihood, name)) == pytest.approx(0.4, rel=1e-6)


def test_what_is_learned_by_default() -> None:
    probit = PairwiseProbitLikelihood(tie_threshold=0.1)
    assert not probit.raw_noise.requires_grad
    assert probit.raw_tie_threshold.requires_grad
    assert not AffineProbitLikelihood().raw_noise.requires_grad
    assert not list(PairwiseLogitLikelihood().parameters())


def test_thresholds_that_cannot_mean_anything_are_refused() -> None:
    with pytest.raises(FeedbackError, match="pass its initial value"):
        PairwiseProbitLikelihood(tie_threshold_prior=LogNormalPrior(0.0, 1.0))
    with pytest.raises(FeedbackError, match="construct it with tie_threshold"):
        PairwiseProbitLikelihood().tie_threshold = 0.3
    with pytest.raises(FeedbackError, match="no tie threshold; pass"):
        PairwiseProbitLikelihood().factors(TIE, 3)
    with pytest.raises(UnsupportedFeedbackError, match=r"Probit.*EPPreferenceGP"):
        PairwiseLogitLikelihood().factors(TIE, 3)


@pytest.mark.parametrize(
    "case", [c for c in CASES.values() if c.feedback is WIN], ids=lambda c: str(c.row)
)
@pytest.mark.parametrize(("mean", "variance"), CAVITIES)
def test_win_probability_is_the_expected_probability_of_a_win(
    case, mean, variance
) -> None:
    value, _, _ = tilted_moments(case, mean, variance)
    got = case.build().win_probability(
        torch.tensor(mean, dtype=torch.float64),
        torch.tensor(variance, dtype=torch.float64),
    )
    assert number(got) == pytest.approx(math.exp(value), rel=1e-8)


@pytest.mark.parametrize(
    "case", [c for c in CASES.values() if c.feedback is TIE], ids=lambda c: str(c.row)
)
@pytest.mark.parametrize(("mean", "variance"), CAVITIES)
def test_tie_probability_is_the_expected_probability_of_a_tie(
    case, mean, variance
) -> None:
    value, _, _ = tilted_moments(case, mean, variance)
    got = case.build().tie_probability(
        torch.tensor(mean, dtype=torch.float64),
        torch.tensor(variance, dtype=torch.float64),
    )
    assert number(got) == pytest.approx(math.exp(value), rel=1e-8)


@pytest.mark.parametrize("level", range(4))
@pytest.mark.parametrize("variance", [0.0, 0.7])
def test_levels_have_the_probabilities_of_their_intervals(level, variance) -> None:
    case = CASES[f"ordinal {level}"]
    z = torch.tensor([-20.0, -1.0, 0.3, 2.0, 20.0], dtype=torch.float64)
    got = case.build().level_probabilities(z, torch.full_like(z, variance))[..., level]
    want = [float(case.truth(mp.mpf(float(x)), noise=0.3 + variance)) for x in z]
    assert got.tolist() == pytest.approx(want, rel=1e-9)
    if not variance:
        torch.testing.assert_close(case.build()(z).probs[..., level], got)


def test_a_level_is_as_wide_as_its_gap_far_from_zero() -> None:
    """Where the cut points are equal but for rounding, alone and among others."""
    likelihood = OrdinalProbitLikelihood(3).double()
    gap = 1e-9
    raw = torch.tensor([1e8, math.log(gap)], dtype=torch.float64)
    likelihood.initialize(raw_cutpoints=raw)
    one = likelihood.factors(OrdinalRatings(torch.tensor([0]), torch.tensor([1]), 3), 1)
    for factors in (one, joint_factors([one, one])):
        z = torch.full((factors.rows.num_rows,), 1e8, dtype=torch.float64)
        want = math.log(gap / math.sqrt(2 * math.pi))
        assert factors.log_prob(z).value.tolist() == pytest.approx([want] * len(z))


def test_cutpoints_are_set_read_and_kept_in_order() -> None:
    likelihood = OrdinalProbitLikelihood(4).double()
    assert likelihood.raw_cutpoints.requires_grad
    # A normal of twice the noise's deviation is in each level alike.
    share = torch.special.ndtr(likelihood.cutpoints / 2)
    torch.testing.assert_close(share, torch.tensor([0.25, 0.5, 0.75]).double())
    likelihood.cutpoints = torch.tensor(CUTPOINTS)
    assert likelihood.cutpoints.tolist() == pytest.approx(CUTPOINTS, rel=1e-6)
    likelihood.initialize(raw_cutpoints=torch.tensor([3.0, -20.0, 4.0]).double())
    assert bool((likelihood.cutpoints.diff() > 0).all())
    for wrong in ([0.0, 0.0, 1.0], [1.0, 0.0, 2.0], [0.0, math.nan, 1.0]):
        with pytest.raises(FeedbackError, match="must be finite and increase"):
            likelihood.cutpoints = torch.tensor(wrong)
    with pytest.raises(FeedbackError, match="4 levels have 3 cut points, got 2"):
        likelihood.cutpoints = torch.tensor([0.0, 1.0])
    with pytest.raises(FeedbackError, match="at least 2"):
        OrdinalProbitLikelihood()
    ratings = OrdinalRatings(torch.tensor([0]), torch.tensor([1]), 3)
    with pytest.raises(FeedbackError, match=r"3 levels.*OrdinalProbitLikelihood\(3\)"):
        likelihood.factors(ratings, 2)


def test_gradients_reach_the_cutpoints() -> None:
    likelihood = CASES["ordinal 1"].build()
    ratings = OrdinalRatings(torch.tensor([0, 1, 2, 0]), torch.arange(4), 4)
    z = torch.tensor([0.1, -0.4, 0.9, 2.0], dtype=torch.float64)

    def total(raw):
        likelihood.raw_cutpoints.data = raw
        return likelihood.factors(ratings, 3).log_prob(z).value.sum()

    start = likelihood.raw_cutpoints.detach().clone()
    total(start.clone()).backward()
    for i in range(3):
        step = 1e-6 * torch.eye(3, dtype=torch.float64)[i]
        want = float(total(start + step).detach() - total(start - step).detach()) / 2e-6
        assert number(likelihood.raw_cutpoints.grad[i]) == pytest.approx(want, rel=1e-6)


def test_a_prior_sees_the_cutpoints_themselves() -> None:
    prior = NormalPrior(0.0, 2.0)
    likelihood = OrdinalProbitLikelihood(
        cutpoints=torch.tensor(CUTPOINTS), cutpoints_prior=prior
    )
    ((_, module, registered, closure, setting),) = likelihood.named_priors()
    assert registered is prior
    assert closure(module).tolist() == pytest.approx(CUTPOINTS, rel=1e-6)
    setting(module, torch.tensor([0.0, 1.0, 3.0]))
    assert likelihood.cutpoints.tolist() == pytest.approx([0.0, 1.0, 3.0], abs=1e-6)


BINARY = [
    case for case in CASES.values() if not isinstance(case.feedback, OrdinalRatings)
]


@pytest.mark.parametrize("case", BINARY, ids=lambda c: c.likelihood.__name__)
def test_forward_is_the_probability_of_the_positive_answer(case) -> None:
    """Of a win of the first item, or of a valid trial."""
    z = torch.linspace(-4, 4, 9, dtype=torch.float64)
    probability = case.build()(z).probs
    positive = VALID if Validity in case.likelihood.explains else WIN
    truth = next(
        c for c in CASES.values()
        if c.likelihood is case.likelihood and c.feedback is positive
    )  # fmt: skip
    expected = [float(truth.truth(mp.mpf(float(x)), **case.parameters)) for x in z]
    assert probability.tolist() == pytest.approx(expected, rel=1e-6)


def test_observation_variance_is_that_of_one_item() -> None:
    """Twice it is the variance of the noise of a difference."""
    assert number(PairwiseProbitLikelihood(0.3).observation_variance) == pytest.approx(
        0.3
    )
    assert number(AffineProbitLikelihood(0.3).observation_variance) == pytest.approx(
        0.3
    )
    # A logistic variable, the difference of two Gumbels, has variance pi^2 / 3.
    second_moment = (
        2
        * integrate.quad(
            lambda t: t * t * math.exp(-t) / (1 + math.exp(-t)) ** 2, 0, 60
        )[0]
    )
    gumbel = float(PairwiseLogitLikelihood().observation_variance)
    assert 2 * gumbel == pytest.approx(second_moment, rel=1e-6)


def test_batches_of_parameters_and_answers_equal_their_elements() -> None:
    noises, thresholds = torch.tensor([0.2, 0.9]).double(), torch.tensor([0.1, 0.4])
    pairs = torch.tensor([[[0, 1], [2, 1]], [[1, 0], [0, 2]]])
    ties = torch.tensor([[1, 2]])
    utilities = torch.tensor([[0.3, -0.2, 1.0], [1.0, 0.0, -1.0]], dtype=torch.float64)
    for noise, threshold in (
        (noises, 0.3),
        (0.5, thresholds),
        (noises, thresholds),
        (0.5, 0.3),
    ):
        module = PairwiseProbitLikelihood(noise, threshold).double()
        factors = module.factors(Comparisons(pairs, ties), 3)
        together = factors.log_prob(factors.rows.apply(utilities)).value
        for i in range(2):
            one = PairwiseProbitLikelihood(
                *(
                    float(torch.as_tensor(p).expand(2)[i].to(torch.float32))
                    for p in (noise, threshold)
                )
            ).double()
            single = one.factors(Comparisons(pairs[i], ties), 3)
            torch.testing.assert_close(
                together[i], single.log_prob(single.rows.apply(utilities[i])).value,
                rtol=1e-6, atol=1e-6,
            )  # fmt: skip


def test_joint_factors_are_their_blocks_one_under_another() -> None:
    utilities = torch.tensor([0.4, -1.2, 2.0], dtype=torch.float64)
    variance = torch.tensor([0.3, 0.6, 1.1, 2.0], dtype=torch.float64)
    probit = CASES["probit tie"].build()
    blocks = [
        probit.factors(Comparisons(torch.cat([PAIR, SECOND_PAIR]), PAIR), 3),
        CASES["valid"].build().factors(FAILED, 3),
    ]
    logit = PairwiseLogitLikelihood().double().factors(Comparisons(SECOND_PAIR), 3)
    boxes, mixed = joint_factors(blocks), joint_factors([*blocks[:1], logit])
    assert type(boxes) is BoxFactors
    assert type(mixed) is JointFactors
    assert joint_factors(blocks[:1]) is blocks[0]
    for joint, parts in ((boxes, blocks), (mixed, [blocks[0], logit])):
        z = torch.cat([part.rows.apply(utilities) for part in parts])
        torch.testing.assert_close(joint.rows.apply(utilities), z)
        alone = [part.log_prob(part.rows.apply(utilities)) for part in parts]
        for order, value in enumerate(joint.log_prob(z)):
            torch.testing.assert_close(value, torch.cat([a[order] for a in alone]))
        split = [z.split([3, 1]), variance.split([3, 1])]
        alone = [
            part.log_partition(*arguments)
            for part, *arguments in zip(parts, *split, strict=True)
        ]
        for order, value in enumerate(joint.log_partition(z, variance)):
            torch.testing.assert_close(value, torch.cat([a[order] for a in alone]))


def set_answers(kind):
    if kind is Choices:
        items = torch.tensor([[0, 1, 2]])
        return [Choices(items, torch.tensor([c])) for c in range(3)]
    orders = itertools.permutations(range(3))
    return [Rankings(torch.tensor([order])) for order in orders]


def set_log_probability(factors, utilities):
    """Given utilities; shared noise, of rank one for three items, by Gauss-Hermite."""
    z = factors.rows.apply(utilities)
    if factors.noise is None:
        return number(factors.log_prob(z).value.sum())
    values, vectors = torch.linalg.eigh(factors.noise.dense())
    assert values[0].abs() < 1e-12
    nodes, weights = numpy.polynomial.hermite_e.hermegauss(80)
    shifts = torch.tensor(nodes).unsqueeze(-1) * (values[1].sqrt() * vectors[:, 1])
    log_values = factors.log_prob(z + shifts).value.sum(-1)
    weights = torch.tensor(weights / math.sqrt(2 * math.pi))
    return number((log_values + weights.log()).logsumexp(0))


def heard(kind, utilities, noise):
    """Probabilities of all answers by brute force: orthants of heard differences."""
    for answer in set_answers(kind):
        order = answer.stages()[0].tolist()
        size = torch.zeros(2, 3, dtype=torch.float64)
        for row in range(2):
            size[row, order[0 if kind is Choices else row]] = 1
            size[row, order[row + 1]] = -1
        yield multivariate_normal(
            mean=(-size @ utilities).numpy(), cov=(noise * size @ size.mT).numpy()
        ).cdf([0, 0])


@pytest.mark.parametrize("case", SET_CASES, ids=lambda c: c.kind.__name__)
@pytest.mark.parametrize("utilities", [[0.0, 0.0, 0.0], [0.8, -0.3, 1.0]])
def test_answers_about_a_set(case, utilities) -> None:
    likelihood = case.likelihood(**case.parameters).double()
    utilities = torch.tensor(utilities, dtype=torch.float64)
    got = []
    for answer in set_answers(case.kind):
        factors = likelihood.factors(answer, 3)
        assert type(factors) is case.factors
        got.append(math.exp(set_log_probability(factors, utilities)))
    assert sum(got) == pytest.approx(1.0, abs=1e-8)
    if case.factors is CorrelatedBoxFactors:
        want = list(heard(case.kind, utilities, case.parameters["noise"]))
        assert got == pytest.approx(want, abs=1e-5)
