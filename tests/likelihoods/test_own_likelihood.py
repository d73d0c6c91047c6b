"""A likelihood that somebody else wrote: ``explains`` and ``forward``, and no more."""

import math

import pytest
import torch
from botorch.utils.probability.utils import ndtr
from cases import in_turn
from scipy import integrate
from torch import Tensor
from torch.distributions import Bernoulli, Distribution, Independent, Normal, StudentT

from botorch_pref import (
    AffineProbitLikelihood,
    Comparisons,
    DuelingBALD,
    EPPreferenceGP,
    LaplacePreferenceGP,
    Ratings,
    Strengths,
    UnsupportedFeedbackError,
    Validity,
    log_validity_probability,
)
from botorch_pref.evaluation import predictive_log_probability
from botorch_pref.likelihoods import (
    DensityFactors,
    DuelLink,
    PositiveParameter,
    PreferenceLikelihood,
    ScalarFactors,
    register_positive,
)
from botorch_pref.models.answer_likelihoods import model_link

DOUBLE = torch.float64
POINTS = torch.tensor([[0.0], [0.25], [0.6], [1.0]], dtype=DOUBLE)
PAIRS = torch.tensor([[1, 0], [1, 2], [2, 3], [0, 3], [3, 1], [1, 0], [2, 0]])
NEW = torch.tensor([[[0.1]], [[0.45]], [[0.9]]], dtype=DOUBLE)
BOTH = [EPPreferenceGP, LaplacePreferenceGP]
LAPSE = 0.1


class WanderingLikelihood(PreferenceLikelihood[Comparisons]):
    """Cauchy noise whose scale is learned, and answers at random now and then."""

    explains = {Comparisons: DensityFactors}  # noqa: RUF012
    scale = PositiveParameter()

    def __init__(self, scale: float = 0.5) -> None:
        super().__init__()
        register_positive(self, "scale", scale, learned=True)

    def forward(self, function_samples: Tensor) -> Bernoulli:
        hears = 0.5 + (function_samples / self.scale).atan() / math.pi
        return Bernoulli(probs=LAPSE / 2 + (1 - LAPSE) * hears)


class Logit(PreferenceLikelihood[Comparisons]):
    """Duels of the logistic distribution, by their density alone."""

    explains = {Comparisons: DensityFactors}  # noqa: RUF012

    def forward(self, function_samples: Tensor) -> Bernoulli:
        return Bernoulli(logits=function_samples)


class Affine(PreferenceLikelihood[Validity]):
    """Validity of the normal distribution, by its density alone."""

    explains = {Validity: DensityFactors}  # noqa: RUF012

    def forward(self, function_samples: Tensor) -> Bernoulli:
        return Bernoulli(probs=ndtr(function_samples))


class RobustRatings(PreferenceLikelihood[Ratings]):
    """Ratings with outliers."""

    explains = {Ratings: DensityFactors}  # noqa: RUF012

    def forward(self, function_samples: Tensor) -> Distribution:
        return StudentT(3.0, function_samples, 0.2)


def wandering_win(u: float, scale: float) -> float:
    return LAPSE / 2 + (1 - LAPSE) * (0.5 + math.atan(u / scale) / math.pi)


def expected(function, mean: float, variance: float) -> float:
    deviation = math.sqrt(variance)

    def integrand(t: float) -> float:
        return function(mean + deviation * t) * math.exp(-0.5 * t * t)

    cut = [x for x in (-mean / deviation,) if abs(x) < 10]
    value, _ = integrate.quad(
        integrand, -10, 10, points=cut or None, limit=500, epsabs=1e-12
    )
    return value / math.sqrt(2 * math.pi)


def duel_moments(model, x: Tensor, y: Tensor) -> tuple[float, float]:
    with torch.no_grad():
        posterior = model.duel_posterior(x, y)
    return float(posterior.mean), float(posterior.variance)


@pytest.fixture(scope="module")
def model() -> EPPreferenceGP:
    fitted = EPPreferenceGP(POINTS, PAIRS, likelihood=WanderingLikelihood())
    fitted.covar_module.outputscale = 3.0
    return fitted.eval().requires_grad_(False)


