"""Moments of utilities and their differences, Gaussian posteriors, draws of duels."""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy
from functools import cached_property
from typing import Any, Self, cast

import torch
from botorch.acquisition.objective import (
    PosteriorTransform,
    ScalarizedPosteriorTransform,
)
from botorch.exceptions.errors import UnsupportedError
from botorch.models.model import Model
from botorch.posteriors.gpytorch import GPyTorchPosterior
from botorch.posteriors.posterior import Posterior
from botorch.sampling.normal import SobolQMCNormalSampler
from botorch.utils.transforms import is_ensemble
from gpytorch.distributions import MultivariateNormal
from torch import Generator, Tensor

from botorch_pref.errors import FeedbackError
from botorch_pref.linalg.covariance import (
    SemidefiniteLinearOperator,
    batched_product,
    psd_root,
)
from botorch_pref.numerics.argument_checks import check_probabilities, checked_arguments
from botorch_pref.numerics.mixtures import narrowest_interval

Linear = Callable[[Tensor], Tensor]
"""A linear map of points, from ``... x q x r`` to ``... x q' x r`` for any ``r``."""


class Moments:
    """Posterior means and the covariance around them at some points.

    Args:
        means: ``s x batch_shape x q``, one row a draw; ``s = 1`` for a Gaussian.
        covariance: ``batch_shape x q x q``, shared by the draws.
    """

    def __init__(self, means: Tensor, covariance: Tensor) -> None:
        self._means = means
        self.covariance = covariance

    @property
    def means(self) -> Tensor:
        """Means of each draw, ``s x batch_shape x q``."""
        return self._means

    @property
    def mean(self) -> Tensor:
        """Mean over draws, ``batch_shape x q``."""
        return self.means.mean(0)

    @property
    def spread(self) -> Tensor:
        """A root of the covariance of means over draws, ``batch_shape x q x r``."""
        deviation = (self.means - self.mean).movedim(0, -1)
        return deviation / math.sqrt(deviation.shape[-1])

    def means_of(self, linear: Linear) -> Tensor:
        """Computes means of ``q'`` linear combinations, ``s x batch_shape x q'``."""
        return linear(self.means.movedim(0, -1)).movedim(-1, 0)

    def combined(self, linear: Linear, offset: float | Tensor = 0.0) -> Moments:
        """Computes moments of linear combinations of the utilities plus an offset.

        Such are differences of duels and means over raters.

        Args:
            linear: The map ``... x q x r`` to ``... x q' x r``; it has no offset, for
                the covariance goes through it twice.
            offset: Added to the means alone.
        """
        covariance = congruence(linear, self.covariance)
        return Moments(self.means_of(linear) + offset, covariance)

    def with_more_covariance(self, covariance: Tensor) -> Self:
        """Copies the moments, with independent noise of mean zero in the utilities.

        Args:
            covariance: Of the noise, ``batch_shape x q x q``.
        """
        # A copy keeps the class, and so the means of `WeightedMoments` unmade.
        noisy = copy(self)
        noisy.covariance = self.covariance + covariance
        return noisy


def contrast(moments: Moments, q: int) -> Moments:
    """Computes moments of differences: utilities of ``q`` points less the references.

    Args:
        moments: Of ``q`` points followed by one reference for all or one each.
        q: How many points come before the references.
    """
    return moments.combined(lambda points: points[..., :q, :] - points[..., q:, :])


def congruence(linear: Linear, matrix: Tensor) -> Tensor:
    """Computes ``L C L'``, the covariance of the combinations ``L f`` of utilities.

    The ``matrix`` is ``C``, symmetric, ``batch_shape x q x q``.
    """
    return linear(linear(matrix).mT).mT


