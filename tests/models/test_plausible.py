"""Hyper-parameters as plausible as the fitted ones, beside quadrature."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from gpytorch.kernels import RBFKernel, ScaleKernel
from gpytorch.priors import GammaPrior, LogNormalPrior

from botorch_pref import (
    BotorchPrefError,
    Comparisons,
    EPPreferenceGP,
    LaplacePreferenceGP,
    PairwiseProbitLikelihood,
    PreferenceMarginalLogLikelihood,
    Rankings,
    Ratings,
    default_model,
)
from botorch_pref.evaluation import best_probability
from botorch_pref.evaluation.progress import path_maxima
from botorch_pref.likelihoods import BetaRatingLikelihood
from botorch_pref.models import (
    AveragedUtility,
    averaged_utility,
    guessing_probability,
    hyperparameter_density,
    plausible,
    plausible_models,
)
from botorch_pref.models.hyperparameter_density import HyperparameterDensity
from botorch_pref.models.raters import answered_model
from botorch_pref.numerics.mixtures import systematic_sample

POINTS = torch.tensor([[0.1], [0.3], [0.5], [0.9]], dtype=torch.float64)
PAIRS = torch.tensor([[1, 0], [2, 1], [3, 0], [2, 3]])


@pytest.fixture(scope="module")
def model() -> EPPreferenceGP:
    """A fitted model, of whose hyper-parameters the output scale alone is learned."""
    shape = RBFKernel().double().requires_grad_(False)
    kernel = ScaleKernel(shape, outputscale_prior=GammaPrior(2.0, 2.0)).double()
    model = EPPreferenceGP(POINTS, PAIRS, covar_module=kernel)
    fit_gpytorch_mll(PreferenceMarginalLogLikelihood(model.likelihood, model))
    return model.eval()


def test_they_are_draws_of_the_posterior(model: EPPreferenceGP) -> None:
    """Mean and deviation of the raw output scale, by the density on a grid."""
    density = HyperparameterDensity(model)
    grid = density.start.detach() + torch.linspace(-8, 12, 161).double()
    heights = torch.stack([density.evaluate(u.reshape(1))[0] for u in grid])
    weights = heights.softmax(0)
    mean = float(weights @ grid)
    variance = float(weights @ (grid - mean).square())
    # Neither end of the grid counts.
    assert float(weights[[0, -1]].max()) < 1e-6
    count = 100
    models = plausible_models(model, count, seed=1)
    raw = torch.stack([m.covar_module.raw_outputscale.detach() for m in models])
    # Of three hundred proposals that are a Gaussian's, weighted: at least a hundred
    # independent draws.
    assert abs(float(raw.mean()) - mean) < 4 * math.sqrt(variance / count)
    assert abs(float(raw.var()) / variance - 1) < 4 * math.sqrt(4 / count)


def test_they_have_the_answers_and_leave_the_model_alone(
    model: EPPreferenceGP,
) -> None:
    state = {name: value.clone() for name, value in model.state_dict().items()}
    before = torch.get_rng_state()
    first, again, reseeded = (plausible_models(model, 2, seed) for seed in (0, 0, 1))
    assert torch.equal(before, torch.get_rng_state())
    assert not model.training
    for name, value in model.state_dict().items():
        assert torch.equal(value, state[name])
    scales = [
        [float(m.covar_module.outputscale.detach()) for m in models]
        for models in (first, again, reseeded)
    ]
    assert scales[0] == scales[1] != scales[2]
    kernel = RBFKernel().double()
    for drawn, scale in zip(first, scales[0], strict=True):
        covar_module = ScaleKernel(kernel).double()
        covar_module.outputscale = scale
        truth = EPPreferenceGP(POINTS, PAIRS, covar_module=covar_module).eval()
        with torch.no_grad():
            mean, expected = (m.posterior(POINTS).mean for m in (drawn, truth))
        torch.testing.assert_close(mean, expected, rtol=1e-6, atol=1e-6)


def test_resampling_takes_each_as_often_as_its_weight() -> None:
    weights = torch.tensor([0.5, 0.0, 0.3, 0.2]).double()
    for offset in torch.linspace(0.01, 0.99, 20).double():
        places = systematic_sample(weights, 10, offset)
        counts = torch.bincount(places, minlength=4)
        assert counts.tolist() == [5, 0, 3, 2]


def test_nearly_as_many_models_differ_as_are_drawn() -> None:
    """Proposals that miss the posterior leave two or three of eight, again and again.

    Of a hundred and more proposals about ten hyper-parameters, at least a third count.
    """
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(24, 4, generator=generator, dtype=torch.float64)
    utility = -4 * (X[:, 0] - 0.3).square() - X[:, 1]
    pairs = torch.arange(24).reshape(12, 2)
    is_better = utility[pairs[:, 0]] > utility[pairs[:, 1]]
    pairs = torch.where(is_better.unsqueeze(-1), pairs, pairs.flip(-1))
    models = plausible_models(default_model(X, pairs), 40, seed=2)
    scales = {float(m.covar_module.outputscale.detach()) for m in models}
    # Of independent draws from a third of 120 proposals 40 (1 - e^-1) = 25 differ.
    assert len(scales) >= 25, f"{len(scales)} of 40 models differ"


def test_parameters_without_a_prior_stay(model: EPPreferenceGP) -> None:
    ties = Comparisons(PAIRS, ties=torch.tensor([[0, 3]]))
    likelihood = PairwiseProbitLikelihood(tie_threshold=0.4)
    kernel = ScaleKernel(RBFKernel(), outputscale_prior=GammaPrior(2.0, 2.0)).double()
    tied = EPPreferenceGP(POINTS, ties, likelihood=likelihood, covar_module=kernel)
    first, second = plausible_models(tied, 2)
    scales = [float(m.covar_module.outputscale.detach()) for m in (first, second)]
    assert scales[0] != scales[1]
    for drawn in (first, second):
        assert float(drawn.likelihood.tie_threshold.detach()) == pytest.approx(0.4)
        lengthscale = drawn.covar_module.base_kernel.lengthscale
        assert torch.equal(lengthscale, kernel.base_kernel.lengthscale)
    assert tied.likelihood.raw_tie_threshold.requires_grad


def test_batches_have_kernels_without_priors_as_often_as_models() -> None:
    kernel = ScaleKernel(RBFKernel()).double()
    noisy = PairwiseProbitLikelihood(noise_prior=LogNormalPrior(0.0, 1.0))
    model = EPPreferenceGP(POINTS, PAIRS, likelihood=noisy, covar_module=kernel).eval()
    (batch,) = plausible_models(model, 3).batches
    assert batch.covar_module(POINTS).shape == (3, 4, 4), "a kernel says its shape"
    covariance = batch.covar_module(POINTS).to_dense()
    expected = kernel(POINTS).to_dense().expand(3, 4, 4)
    assert torch.equal(covariance, expected), "all models have the one kernel"
    box = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    values, largest = path_maxima(batch, POINTS, POINTS, box, 2, seed=0)
    assert values.shape == (2, 3, 4), "each model has its functions"
    assert (largest >= values.amax(-1) - 1e-9).all(), "a maximum is above the starts"


def test_what_has_no_plausible_models_is_refused(model: EPPreferenceGP) -> None:
    fixed = EPPreferenceGP(POINTS, PAIRS, covar_module=RBFKernel().double())
    with pytest.raises(BotorchPrefError, match="Every parameter of the model is fixed"):
        plausible_models(fixed)
    with pytest.raises(BotorchPrefError, match="count"):
        plausible_models(model, 0)
    for draw in (plausible_models, guessing_probability):
        for seed in (None, -1, 0.5, True):
            with pytest.raises(BotorchPrefError, match="seed is"):
                draw(model, seed=seed)
        with pytest.raises(BotorchPrefError, match="model is"):
            draw(None)


@pytest.mark.parametrize("guesses", [None, "0.5", math.nan, -0.1, 1.5])
def test_an_average_refuses_what_is_no_probability(
    model: EPPreferenceGP, guesses: Any
) -> None:
    with pytest.raises(BotorchPrefError, match="guessing_probability is"):
        AveragedUtility(model, [model], guesses)


@pytest.mark.parametrize(
    ("num_answers", "num_points", "reason"),
    [
        (300, 600, None),
        (301, 600, "1: more than 300 answers settle them"),
        (150, 601, "1: others take long beyond 600 options"),
    ],
)
def test_no_average_is_made_of_many_answers_or_points(
    num_answers: int,
    num_points: int,
    reason: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rankings of four have four points each: 300 of them would be 1,200."""
    X = torch.linspace(0, 1, num_points).double().unsqueeze(-1)
    # Rows that are the same are one point.
    X = torch.cat([X, X[:2]])
    pair = torch.tensor([[0, num_points]])
    counts = torch.tensor([num_answers])
    model = EPPreferenceGP(X, feedback=[Comparisons(pair, pair_counts=counts)])
    drawn = plausible._Plausible([model], 0.25)
    monkeypatch.setattr(plausible, "_plausible", lambda *_, **__: drawn)
    utility, explanations = averaged_utility(model)
    if reason is None:
        assert isinstance(utility, AveragedUtility), "answers that 300 duels can have"
        assert explanations == 1, "one model was drawn"
    else:
        assert utility is model, "an average that takes long"
        assert explanations == reason, "a report does not say why"