@in_turn(
    ("protocol", "methods"),
    [
        (PreferenceLikelihood, {"forward"}),
        (ScalarFactors, {"log_prob", "curvature_gradient", "log_partition"}),
        (
            DuelLink,
            {"log_win_probability", "expected_entropy", "win_slope", "win_variance"},
        ),
    ],
)
def test_few_methods_must_be_written(protocol: type, methods: set[str]) -> None:
    """As `docs/extending.md` says; everything else has a default."""
    assert protocol.__abstractmethods__ == methods


# --- Engines


def test_one_answer_has_its_exact_moments_under_ep() -> None:
    pair = torch.tensor([[1, 3]])
    model = EPPreferenceGP(POINTS, pair, likelihood=WanderingLikelihood(0.3))
    prior = model.eval().covar_module(POINTS).to_dense().detach()
    variance = float(prior[1, 1] + prior[3, 3] - 2 * prior[1, 3])
    moments = [
        expected(lambda u, k=k: u**k * wandering_win(u, 0.3), 0.0, variance)
        for k in range(3)
    ]
    mean = moments[1] / moments[0]
    got = duel_moments(model, POINTS[1:2], POINTS[3:])
    assert got[0] == pytest.approx(mean, rel=1e-8)
    assert got[1] == pytest.approx(moments[2] / moments[0] - mean**2, rel=1e-8)
    evidence = float(model.log_evidence().detach())
    assert evidence == pytest.approx(math.log(moments[0]), rel=1e-8)


def test_batches_of_answers() -> None:
    pairs = torch.stack([PAIRS, PAIRS.flip(-1)])
    together = EPPreferenceGP(
        POINTS.expand(2, -1, -1), pairs, likelihood=WanderingLikelihood()
    ).eval()
    for i in range(2):
        alone = EPPreferenceGP(POINTS, pairs[i], likelihood=WanderingLikelihood())
        got = together.posterior(NEW[:, 0]).mean[i]
        torch.testing.assert_close(got, alone.eval().posterior(NEW[:, 0]).mean)


# --- What the answers are expected to be


def test_held_out_answers(model) -> None:
    held_out = Comparisons(torch.tensor([[3, 0], [2, 1]]))
    got = predictive_log_probability(held_out, model, POINTS)
    for row, value in zip(held_out.pairs.tolist(), got, strict=True):
        moments = duel_moments(model, POINTS[row[:1]], POINTS[row[1:]])
        want = math.log(expected(lambda u: wandering_win(u, 0.5), *moments))
        assert float(value) == pytest.approx(want, abs=1e-8)
    with pytest.raises(UnsupportedFeedbackError, match="ties"):
        predictive_log_probability(Comparisons(PAIRS, PAIRS), model, POINTS)


def test_the_link_follows_the_parameters() -> None:
    model = EPPreferenceGP(POINTS, PAIRS, likelihood=WanderingLikelihood())
    u = torch.tensor(0.7, dtype=DOUBLE)
    for scale in (0.3, 2.0):
        model.likelihood.scale = scale
        win = model_link(model).win_probability(u, torch.zeros_like(u)).detach()
        assert float(win) == pytest.approx(wandering_win(0.7, scale), rel=1e-12)


def test_the_noise_of_an_item_has_the_quartiles_of_the_link() -> None:
    """Three quarters of duels are won one scale apart, but for lapses."""
    variance = WanderingLikelihood(0.5).double().observation_variance
    quartile = 0.6744897501960817 * math.sqrt(2 * float(variance))
    assert quartile == pytest.approx(0.5, rel=1e-6)


# --- Other kinds of answers


def test_validity() -> None:
    validity = Validity(torch.arange(4), torch.tensor([True, False, True, True]))
    models = [
        EPPreferenceGP(POINTS, feedback=[validity], likelihood=likelihood).eval()
        for likelihood in (Affine(), AffineProbitLikelihood())
    ]
    for likelihood_class in (
        lambda m: log_validity_probability(m, NEW),
        lambda m: predictive_log_probability(validity, m, POINTS),
        lambda m: m.posterior(POINTS, observation_noise=True).variance,
    ):
        ours, theirs = (likelihood_class(m).detach() for m in models)
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-7)