class WeightDraws:
    """Draws of weights ``w``, ``batch_shape x n x s``; utilities are linear, ``k w``.

    With a root :math:`R` of the covariance of the draws, utilities have the covariance
    :math:`(k R)(k R)^T` over draws, at the cost of ``n`` columns instead of ``s``.
    """

    def __init__(self, values: Tensor) -> None:
        self.values = values

    @cached_property
    def mean(self) -> Tensor:
        """Mean of the weights over draws, ``batch_shape x n x 1``."""
        # The first caller may want no graph, and a later one does.
        with torch.inference_mode(False), torch.enable_grad():
            return self.values.mean(-1, keepdim=True)

    @cached_property
    def root(self) -> Tensor:
        """A root of the covariance of the weights over the ``s`` draws.

        It is ``batch_shape x n x min(n, s)``, and ``n x s`` where draws have a graph.
        """
        num_points, num_draws = self.values.shape[-2:]
        with torch.inference_mode(False), torch.enable_grad():
            # Draws are the components of a mixture, no sample: not ``num_draws - 1``.
            deviations = (self.values - self.mean) / math.sqrt(num_draws)
            # A triangular factor is smaller, if draws are many, but has no derivative
            # where these are linearly dependent.
            if deviations.requires_grad or num_draws <= num_points:
                return deviations
            return torch.linalg.qr(deviations.mT, mode="r").R.mT


class WeightedMoments(Moments):
    """Moments of ``prior mean + features @ w``, the means of draws made at first use.

    Means and covariances over draws, and the means of linear combinations, need none of
    the ``s`` means at the points themselves. Features are ``batch_shape x q x n``.
    """

    def __init__(
        self,
        prior_mean: Tensor,
        features: Tensor,
        weights: WeightDraws,
        covariance: Tensor,
    ) -> None:
        """Keeps the parts: the base class would want the means, which are made later.

        Args:
            prior_mean: ``batch_shape x q``.
            features: Prior covariances with the points that have the weights.
            weights: Draws of the weights ``w`` of these points.
            covariance: That which all draws have around their means.
        """
        self.covariance = covariance
        # A view of a parameter has a graph in spite of no_grad; means are made later.
        self._prior_mean = (
            prior_mean if torch.is_grad_enabled() else prior_mean.detach()
        )
        self._features, self._weights = features, weights

    @cached_property
    def means(self) -> Tensor:
        """See base class."""
        # The first caller may want no graph, and a later one does.
        with torch.enable_grad():
            return self.means_of(lambda points: points)

    @property
    def mean(self) -> Tensor:
        """See base class."""
        return self._prior_mean + self._times(self._weights.mean).squeeze(-1)

    @property
    def spread(self) -> Tensor:
        """See base class."""
        return self._times(self._weights.root)

    def means_of(self, linear: Linear) -> Tensor:
        """See base class."""
        prior = linear(self._prior_mean.unsqueeze(-1)).squeeze(-1)
        # The features first: the product with ``s`` columns is then of ``q'`` rows.
        shift = batched_product(linear(self._features), self._weights.values)
        return prior + shift.movedim(-1, 0)

    def combined(self, linear: Linear, offset: float | Tensor = 0.0) -> Moments:
        """See base class."""
        return WeightedMoments(
            linear(self._prior_mean.unsqueeze(-1)).squeeze(-1) + offset,
            linear(self._features),
            self._weights,
            congruence(linear, self.covariance),
        )

    def _times(self, matrix: Tensor) -> Tensor:
        return batched_product(self._features, matrix)


class SemidefiniteNormal(MultivariateNormal):
    """A Gaussian whose covariance may be singular.

    GPyTorch's raises variances to 1e-10, with a warning: the difference of a point from
    itself has none, nor has a tiny one of a kernel with a small output scale.
    """

    @property
    def variance(self) -> Tensor:
        """Variances, ``batch_shape x q``; below zero by rounding counts as zero.

        GPyTorch's property would raise them to 1e-10.
        """
        diagonal = self.lazy_covariance_matrix.diagonal(dim1=-2, dim2=-1)
        return diagonal.clamp_min(0.0).expand(self.batch_shape + self.event_shape)