def test_an_average_needs_a_member(model: EPPreferenceGP) -> None:
    with pytest.raises(BotorchPrefError, match="members is empty"):
        AveragedUtility(model, [])


@pytest.fixture(scope="module")
def average() -> AveragedUtility:
    """Members of noises 1, 4 and 9, in units of a model of noise 4."""
    members = []
    for noise in (1.0, 4.0, 9.0):
        likelihood = PairwiseProbitLikelihood(noise=noise)
        members.append(EPPreferenceGP(POINTS, PAIRS, likelihood=likelihood).eval())
    return AveragedUtility(members[1], members)


@pytest.mark.parametrize("often", [1, 8])
def test_models_guess_where_answers_look_like_guesses(often: int) -> None:
    """As many as are probable, where all answers are contradicted by others."""
    pairs = torch.cat([PAIRS, PAIRS.flip(-1)]).repeat(often, 1)
    likelihood = PairwiseProbitLikelihood(2.0, noise_prior=LogNormalPrior(1.0, 1.0))
    shape = RBFKernel().double().requires_grad_(False)
    kernel = ScaleKernel(shape).double().requires_grad_(False)
    kernel.outputscale = 20.0
    model = EPPreferenceGP(POINTS, pairs, likelihood=likelihood, covar_module=kernel)
    fit_gpytorch_mll(PreferenceMarginalLogLikelihood(model.likelihood, model))
    guesses = guessing_probability(model.eval())
    with torch.inference_mode():
        assert guessing_probability(model) == guesses
    members = plausible_models(model, 40)
    noises = torch.tensor([float(m.likelihood.noise.detach()) for m in members])
    share = float((noises.log() > 7.9).double().mean())
    assert (guesses > plausible.GUESSED) == (often > 1)
    # Those of 8 models differ by the error of their draws.
    assert share == pytest.approx(guesses if often > 1 else 0.0, abs=0.05)


