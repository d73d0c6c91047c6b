"""Models of the same answers with other hyper-parameters, as plausible as the fitted.

The most probable hyper-parameters are one explanation of the answers among many: a few
tens of answers hardly say which parameters matter, and how fast the utility changes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

import torch
from botorch.models.model import Model
from botorch.posteriors.fully_bayesian import GaussianMixturePosterior
from gpytorch.distributions import MultivariateNormal
from gpytorch.priors import LogNormalPrior
from threadpoolctl import threadpool_limits
from torch import Generator, Tensor
from torch.distributions import Normal

from botorch_pref.errors import BotorchPrefError
from botorch_pref.feedback import Comparisons
from botorch_pref.inference.engine import WarmStart
from botorch_pref.linalg.covariance import SemidefiniteLinearOperator, join_rows
from botorch_pref.models.engines import EPPreferenceGP, LaplacePreferenceGP
from botorch_pref.models.fully_bayesian import (
    HyperparameterDensity,
    parameters_without_prior,
)
from botorch_pref.models.preference_gp import PreferenceGP
from botorch_pref.models.raters import GroupUtility
from botorch_pref.models.utility_model import DerivedModel
from botorch_pref.numerics.argument_checks import check_count, check_point_pairs
from botorch_pref.posteriors.gaussian import Moments, contrast

NUM_MODELS = 8
_PROPOSALS = 3
"""Draws of the Gaussian for each model."""

_STEP = 1e-2
"""Of differences of gradients, in free numbers, mostly logarithms in prior spreads."""

_FLATTEST = 0.02
"""Least curvature of the Gaussian: priors have about 1, or less of relevances that move
together; what differences say below that is rounding, or a density with another shape,
which the weights mend."""


@torch.enable_grad()
def plausible_models(
    model: PreferenceGP, count: int = NUM_MODELS, seed: int = 0
) -> list[PreferenceGP]:
    r"""Draws models from the posterior of the hyper-parameters of a fitted one.

    Around the fitted free vector :math:`\hat u` (see :class:`.HyperparameterDensity`)
    the posterior :math:`p(u \mid D)` is nearly Gaussian, with the precision :math:`-H`,
    the curvature of its logarithm. Draws :math:`u_i` of that Gaussian :math:`q`, three
    for each model, are chosen again with the probabilities

    .. math:: w_i \propto p(u_i \mid D) / q(u_i)

    (sampling-importance resampling, Rubin 1988), so that the models count alike. It
    takes a gradient of the evidence for each hyper-parameter, and an evidence for each
    draw.

    Args:
        model: Fitted, without batches. It stays as it is, and so do in each of them the
            parameters that have no prior.
        count: How many models.
        seed: Of the draws; the global random state stays as it is.

    Returns:
        Models in evaluation mode, the same one perhaps more than once.

    Raises:
        BotorchPrefError: A count below 1, or what `HyperparameterDensity` says.
    """
    check_count("count", count, at_least=1)
    learned = deepcopy(model).train()
    for name in parameters_without_prior(learned):
        learned.get_parameter(name).requires_grad_(False)
    density = HyperparameterDensity(learned)
    start = density.start.detach()
    gradient, hessian = _derivatives(density, start)
    curvature, directions = torch.linalg.eigh(-hessian)
    deviations = curvature.clamp_min(_FLATTEST).rsqrt()
    # The fitted values have the largest density of themselves, not of their logarithms.
    centre = start + directions @ (deviations.square() * (directions.mT @ gradient))
    generator = torch.Generator().manual_seed(seed)
    shape = _PROPOSALS * count, len(start)
    z = torch.randn(shape, generator=generator, dtype=torch.float64).to(start)
    vectors = centre + (z * deviations) @ directions.mT
    heights = torch.stack([density.evaluate(vector)[0] for vector in vectors])
    weights = (heights + 0.5 * z.square().sum(-1)).softmax(0)
    chosen = _systematic(weights, count, generator)
    return [_with_parameters(model, density, vectors[i]) for i in chosen]


def average_noise(model: PreferenceGP) -> None:
    r"""Sets the noise of duels to the mean of its logarithm, given the answers.

    A few tens of answers leave open how precise a person is, and the most probable
    noise trusts them too much: who overrates a person foresees her answers worse than
    who underrates her by as much. Before any answer she guesses with the probability
    :math:`\pi = 1/2`, so that her noise is :math:`e^8`, and else has a noise of the
    likelihood's prior. With the other hyper-parameters :math:`\theta` as they are, the
    noise becomes

    .. math:: \exp E[\log \sigma^2 \mid D, \theta], \qquad
        p(\log \sigma^2 \mid D, \theta) \propto p(D \mid \sigma^2, \theta) \,
        \big((1 - \pi) \, N(\log \sigma^2; \mu, \tau^2)
        + \pi \, \delta(\log \sigma^2 - 8)\big),

    a sum over steps of :math:`\tau`, or of parts of it where the posterior is narrow.

    Args:
        model: Fitted, without batches. Of its hyper-parameters only the noise changes.

    Raises:
        BotorchPrefError: The noise of duels has no log-normal prior.
    """
    # Where an evidence fails, the model keeps the noise that it has.
    logs, weights = _noises(deepcopy(model))
    model.likelihood_of(Comparisons).noise = math.exp(float(weights @ logs))


def guessing_probability(model: PreferenceGP) -> float:
    """The probability that all duels are guesses, where before them it was 1/2.

    See `average_noise`. Answers that random utilities explain worse than a coin make it
    large, and answers of a person with a taste make it 0. It says nothing of ties:
    people who guess are expected to call none.

    Args:
        model: Fitted, without batches. It stays as it is.

    Raises:
        BotorchPrefError: The noise of duels has no log-normal prior.
    """
    return float(_noises(deepcopy(model))[1][-1])


_GUESSING, _GUESSED = 0.5, 8.0
"""The probability that a person guesses before any answer, and the logarithm of the
noise of one who does: beside an output scale of ten her answers are those of a coin."""

_NEGLIGIBLE, _FINE = 8.0, 0.6
"""Nats below the most probable noise: what is less probable changes no mean; and the
least deviation in steps."""


# The matrices are small, so that threads of SciPy's BLAS wait for each other, and long
# where other programs use the cores. BoTorch's own fits have one thread as well.
@threadpool_limits.wrap(limits=1, user_api="blas")
def _noises(model: PreferenceGP) -> tuple[Tensor, Tensor]:
    """Logarithms of noises, and their posterior probabilities; guesses come last.

    They lie around the present noise, as far as any probability is left. The model is
    left with one of them.
    """
    likelihood = model.likelihood_of(Comparisons)
    prior = getattr(likelihood, "noise_prior", None)
    if not isinstance(prior, LogNormalPrior):
        raise BotorchPrefError(
            f"The noise of the {type(likelihood).__name__} has the prior {prior}; only "
            "one with a log-normal prior is averaged."
        )
    of_logs = Normal(prior.loc, prior.scale)
    with torch.no_grad():
        present, evidence = float(likelihood.noise.log()), _evidence(model, likelihood)
        guessed = evidence(_GUESSED) + math.log(_GUESSING)
        logs, heights, step = _integrated(
            lambda log: evidence(log) + float(of_logs.log_prob(torch.tensor(log))),
            present,
            float(prior.scale),
        )
    attentive = heights + math.log((1 - _GUESSING) * step)
    logs = torch.cat([logs, logs.new_tensor([_GUESSED])])
    return logs, torch.cat([attentive, logs.new_tensor([guessed])]).softmax(0)


def _integrated(
    log_density: Callable[[float], float], start: float, step: float
) -> tuple[Tensor, Tensor, float]:
    r"""Places at equal steps, log densities there, and the step, for sums over steps.

    From the start they go in both directions to where hardly any probability is left.
    Steps are halved until the trapezoidal rule is right within a thousandth: it errs by
    about :math:`e^{-2 \pi^2 s^2 / h^2}` where a deviation ``s`` has steps ``h``.
    """
    heights = {start: log_density(start)}
    for direction in (-step, step):
        place = start
        while heights[place] > max(heights.values()) - _NEGLIGIBLE:
            place += direction
            heights[place] = log_density(place)
    while True:
        places = torch.tensor(sorted(heights), dtype=torch.float64)
        values = places.new_tensor([heights[place] for place in places.tolist()])
        weights = values.softmax(0)
        if weights @ (places - weights @ places).square() >= (_FINE * step) ** 2:
            return places, values, step
        step /= 2
        likely = places[values > values.max() - _NEGLIGIBLE].tolist()
        for place in {p + side for p in likely for side in (-step, step)} - {*heights}:
            heights[place] = log_density(place)


def _evidence(model: PreferenceGP, likelihood: Any) -> Callable[[float], float]:
    """The log evidence by the logarithm of a noise, which the model has then.

    The prior is the same for all, and each solution starts where the last one ended.
    """
    prior, engine = model.prior(), model.engine.of_evidence
    start: WarmStart | None = None

    def evidence(log_noise: float) -> float:
        nonlocal start
        likelihood.noise = math.exp(log_noise)
        solution = engine.solve(prior, model.factors(), start)
        start = solution.warm_start()
        return float(solution.log_evidence)

    return evidence


def _derivatives(
    density: HyperparameterDensity, vector: Tensor
) -> tuple[Tensor, Tensor]:
    """The gradient, ``p``, and differences of exact gradients, ``p x p``."""
    gradient = density.evaluate(vector)[1]
    steps = _STEP * torch.eye(len(vector)).to(vector)
    gradients = [density.evaluate(vector + step)[1] for step in steps]
    hessian = (torch.stack(gradients) - gradient) / _STEP
    return gradient, 0.5 * (hessian + hessian.mT)


def _systematic(weights: Tensor, count: int, generator: Generator) -> list[int]:
    """Places with these weights, one for each of equal steps through their sums."""
    offset = torch.rand((), generator=generator, dtype=torch.float64)
    steps = (torch.arange(count, dtype=torch.float64) + offset) / count
    sums = weights.double().cpu().cumsum(0)
    places: list[int] = torch.searchsorted(sums / sums[-1], steps).tolist()
    return places


def _with_parameters(
    model: PreferenceGP, density: HyperparameterDensity, vector: Tensor
) -> PreferenceGP:
    """A copy of a model with the hyper-parameters of a free vector."""
    model_copy = deepcopy(model)
    with torch.no_grad():
        for name, value in density.parameters_of(vector).items():
            model_copy.get_parameter(name).copy_(value)
    return model_copy.eval()


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
        members: Models of the same answers, see `plausible_models`.
    """

    members: Any
    """A module list, so that they move with this."""

    def __init__(self, model: Any, members: Sequence[Any]) -> None:
        super().__init__()
        self.model = model
        self.members = torch.nn.ModuleList(members)

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
    def datapoints(self) -> Tensor:
        """The distinct points of the fitted model."""
        points: Tensor = self.model.datapoints
        return points

    @property
    def train_inputs(self) -> tuple[Tensor, ...]:
        """The `datapoints` in a tuple."""
        return (self.datapoints,)

    def moments(self, X: Tensor) -> Moments:
        """See base class: of each member, in dimension -2 of means."""
        unit = utility_unit(self.model)
        means, covariances = [], []
        for member in self.members:
            moments = member.moments(X)
            scale = unit / utility_unit(member)
            means.append(scale * moments.means)
            covariances.append(scale**2 * moments.covariance)
        return Moments(torch.stack(means, -2), torch.stack(covariances, -3))

    def make_posterior(self, moments: Moments) -> GaussianMixturePosterior:
        """See base class: a mixture over the members, each of them one Gaussian."""
        covariance = SemidefiniteLinearOperator(moments.covariance)
        return GaussianMixturePosterior(
            MultivariateNormal(moments.means[0], covariance)
        )

    def duel_posterior(self, X: Tensor, X_ref: Tensor) -> GaussianMixturePosterior:
        """The posterior of differences ``f(X) - f(X_ref)``.

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
        """P(X1 beats X2), averaged over the members, ``batch_shape x q``.

        Args:
            X1: ``batch_shape x q x d``.
            X2: ``batch_shape x q x d`` or ``batch_shape x 1 x d``.
            observation_noise: Whether in an answer, or by utility.
        """
        chances = [
            member.duel_probability(X1, X2, observation_noise)
            for member in self.members
        ]
        return torch.stack(chances).mean(0)


def utility_unit(model: Any) -> float:
    """Deviation of the noise with which one option is heard, where it is the unit.

    Of several likelihoods the noise of one says nothing of the others' unit.
    """
    source = model.rater_model if isinstance(model, GroupUtility) else model
    likelihoods = {id(source.likelihood_of(type(block))) for block in source.feedback}
    if len(likelihoods) > 1:
        return 1.0
    return float(model.likelihood.observation_variance.detach().sqrt())


MOST_ANSWERS = 300
"""The number of answers above which hyper-parameters are settled, not averaged over."""


def averaged_utility(model: Model) -> tuple[Model, int | str]:
    """Averages a model's utility over hyper-parameters that explain the answers.

    Args:
        model: Fitted; of raters it is averaged, too.

    Returns:
        The average with the number of its members, or the model itself with 1, or with
        why there is 1 only: of more than `MOST_ANSWERS` answers, and of models without
        such hyper-parameters.
    """
    source: Any = model.rater_model if isinstance(model, GroupUtility) else model
    if not isinstance(source, EPPreferenceGP | LaplacePreferenceGP):
        return model, 1
    answers = sum(int(block.answer_counts.sum()) for block in source.feedback)
    if answers > MOST_ANSWERS:
        return model, 1
    try:
        members: list[Any] = plausible_models(source)
    except BotorchPrefError as error:
        return model, f"1: {error}"
    if isinstance(model, GroupUtility):
        members = [GroupUtility(member, model.raters) for member in members]
    return AveragedUtility(model, members), len(members)