class GaussianPosterior(GPyTorchPosterior):
    """Gaussian posterior of utilities: BoTorch's, with credible intervals.

    A utility may be known, as that of a linear one is at the origin: its variance is 0.
    """

    def quantile(self, value: Tensor) -> Tensor:
        """Computes quantiles of the marginal distributions, as BoTorch does.

        Args:
            value: Probabilities, ``m``.

        Returns:
            ``m x batch_shape x q x 1``, without ``m`` for a single one.
        """
        mean, deviation = self.mean, self.variance.clamp_min(0.0).sqrt()
        shape = value.shape if value.numel() > 1 else ()
        levels = torch.special.ndtri(value.to(mean))
        return mean + levels.reshape(*shape, *[1] * mean.dim()) * deviation

    def interval(self, level: float) -> tuple[Tensor, Tensor]:
        """Computes narrowest marginal credible intervals, which lie around the mean.

        Args:
            level: Probability of each interval, in (0, 1).

        Returns:
            Lower and upper ends, each ``batch_shape x q x 1``.
        """
        variance = self.variance.clamp_min(0.0)
        return narrowest_interval(self.mean.unsqueeze(0), variance, level)


def gaussian_posterior(moments: Moments) -> GaussianPosterior:
    """Makes a Gaussian posterior of utilities.

    Args:
        moments: Of one component.
    """
    # An operator, because a tensor is factored at once, needed or not.
    covariance = SemidefiniteLinearOperator(moments.covariance)
    return GaussianPosterior(SemidefiniteNormal(moments.mean, covariance))


def check_output_indices(output_indices: list[int] | None) -> None:
    """Refuses outputs other than ``[0]``, the utility; None asks for all."""
    if output_indices not in (None, [0]):
        raise UnsupportedError(
            f"output_indices={output_indices}, but the utility is one output."
        )


def with_observation_noise(
    moments: Moments, observation_noise: bool | Tensor, likelihood: Any
) -> Moments:
    """Adds the noise of answers to moments of utilities at q points, for a posterior.

    The noise is a tensor of variances, ``batch_shape x q x 1`` or one number for all
    points; or True, for the ``observation_variance`` of the likelihood. Callers with
    False have nothing to add, and do not call.
    """
    if not isinstance(observation_noise, bool | Tensor):
        raise FeedbackError(
            f"observation_noise is {observation_noise!r}; give True, False, or a "
            "tensor of variances, batch_shape x q x 1."
        )
    # An input transform may turn one point into several.
    num_points = moments.covariance.shape[-1]
    if observation_noise is True:
        noise = likelihood.observation_variance.unsqueeze(-1)
    else:
        variances = cast("Tensor", observation_noise)
        noise = variances.squeeze(-1)
        scalar_shapes = (), (1,)
        if variances.shape[-1:] not in scalar_shapes or noise.shape[-1:] not in (
            *scalar_shapes,
            (num_points,),
        ):
            raise FeedbackError(
                f"observation_noise has shape {tuple(variances.shape)} for "
                f"{num_points} points; give variances, batch_shape x q x 1."
            )
    if not bool(((noise >= 0) & noise.isfinite()).all()):
        raise FeedbackError(
            "observation_noise holds variances that are negative or not finite; give "
            "variances of at least 0, batch_shape x q x 1."
        )
    diagonal = torch.diag_embed(noise.expand(*noise.shape[:-1], num_points))
    return moments.with_more_covariance(diagonal.to(moments.covariance))


def transformed_posterior(
    make: Callable[[Moments], Posterior],
    moments: Moments,
    transform: PosteriorTransform | None,
    X: Tensor,
) -> Posterior:
    """Makes the posterior that ``model.posterior(X, posterior_transform=...)`` returns.

    Scaled by one weight, moments make a posterior of the same class, such as a skew
    one; any other transform is BoTorch's own, of the posterior that ``make`` gives.
    ``X`` is untransformed.
    """
    # Subclasses may do more; wrong numbers of weights are for BoTorch to refuse.
    if type(transform) is ScalarizedPosteriorTransform:
        weights = cast("Tensor", transform.weights)
        if weights.numel() == 1:
            # Exact for every component of a mixture.
            scaled = moments.combined(lambda f: weights[0] * f, transform.offset)
            return make(scaled)
    posterior = make(moments)
    return posterior if transform is None else transform(posterior=posterior, X=X)


# A variance of a difference is off by up to 5 of them, measured on fitted models, in
# units of the summed prior variances.
_ROUNDINGS = 16