GRID = torch.rand(8, 3, generator=torch.Generator().manual_seed(0)).double()
CODED = torch.cat([GRID[:, :1], torch.eye(2).double().repeat(4, 1)], -1)
DUELS = torch.arange(8).reshape(4, 2)
SIDES = torch.tensor([[1.0], [-1.0], [1.0], [1.0]]).double()
MODELS: dict[str, Callable[[], Any]] = {
    "lapses": lambda: default_model(GRID, DUELS),
    "rankings and a choice": lambda: default_model(
        CODED, Rankings(DUELS.reshape(2, 4)), categorical=[[1, 2]]
    ),
    "several likelihoods": lambda: default_model(
        GRID, [Comparisons(DUELS), Ratings(torch.arange(2), GRID[:2, 0])]
    ),
    "covariates": lambda: default_model(GRID, Comparisons(DUELS, covariates=SIDES)),
    "raters": lambda: default_model(GRID, DUELS, raters=torch.arange(8) // 4),
    "Laplace": lambda: LaplacePreferenceGP(GRID, DUELS).eval(),
}


@pytest.mark.parametrize("kind", MODELS)
def test_batches_predict_what_their_models_do_one_by_one(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plausible, "NUM_MODELS", 5)
    # Two models of eight points at once.
    monkeypatch.setattr(hyperparameter_density, "MOST_ENTRIES", 2 * 8**2)
    model = MODELS[kind]()
    together, count = averaged_utility(model)
    assert isinstance(together, AveragedUtility), f"no average: {count}"
    assert [len(m.covar_module.batch_shape) for m in source_models(together)] == [1] * 3
    members = list(together.members)
    apart = AveragedUtility(model, members, together.guessing_probability)
    points = CODED if kind == "rankings and a choice" else GRID
    with torch.no_grad():
        for X in (points, points[:6].reshape(2, 3, 3)):
            moments = [average.moments(X) for average in (together, apart)]
            # EP ends within 1e-7 deviations of its fixed point.
            for part in ("means", "covariance"):
                torch.testing.assert_close(
                    *(getattr(m, part) for m in moments), rtol=1e-6, atol=1e-6
                )
            for noise in (False, True):
                chances = [
                    average.duel_probability(X, X[..., :1, :], noise)
                    for average in (together, apart)
                ]
                torch.testing.assert_close(*chances, rtol=0, atol=1e-6)


def source_models(average: AveragedUtility) -> list[Any]:
    return [answered_model(batch) for batch in average.members.batches]


def test_models_of_a_group_are_those_of_its_raters() -> None:
    group = MODELS["raters"]()
    members = plausible_models(group, 2)
    for member, source in zip(
        members, plausible_models(group.rater_model, 2), strict=True
    ):
        assert torch.equal(member.raters, group.raters), "the group is the same"
        for name, value in source.named_parameters():
            drawn = member.rater_model.get_parameter(name)
            assert torch.equal(drawn, value), f"{name} is drawn given all answers"


SCALES = (2.0, 1.0, 2 / 3)


def test_an_average_is_a_mixture_in_one_unit(average: AveragedUtility) -> None:
    X, reference = POINTS[1:], POINTS[:1]
    with torch.no_grad():
        posterior = average.posterior(X)
        difference = average.duel_posterior(X, reference)
        of_members = [m.duel_posterior(X, reference) for m in average.members]
        means = torch.stack([m.posterior(X).mean for m in average.members])
    scales = torch.tensor(SCALES, dtype=torch.double)
    mean = (scales[:, None, None] * means).mean(0)
    torch.testing.assert_close(posterior.mixture_mean, mean)
    mixture = torch.distributions.MixtureSameFamily(
        torch.distributions.Categorical(torch.ones(3, 3)),
        torch.distributions.Normal(
            torch.stack(
                [s * m.mean[:, 0] for s, m in zip(SCALES, of_members, strict=True)], -1
            ),
            torch.stack(
                [
                    s * m.variance[:, 0].sqrt()
                    for s, m in zip(SCALES, of_members, strict=True)
                ],
                -1,
            ),
        ),
    )
    for level in (0.025, 0.5, 0.975):
        quantile = difference.quantile(torch.tensor([level]).double())
        chance = mixture.cdf(quantile.reshape(3))
        torch.testing.assert_close(
            chance, torch.full((3,), level).double(), atol=1e-4, rtol=0
        )


def test_ratings_have_one_unit_whatever_the_noise_of_duels() -> None:
    """Precise ratings tell the utility: they are its Phi, of a noise of 1 in each."""
    standard = torch.linspace(-1.5, 1.5, len(POINTS)).double()
    ratings = Ratings(torch.arange(len(POINTS)), torch.special.ndtr(standard))
    members = []
    for noise in (1.0, 16.0):
        likelihoods = {
            Comparisons: PairwiseProbitLikelihood(noise=noise),
            Ratings: BetaRatingLikelihood(precision=1e4),
        }
        blocks = [Comparisons(PAIRS), ratings]
        model = EPPreferenceGP(POINTS, feedback=blocks, likelihood=likelihoods)
        members.append(model.eval())
    with torch.no_grad():
        mean = AveragedUtility(members[1], members).posterior(POINTS).mixture_mean
    # Four deviations, 0.027, of the utility given a rating near the end of the scale.
    torch.testing.assert_close(mean[:, 0], 2**0.5 * standard, atol=0.11, rtol=0)


def test_chances_of_an_average_are_those_of_its_members(
    average: AveragedUtility,
) -> None:
    for noise in (False, True):
        with torch.no_grad():
            chance = average.duel_probability(POINTS[1:], POINTS[:1], noise)
            probabilities = [
                m.duel_probability(POINTS[1:], POINTS[:1], noise)
                for m in average.members
            ]
        torch.testing.assert_close(chance, sum(probabilities) / 3)
    best = best_probability(average, POINTS, num_samples=4096)
    apart = [best_probability(m, POINTS, num_samples=4096) for m in average.members]
    # The error of a share of 4,096 draws, twice.
    torch.testing.assert_close(best, sum(apart) / 3, atol=4 * 0.5 / 64 * 2**0.5, rtol=0)