@in_turn(("engine", "error"), [(EPPreferenceGP, 0.03), (LaplacePreferenceGP, 0.15)])
def test_ratings_with_an_outlier(engine, error: float) -> None:
    """Of five ratings of one point one is far off; the posterior by integration."""
    ratings = torch.tensor([0.5, 0.52, 0.47, 0.51, 0.99], dtype=DOUBLE)
    answers = Ratings(torch.zeros(5, dtype=torch.long), ratings)
    model = engine(POINTS[:1], feedback=[answers], likelihood=RobustRatings()).eval()
    prior = float(model.covar_module(POINTS[:1]).to_dense().detach())

    def likelihood(f: float) -> float:
        z = (ratings - f) / 0.2
        return float((1 + z.square() / 3).pow(-2).prod())

    mass, first, second = (
        expected(lambda f, k=k: f**k * likelihood(f), 0.0, prior) for k in range(3)
    )
    with torch.no_grad():
        posterior = model.posterior(POINTS[:1])
    deviation = math.sqrt(second / mass - (first / mass) ** 2)
    assert float(posterior.mean) == pytest.approx(first / mass, abs=error * deviation)
    assert float(posterior.variance.sqrt()) == pytest.approx(deviation, rel=error)


def test_what_it_says_nothing_of_is_refused() -> None:
    ratings = Ratings(torch.tensor([0]), torch.tensor([0.5]))
    model = EPPreferenceGP(POINTS, feedback=[ratings], likelihood=RobustRatings())
    with pytest.raises(UnsupportedFeedbackError, match="RobustRatings"):
        DuelingBALD(model)
    with pytest.raises(UnsupportedFeedbackError, match="RobustRatings"):
        _ = model.likelihood.observation_variance
    ties = Comparisons(PAIRS, ties=PAIRS)
    with pytest.raises(UnsupportedFeedbackError, match="no probability for ties"):
        EPPreferenceGP(POINTS, ties, likelihood=Logit())
    strengths = Strengths(PAIRS[:1], torch.tensor([0.6]))
    with pytest.raises(UnsupportedFeedbackError, match="explains none"):
        EPPreferenceGP(POINTS, feedback=[strengths], likelihood=Logit())


@in_turn("explains", [None, {}, [Comparisons], {Comparisons}])
def test_a_likelihood_names_what_it_explains(explains: object) -> None:
    likelihood_class = type("Own", (Logit,), {"explains": explains})
    with pytest.raises(UnsupportedFeedbackError, match=r"Own\.explains is"):
        likelihood_class()


@in_turn(
    ("forward", "message"),
    [
        (torch.sigmoid, "got Tensor"),
        (lambda z: Bernoulli(logits=z.sum(-1)), r"batch_shape \(\)"),
        (lambda z: Bernoulli(logits=z.unsqueeze(-1)), r"batch_shape \(6, 1\)"),
        (lambda z: Independent(Bernoulli(logits=z), 1), r"event_shape \(6,\)"),
        (lambda z: Bernoulli(logits=z[:2]), r"batch_shape \(2,\)"),
        (lambda z: Normal(z, 1.0), "Normal has a density"),
    ],
)
def test_a_forward_of_another_shape_is_refused(forward, message: str) -> None:
    likelihood_class = type("Own", (Logit,), {"forward": lambda self, z: forward(z)})
    model = EPPreferenceGP(POINTS, PAIRS, likelihood=likelihood_class())
    with pytest.raises(UnsupportedFeedbackError, match=rf"forward\(\).*{message}"):
        model.posterior(POINTS)


@in_turn(
    ("factors", "message"),
    [
        (lambda own, feedback, n: None, "returned None; return Factors"),
        (
            lambda own, feedback, n: Logit.factors(own, feedback, n + 1),
            "rows about 5 points, but the Comparisons are about 4 datapoints",
        ),
    ],
)
def test_factors_of_other_points_are_refused(factors, message: str) -> None:
    own = type("Own", (Logit,), {"factors": factors})
    with pytest.raises(UnsupportedFeedbackError, match=rf"Own\.factors.*{message}"):
        EPPreferenceGP(POINTS, PAIRS, likelihood=own())