def shared_covariance_mixture(posterior: Posterior) -> tuple[Tensor, Tensor]:
    """Returns component means and the shared covariance of a preference posterior.

    A `SkewNormalPosterior` is a mixture, BoTorch's Gaussian ``GPyTorchPosterior`` one
    of one component, and an ensemble's ``GaussianMixturePosterior`` one of one
    component in each element of its batch, the last dimension of which counts members.
    Means are ``num_components x batch_shape x q``, the covariance ``batch_shape x q x
    q``.
    """
    moments = moments_of(posterior)
    return moments.means, moments.covariance


def moments_of(posterior: Posterior) -> Moments:
    """Returns the moments of a preference posterior: see `shared_covariance_mixture`.

    The means of draws are made at first use: who reads ``mean`` and ``spread`` alone
    does not pay for all of them.
    """
    moments = getattr(posterior, "moments", None)
    if isinstance(moments, Moments):
        return moments
    if isinstance(posterior, GPyTorchPosterior) and not posterior._is_mt:
        distribution = posterior.distribution
        mean = distribution.mean.unsqueeze(0)
        return Moments(mean, distribution.covariance_matrix)
    raise UnsupportedError(
        f"The difference of two points under a {type(posterior).__name__} is not a "
        "Gaussian mixture with one variance; give a single-output "
        "GPyTorchPosterior or a SkewNormalPosterior."
    )


def draw_utilities(
    posterior: Posterior, num_draws: int, generator: Generator | None = None
) -> Tensor:
    """Draws utilities jointly, ``num_draws x batch_shape x q``.

    The posterior is one that `shared_covariance_mixture` takes; its points may be near
    each other. Torch's default generator draws if none is given.
    """
    means, covariance = shared_covariance_mixture(posterior)
    # First the components, then the normals, in double precision on the processor: a
    # seed means the same draws.
    component = torch.randint(len(means), (num_draws,), generator=generator)
    root = psd_root(covariance)
    shape = (num_draws, *root.shape[:-1], 1)
    normal = torch.randn(shape, generator=generator, dtype=torch.float64).to(root)
    return means[component.to(means.device)] + (root @ normal).squeeze(-1)


def difference_mixture(
    posterior: Posterior, first: int | Tensor = 0, second: int | Tensor = 1
) -> tuple[Tensor, Tensor]:
    """Computes the distribution of ``f(x_first) - f(x_second)``, a mixture.

    With a for ``first`` and b for ``second``, component k has the mean ``m_k,a -
    m_k,b``, and all have the variance ``C_aa + C_bb - 2 C_ab``; below 0 it is rounding,
    set to 0 with derivative 0. Means are ``num_components x batch_shape``, the variance
    is ``batch_shape``. With vectors of ``num_pairs`` points for a and for b both have
    one more dimension, the last, of ``num_pairs``.
    """
    moments = moments_of(posterior)
    covariance = moments.covariance
    variance = (
        covariance[..., first, first]
        + covariance[..., second, second]
        - covariance[..., first, second]
        - covariance[..., second, first]
    )
    return _differences(moments, first, second), variance.clamp_min(0.0)


def duel_mixtures(
    posterior: Posterior, first: Tensor, second: Tensor
) -> tuple[Tensor, Tensor]:
    """Computes means and variances of differences, with duels before the batch.

    So parameters of a link, ``batch_shape``, broadcast with both. Means are
    ``num_components x num_duels x batch_shape``, variances ``num_duels x batch_shape``.
    """
    means, variance = difference_mixture(posterior, first, second)
    return means.movedim(-1, 1), variance.movedim(-1, 0)


def _differences(moments: Moments, first: int | Tensor, second: int | Tensor) -> Tensor:
    """Computes differences of component means at pairs of points.

    With fewer pairs than points the means of points are not made, if they are not yet.
    The result is ``num_components x batch_shape`` for two numbers; vectors of points
    add a dimension at the end.
    """
    i, j = (torch.atleast_1d(torch.as_tensor(p)) for p in (first, second))
    if len(i) >= moments.covariance.shape[-1]:
        # There are no more means of points than of differences.
        return moments.means[..., first] - moments.means[..., second]
    means = moments.means_of(lambda points: points[..., i, :] - points[..., j, :])
    return means.squeeze(-1) if isinstance(first, int) else means


