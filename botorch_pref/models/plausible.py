"""Models of the same answers with other hyper-parameters, as plausible as the fitted.

The most probable hyper-parameters are one explanation of the answers among many: a few
tens of answers hardly say which parameters matter, and how fast the utility changes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from numbers import Real
from typing import Any, NamedTuple, cast

import torch
from botorch.models.model import Model
from botorch.posteriors.fully_bayesian import GaussianMixturePosterior
from gpytorch.distributions import MultivariateNormal
from gpytorch.priors import LogNormalPrior
from torch import Generator, Tensor
from torch.nn import Module, ModuleList

from botorch_pref.errors import BotorchPrefError
from botorch_pref.feedback import Choices, Comparisons, Rankings
from botorch_pref.linalg.covariance import SemidefiniteLinearOperator, join_rows
from botorch_pref.models.derived_model import DerivedModel
from botorch_pref.models.engines import EPPreferenceGP, LaplacePreferenceGP
from botorch_pref.models.hyperparameter_density import (
    HyperparameterDensity,
    make_batch,
    models_at_once,
    parameters_without_prior,
)
from botorch_pref.models.preference_gp import PreferenceGP
from botorch_pref.models.raters import GroupUtility, answered_model
from botorch_pref.numerics.argument_checks import (
    check_count,
    check_kind,
    check_point_pairs,
    check_points,
)
from botorch_pref.numerics.mixtures import systematic_sample
from botorch_pref.posteriors.gaussian import Moments, contrast

NUM_MODELS, MOST_ANSWERS, MOST_POINTS = 32, 300, 600
"""Models in an average; answers above which hyper-parameters are settled, and distinct
points above which an evidence takes long, as many as 300 duels can have: above either
there is no average over them."""

GUESSERS, GUESSED = 0.1, 0.5
"""The share of people who only guess, before any answer: 10 to 12 % of panels answer
without care (Meade and Craig 2012). The probability above which the answers of a person
are taken for guesses: a coin explains them nine times as well. Below it models of a
coin among the others would make statements about utilities too narrow, for it explains
the thirty chosen duels of every second person about as well."""

_LOG_NOISE = 8.0
"""Logarithm of the noise of one who guesses: beside an output scale of ten her answers
are those of a coin."""

_PROPOSALS = 3
"""Draws of the Gaussian for each model."""

_STEP = 1e-2
"""Step of differences of gradients, in free numbers, mostly logarithms in prior
spreads."""

_FLATTEST = 0.02
"""Least curvature of the Gaussian: priors have about 1, or less of relevances that move
together; what differences say below that is rounding, or a density with another shape,
which the weights mend."""


class PlausibleModels(Module, Sequence[Any]):
    """Models of the same answers with other hyper-parameters, which count alike.

    They are a sequence of models, each of which is made when it is asked for. What is
    averaged over all of them asks the ``batches``, which are solved and predict
    together.

    Args:
        model: Without batches. It stays as it is. Of a `GroupUtility` so are they all.
        samples: ``S`` of each parameter that differs, by its name in the
            `answered_model`.
    """

    batches: Any
    """A module list of models, ``S`` in all, each with at most as many as
    `models_at_once` returns. Predictions are at points ``... x 1 x q x d``."""

    def __init__(
        self, model: PreferenceGP | GroupUtility, samples: Mapping[str, Tensor]
    ) -> None:
        """Makes the batches, whose parameters are the samples."""
        super().__init__()
        self.model, self._names = model, [*samples]
        size = models_at_once(answered_model(model))
        pieces = (value.split(size) for value in samples.values())
        batches = []
        for parts in zip(*pieces, strict=True):
            batch = deepcopy(model).eval().requires_grad_(False)
            make_batch(answered_model(batch), dict(zip(samples, parts, strict=True)))
            batches.append(batch)
        self.batches = ModuleList(batches)

    def __len__(self) -> int:
        """Returns ``S``."""
        return len(self._values(self._names[0]))

    def _values(self, name: str) -> Tensor:
        """Returns ``S`` values of a parameter."""
        batches = map(answered_model, self.batches)
        return torch.cat([batch.get_parameter(name) for batch in batches])

    def __getitem__(self, place: Any) -> Any:
        """Makes the model at a place, in evaluation mode; a list of them for a slice.

        It solves anew when it is asked.
        """
        if isinstance(place, slice):
            return [self[i] for i in range(*place.indices(len(self)))]
        member = deepcopy(self.model).eval()
        answered = answered_model(member)
        with torch.no_grad():
            for name in self._names:
                answered.get_parameter(name).copy_(self._values(name)[place])
        return member


class AveragedUtility(DerivedModel):
    r"""The utility of a fitted model, averaged over plausible hyper-parameters.

    .. math:: p(f \mid D) \approx \frac{1}{S} \sum_s p\Big(\frac{\sigma}{\sigma_s} f
        \mid D, \theta_s\Big)

    The unit of utility is that of the fitted model, whose noise has the deviation
    :math:`\sigma`: a member with the noise :math:`\sigma_s` has a unit of its own. Of
    answers with several likelihoods, such as duels and ratings, members have one unit,
    and the factor is 1. It is an ensemble, whose posteriors are mixtures of ``S``
    Gaussians in dimension -3.

    Args:
        model: Fitted, with Gaussian posteriors.
        members: Models of the same answers, see `plausible_models`, which are solved
            and predict in batches; or a list of any others.
        guessing_probability: The probability that all answers are guesses, see
            `guessing_probability`. Above `GUESSED` that share of the members guesses,
            as `plausible_models` draws them.

    Raises:
        BotorchPrefError: There is no member, or guessing_probability is none.
    """

    members: Any
    """`PlausibleModels` or a module list, so that they move with this."""

    def __init__(
        self, model: Any, members: Sequence[Any], guessing_probability: float = 0.0
    ) -> None:
        """Checks the arguments and keeps them; members count alike."""
        super().__init__()
        if not len(members):
            raise BotorchPrefError("members is empty; give one model or more.")
        check_kind("guessing_probability", guessing_probability, Real)
        if not 0 <= guessing_probability <= 1:
            raise BotorchPrefError(
                f"guessing_probability is {guessing_probability!r}; give a number "
                "from 0 to 1."
            )
        self.model, self.guessing_probability = model, guessing_probability
        are_drawn = isinstance(members, PlausibleModels)
        self.members = members if are_drawn else ModuleList(members)

    @property
    def _source(self) -> Any:
        return self.model

    @property
    def _is_ensemble(self) -> bool:  # type: ignore[override]
        return True

    @property
    def batch_shape(self) -> torch.Size:
        """``S``."""
        return torch.Size([len(self.members)])

    @property
    def guesser_weight(self) -> float:
        r"""The weight :math:`g` of one who guesses, beside members who do not.

        .. math:: p(y \mid D) = (1 - g) \frac{1}{S} \sum_s p(y \mid D, \theta_s)
            + g \, p(y \mid f = 0)

        Who guesses answers :math:`y` as if all options were equal, under the likelihood
        of the fitted model: with 1/2 for either of two, less with ties, with 1/k for
        each of ``k``. It is the `guessing_probability`, and 0 where members guess.
        """
        guesses = self.guessing_probability
        return 0.0 if guesses > GUESSED else guesses

    @property
    def datapoints(self) -> Tensor:
        """The points of the fitted model."""
        points: Tensor = self.model.datapoints
        return points

    @property
    def train_inputs(self) -> tuple[Tensor, ...]:
        """The `datapoints` in a tuple."""
        return (self.datapoints,)

    def moments(self, X: Tensor) -> Moments:
        """Computes moments of each member, in the unit of the fitted model's utility.

        Members are dimension -2 of means and -3 of covariances.
        """
        unit, means, covariances = utility_unit(self.model), [], []
        for batch, points in self._of_batches(X):
            moments = batch.moments(points)
            scale = (unit / utility_unit(batch))[..., None]
            means.append(scale * moments.means)
            covariances.append(scale[..., None] ** 2 * moments.covariance)
        return Moments(torch.cat(means, -2), torch.cat(covariances, -3))

    def _of_batches(self, *points: Tensor) -> Iterator[tuple[Any, ...]]:
        """Yields each batch of members with points, ``... x 1 x q x d``."""
        checked = [check_points("X", X, self.datapoints) for X in points]
        for batch in member_batches(self.members):
            yield batch, *(X.unsqueeze(-3) for X in checked)

    def make_posterior(self, moments: Moments) -> GaussianMixturePosterior:
        """See base class: a mixture over the members, each of them one Gaussian."""
        covariance = SemidefiniteLinearOperator(moments.covariance)
        return GaussianMixturePosterior(
            MultivariateNormal(moments.means[0], covariance)
        )

    def duel_posterior(self, X: Tensor, X_ref: Tensor) -> GaussianMixturePosterior:
        """Computes the posterior of differences ``f(X) - f(X_ref)``.

        Args:
            X: ``batch_shape x q x d``.
            X_ref: ``batch_shape x 1 x d`` or ``batch_shape x q x d``.
        """
        X, X_ref = check_point_pairs(("X", "X_ref"), X, X_ref, self.datapoints)
        points = join_rows([X, X_ref], along=-2)
        return self.make_posterior(contrast(self.moments(points), X.shape[-2]))

    def duel_probability(
        self, X1: Tensor, X2: Tensor, observation_noise: bool = False
    ) -> Tensor:
        """Averages P(X1 beats X2) over the members, ``batch_shape x q``.

        Args:
            X1: ``batch_shape x q x d``.
            X2: ``batch_shape x q x d`` or ``batch_shape x 1 x d``.
            observation_noise: Whether in an answer, which may be a guess (see
                `guesser_weight`), or by utility.
        """
        chances = [
            batch.duel_probability(first, second, observation_noise)
            for batch, first, second in self._of_batches(X1, X2)
        ]
        chance = torch.cat(chances, -2).mean(-2)
        weight = self.guesser_weight
        if not observation_noise or weight == 0:
            return chance
        likelihood = answered_model(self.model).likelihood_of(Comparisons)
        equal = torch.zeros_like(chance)
        return (1 - weight) * chance + weight * likelihood.win_probability(equal, equal)


def member_batches(members: Sequence[Any]) -> Sequence[Any]:
    """Returns the batches of plausible models; of others each is one by itself."""
    return members.batches if isinstance(members, PlausibleModels) else members


def utility_unit(model: Any) -> Tensor:
    """Returns the noise deviation of one option, by which models' utilities compare.

    Answers tell utilities as multiples of the noise alone: a model of twice the noise
    has utilities that are twice as large. With several likelihoods the noise of one
    says nothing of the others' unit, and the unit is 1. It is ``batch_shape``.
    """
    source = answered_model(model)
    likelihoods = {id(source.likelihood_of(type(block))) for block in source.feedback}
    if len(likelihoods) > 1:
        unit: Tensor = source.datapoints.new_ones(())
        return unit
    variance: Tensor = model.likelihood.observation_variance
    return variance.detach().sqrt()


def averaged_utility(model: Model) -> tuple[Model, int | str]:
    """Averages a model's utility over hyper-parameters that explain the answers.

    Args:
        model: Fitted; of raters it is averaged, too.

    Returns:
        The average with the number of its members; or the model itself, with 1 under
        another engine, and with "1: " and a reason, for a report, where there are more
        than `MOST_ANSWERS` answers or `MOST_POINTS` points, or where its
        hyper-parameters cannot be drawn.
    """
    source = answered_model(model)
    if not isinstance(source, EPPreferenceGP | LaplacePreferenceGP):
        return model, 1
    answers = sum(int(block.answer_counts.sum()) for block in source.feedback)
    if answers > MOST_ANSWERS:
        return model, f"1: more than {MOST_ANSWERS} answers settle them"
    # Three options more of each ranking of four cost more than its answer.
    points = source.datapoints
    if points is not None and len(points.unique(dim=0)) > MOST_POINTS:
        return model, f"1: others take long beyond {MOST_POINTS} options"
    try:
        # The model is one of these, a group of raters or all of them.
        plausible = _plausible(cast("Any", model), NUM_MODELS, seed=0)
    except BotorchPrefError as error:
        return model, f"1: {error}"
    members = plausible.models
    return AveragedUtility(model, members, plausible.guesses), len(members)


def plausible_models(
    model: PreferenceGP | GroupUtility, count: int = NUM_MODELS, seed: int = 0
) -> PlausibleModels:
    r"""Draws models from the posterior of the hyper-parameters of a fitted one.

    Around the fitted free vector :math:`\hat u` (see :class:`.HyperparameterDensity`)
    the posterior :math:`p(u \mid D)` is approximated by a Gaussian :math:`q`, whose
    precision is minus the Hessian of the log posterior. Draws :math:`u_i` of :math:`q`,
    three for each model, are chosen again with the probabilities

    .. math:: w_i \propto p(u_i \mid D) / q(u_i)

    (sampling-importance resampling, Rubin 1988), so that the models count alike. It
    takes a gradient of the evidence for each hyper-parameter, and an evidence for each
    draw. Where the `guessing_probability` is above 1/2, it is also the share of the
    models that are of a person who guesses.

    Args:
        model: Fitted, without batches; the utility of a group is one in each of them.
            It stays as it is, and so do in each of them the parameters that have no
            prior.
        count: How many models.
        seed: Of the draws; the global random state stays as it is.

    Returns:
        A sequence of models in evaluation mode, the same one perhaps more than once.

    Raises:
        BotorchPrefError: A count below 1, a negative seed, another kind of model, or
            what `HyperparameterDensity` says.
    """
    return _plausible(model, count, seed).models


def guessing_probability(model: PreferenceGP | GroupUtility, seed: int = 0) -> float:
    r"""Computes the probability that all answers are guesses; 1/10 before any answer.

    It compares the evidence of a coin with that of a person, which is the mean of

    .. math:: p(D, u_i) / q(u_i)

    over the draws of `plausible_models`. Answers that random utilities explain worse
    than a coin make it large, and answers of a person with a taste make it small. Ties
    say nothing: who guesses is expected to call options equal as often as others do.

    Args:
        model: Fitted, without batches. It stays as it is.
        seed: Of the draws.

    Returns:
        The probability; 0 where all answers are ties, or other ones than duels, choices
        and rankings are among them, or where neither their noise nor the output scale
        has a log-normal prior.

    Raises:
        BotorchPrefError: A negative seed, another kind of model, or what
            `HyperparameterDensity` says.
    """
    return _plausible(model, NUM_MODELS, seed).guesses


class _Plausible(NamedTuple):
    """Models that count alike, and the probability that all answers are guesses."""

    models: PlausibleModels
    guesses: float


@torch.inference_mode(False)
@torch.enable_grad()
def _plausible(model: PreferenceGP | GroupUtility, count: int, seed: int) -> _Plausible:
    """Draws models as plausible as a fitted one, and says how probable guesses are.

    See `plausible_models` and `guessing_probability`, which return a part each. Above
    `GUESSED` that probability is also the share of models of a coin among the drawn.
    """
    source = answered_model(model)
    check_kind("model", source, PreferenceGP)
    check_count("count", count, at_least=1)
    check_count("seed", seed, at_least=0)
    # A copy, for its parameters are fixed here and exchanged for draws later.
    learned = deepcopy(source).train()
    # These are not averaged over, for there is no density of them.
    for name in parameters_without_prior(learned):
        learned.get_parameter(name).requires_grad_(False)
    density = HyperparameterDensity(learned)
    generator = torch.Generator().manual_seed(seed)
    vectors, log_weights = _draws(density, _PROPOSALS * count, generator)
    guesser = guessing_model(source)
    guesses = 0.0 if guesser is None else _guesses(guesser, log_weights)
    share = guesses if guesses > GUESSED else 0.0
    weights = (1 - share) * log_weights.softmax(0)
    # The guesser stands behind the draws.
    weights = torch.cat([weights, weights.new_tensor([share])])
    offset = torch.rand((), generator=generator, dtype=torch.float64)
    chosen = systematic_sample(weights.cpu(), count, offset).to(vectors.device)
    guesses_all = chosen == len(vectors)
    samples = density.parameters_of(vectors[chosen.clamp_max(len(vectors) - 1)])
    if guesser is not None and bool(guesses_all.any()):
        samples = _with_guesser(source, guesser, samples, guesses_all)
    return _Plausible(PlausibleModels(model, samples), guesses)


def _draws(
    density: HyperparameterDensity, number: int, generator: Generator
) -> tuple[Tensor, Tensor]:
    """Draws free vectors of hyper-parameters, ``number x p``, and their log weights.

    They come from the Gaussian ``q`` around the largest density of free vectors ``u``,
    one Newton step from the fitted one; a weight is ``log p(D, u) - log q(u)`` with the
    evidence and priors ``p`` of the answers ``D``.
    """
    start = density.start.detach()
    gradient, hessian = _derivatives(density, start)
    curvature, directions = torch.linalg.eigh(-hessian)
    deviations = curvature.clamp_min(_FLATTEST).rsqrt()
    # The fitted values have the largest density of themselves, not of their logarithms.
    centre = start + directions @ (deviations.square() * (directions.mT @ gradient))
    shape = number, len(start)
    z = torch.randn(shape, generator=generator, dtype=torch.float64).to(start)
    vectors = centre + (z * deviations) @ directions.mT
    heights = density.values(vectors)
    # Minus log q(u) is half the square of z and this.
    volume = deviations.log().sum() + 0.5 * len(start) * math.log(2 * math.pi)
    return vectors, heights + 0.5 * z.square().sum(-1) + volume


def _derivatives(
    density: HyperparameterDensity, vector: Tensor
) -> tuple[Tensor, Tensor]:
    """Computes the gradient of a log density and its Hessian, by differences.

    They are ``p`` and ``p x p``; differences are of exact gradients, to one side.
    """
    steps = _STEP * torch.eye(len(vector)).to(vector)
    gradient, *gradients = density.evaluate(
        torch.cat([vector.unsqueeze(0), vector + steps])
    )[1]
    hessian = (torch.stack(gradients) - gradient) / _STEP
    return gradient, 0.5 * (hessian + hessian.mT)


def guessing_model(model: PreferenceGP) -> PreferenceGP | None:
    """Copies a model for a person who guesses all duels, choices and rankings.

    Under it answers are coin tosses: the evidence of the copy, which is in evaluation
    mode, is that of a coin. The noise of duels is :math:`e^8`, or where it has no
    log-normal prior, the output scale of the utilities is :math:`e^{-8}`. None where
    the model has other kinds of answers, or ties alone, or neither the noise nor the
    output scale has such a prior.
    """
    kinds = {type(block) for block in model.feedback}
    if not kinds or not kinds <= {Comparisons, Choices, Rankings} or _are_ties(model):
        return None
    guesser: Any = deepcopy(model)
    likelihood, kernel = guesser.likelihood_of(Comparisons), guesser.covar_module
    if isinstance(getattr(likelihood, "noise_prior", None), LogNormalPrior):
        noise = likelihood.noise.detach()
        threshold = getattr(likelihood, "tie_threshold", None)
        likelihood.noise = math.exp(_LOG_NOISE)
        if threshold is not None and bool((threshold > 0).any()):
            # Who guesses calls options equal as often as a person who does not.
            ratio = (likelihood.noise.detach() / noise).sqrt()
            likelihood.tie_threshold = threshold.detach() * ratio
    elif isinstance(getattr(kernel, "outputscale_prior", None), LogNormalPrior):
        kernel.outputscale = math.exp(-_LOG_NOISE)
    else:
        return None
    return cast("PreferenceGP", guesser.eval())


def _are_ties(model: PreferenceGP) -> bool:
    """Tells whether all answers of duels, choices and rankings call options equal."""
    return all(
        isinstance(block, Comparisons) and block.pairs is None
        for block in model.feedback
    )


def _guesses(guesser: PreferenceGP, log_weights: Tensor) -> float:
    """Computes the probability of the model of one who guesses, beside its source.

    Before any answer it is `GUESSERS`. The evidence of the source, averaged over its
    hyper-parameters, is the mean of the weights of their draws.
    """
    log_evidence = log_weights.logsumexp(0) - math.log(len(log_weights))
    log_prior_odds = math.log(GUESSERS / (1 - GUESSERS))
    log_odds = log_prior_odds + guesser.evidence_value() - log_evidence
    return float(log_odds.sigmoid())


def _with_guesser(
    model: PreferenceGP,
    guesser: PreferenceGP,
    samples: Mapping[str, Tensor],
    guesses_all: Tensor,
) -> dict[str, Tensor]:
    """Puts the parameters of a guesser in place of some of ``S`` samples.

    Args:
        model: Of which the guesser is a copy.
        guesser: See `guessing_model`.
        samples: ``S`` of each parameter that is drawn, by its name.
        guesses_all: Which of the ``S`` are the guesser.
    """
    result = {}
    for (name, value), of_guesser in zip(
        model.named_parameters(), guesser.parameters(), strict=True
    ):
        if name in samples or not torch.equal(value, of_guesser):
            drawn = samples.get(name, value.expand(len(guesses_all), *value.shape))
            is_guesser = guesses_all.reshape(-1, *[1] * value.dim())
            result[name] = torch.where(is_guesser, of_guesser, drawn).detach()
    return result