def mean_of(posterior: Any) -> Tensor:
    """Returns the mean of a posterior or of a mixture, ``batch_shape x q``."""
    mean: Tensor = getattr(posterior, "mixture_mean", posterior.mean)
    return mean.squeeze(-1)


def mean_at(model: Model, X: Tensor) -> Tensor:
    """Computes posterior means of a model at points, ``batch_shape x q``, no gradients.

    An ensemble's are averages over its members, the last dimension of its batch.
    """
    with torch.no_grad():
        posterior: Any = model.posterior(X)
    mean: Tensor = posterior.mean.squeeze(-1)
    return mean.mean(-2) if is_ensemble(model) else mean


def central_interval(posterior: Any, level: float) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the mean and both ends of central credible intervals, for tables.

    An interval has the probability ``level``, in (0, 1), and leaves as much below it as
    above. All are ``batch_shape x q``, without gradients.
    """
    check_probabilities("level", torch.tensor(level, dtype=torch.float64))
    tails = torch.tensor([(1 - level) / 2, (1 + level) / 2], dtype=torch.float64)
    mean = mean_of(posterior).detach()
    lower, upper = posterior.quantile(tails.to(mean)).detach().squeeze(-1)
    return mean, lower, upper


def resolved_variance(variance: Tensor, scale: Tensor) -> Tensor:
    r"""Adds to the variance of a difference the part that rounding hides.

    .. math:: \max(v, 0) + \rho, \qquad \rho = 16 \, \epsilon \, (k_{aa} + k_{bb})

    The variance v of :math:`f(a) - f(b)` is a difference of larger prior variances k
    (``scale`` is their sum). As a and b approach each other, v falls with the square of
    their distance and the mean with the distance: below its rounding :math:`\rho`, at
    about :math:`\sqrt{16 \epsilon}` lengthscales (6e-8 in double, 1e-3 in single
    precision), the mean is small beside :math:`\sqrt\rho`, and P(one beats the other)
    goes to a half.
    """
    limits = torch.finfo(variance.dtype)
    hidden = _ROUNDINGS * limits.eps * scale
    # Positive even where the scale is 0, since callers divide by its root.
    return (variance.clamp_min(0.0) + hidden).clamp_min(limits.tiny)


def duels_between(utilities: Tensor) -> Tensor:
    """Lists every duel of items of utilities ``batch_shape x q x 1``, winner first.

    The indices are ``batch_shape x q (q - 1) / 2 x 2``. Of equal utilities the item
    that comes first wins.
    """
    values = utilities.squeeze(-1)
    pairs = torch.combinations(torch.arange(values.shape[-1], device=values.device))
    first, second = pairs.unbind(-1)
    lost = values[..., first] < values[..., second]
    return torch.where(lost.unsqueeze(-1), pairs.flip(-1), pairs)


class DuelSampler(SobolQMCNormalSampler):
    """Answers to the duels of ``q`` points, drawn from their posterior.

    What BoTorch's ``PairwiseSobolQMCNormalSampler`` is for, but with the winner first,
    as ``PairwiseGP`` takes pairs too (BoTorch's, in 0.18.1, have the loser first), and
    without global seeds: Sobol points come from a generator of their own, so that equal
    seeds give equal answers and no random state but this one is read or changed.

    Base samples are shared by t-batches, and the answers about all ``q`` points are
    those of one draw of utilities. Any posterior that takes normal base samples will
    do: Gaussian ones, also of BoTorch's ``PairwiseGP``, and
    :class:`~botorch_pref.posteriors.skew_normal.SkewNormalPosterior`.

    Args:
        sample_shape: Shape of the set of draws.
        seed: Of the Sobol points.
    """

    @checked_arguments
    def __init__(self, sample_shape: torch.Size, seed: int = 0) -> None:
        super().__init__(sample_shape=sample_shape, seed=seed)

    def forward(self, posterior: Posterior) -> Tensor:
        """Draws answers to all duels of the points, winner first, as indices of points.

        The posterior is over ``batch_shape x q x 1``, and has the noise of the answers,
        or else the better utility always wins. Answers are ``sample_shape x batch_shape
        x q (q - 1) / 2 x 2`` long: the ``Y`` of ``condition_on_observations``.
        """
        return duels_between(super().forward(posterior))
