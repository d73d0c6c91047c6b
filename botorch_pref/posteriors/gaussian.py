"""Moments of utilities at points, and Gaussian posteriors made of them."""

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
from botorch.posteriors.gpytorch import GPyTorchPosterior
from botorch.posteriors.posterior import Posterior
from gpytorch.distributions import MultivariateNormal
from torch import Tensor

from botorch_pref.errors import FeedbackError
from botorch_pref.linalg.covariance import SemidefiniteLinearOperator, batched_product
from botorch_pref.numerics.mixtures import narrowest_interval

_FLOATING = (torch.float32, torch.float64)


def check_points(
    name: str, value: object, like: Tensor | None = None, dim: int | None = None
) -> Tensor:
    """Checks that an argument is a tensor of points, without a look at its entries.

    So it costs nothing where an acquisition function is maximised, on a GPU neither;
    :func:`check_finite` reads the entries, once for each prediction. The points must be
    on the device of ``like``, of no higher precision, and have ``dim`` features; single
    precision becomes double where ``like`` is.
    """
    wanted = f"batch_shape x q x {'d' if dim is None else dim}"
    if not isinstance(value, Tensor):
        raise FeedbackError(
            f"{name} must be a tensor of points, {wanted}, got "
            f"{type(value).__name__}; use torch.tensor({name}, dtype=torch.double)."
        )
    if value.layout != torch.strided:
        raise FeedbackError(f"{name} is sparse; pass {name}.to_dense().")
    value = in_precision_of(name, value, like)
    if value.dim() < 2 or (dim is not None and value.shape[-1] != dim):
        raise FeedbackError(
            f"{name} has shape {tuple(value.shape)}, expected {wanted}: one row a "
            f"point, {name}.unsqueeze(0) for a single one, {name}.unsqueeze(-1) for a "
            "single feature."
        )
    if like is not None and value.device != like.device:
        raise FeedbackError(
            f"{name} is on {value.device}, and what it goes with on {like.device}; "
            f"pass {name}.to({str(like.device)!r})."
        )
    return value


def in_precision_of(name: str, points: Tensor, like: Tensor | None) -> Tensor:
    """Points in the precision of ``like``, which must be no lower than their own."""
    dtype = points.dtype if like is None else like.dtype
    # To double is exact; from double to single would change the points.
    is_floating = points.dtype in _FLOATING and dtype in _FLOATING
    if not is_floating or torch.promote_types(points.dtype, dtype) != dtype:
        target = dtype if dtype in _FLOATING else torch.float64
        beside = "" if like is None else f", and what it goes with {like.dtype}"
        raise FeedbackError(
            f"{name} is {points.dtype}{beside}; pass {name}.to({target})."
        )
    return points.to(dtype)


def check_finite(name: str, points: Tensor) -> Tensor:
    """The points; an error names the first feature that is NaN or too large.

    Squares of distances must not overflow: of infinite ones covariances are NaN. On a
    GPU this waits for the points.
    """
    largest = 1e-3 * torch.finfo(points.dtype).max ** 0.5
    fit = points.abs() < largest
    if not bool(fit.all()):
        place = (~fit).nonzero()[0].tolist()
        raise FeedbackError(
            f"{name}{place} is {points[tuple(place)].item()}: row {place[-2]} needs "
            f"finite features, of sizes below {largest:.0e}; leave the point out, or "
            "impute what is missing."
        )
    return points


def check_point_pairs(
    names: tuple[str, str],
    first: Tensor,
    second: Tensor,
    like: Tensor | None = None,
    dim: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Checks the sides of duels, of which the second may be one point for all."""
    first = check_points(names[0], first, like, dim)
    second = check_points(names[1], second, first, first.shape[-1])
    try:
        torch.broadcast_shapes(first.shape[:-1], second.shape[:-1])
    except RuntimeError as error:
        raise FeedbackError(
            f"{names[0]} has shape {tuple(first.shape)} and {names[1]} "
            f"{tuple(second.shape)}, which do not broadcast; give one point each, or "
            "one for all."
        ) from error
    return check_finite(names[0], first), check_finite(names[1], second)


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
        """Means of ``q'`` linear combinations, ``s x batch_shape x q'``."""
        return linear(self.means.movedim(0, -1)).movedim(-1, 0)

    def combined(self, linear: Linear, offset: float | Tensor = 0.0) -> Moments:
        """Moments of linear combinations of the utilities plus an offset, of each draw.

        Args:
            linear: The combinations, ``q'`` of ``q``.
            offset: Added to all of them.
        """
        covariance = congruence(linear, self.covariance)
        return Moments(self.means_of(linear) + offset, covariance)

    def with_more_covariance(self, covariance: Tensor) -> Self:
        """Moments of the utilities plus independent noise of mean zero.

        Args:
            covariance: Of the noise, ``batch_shape x q x q``.
        """
        noisy = copy(self)
        noisy.covariance = self.covariance + covariance
        return noisy


def contrast(moments: Moments, q: int) -> Moments:
    """Moments of the first ``q`` points minus the rest.

    Args:
        moments: Of ``q`` points followed by one reference for all or one each.
        q: How many points come before the references.
    """
    return moments.combined(lambda points: points[..., :q, :] - points[..., q:, :])


def congruence(linear: Linear, matrix: Tensor) -> Tensor:
    """The covariance of linear combinations, of a matrix ``batch_shape x q x q``."""
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
        """Mean over draws, ``batch_shape x n x 1``."""
        # The first caller may want no graph, and a later one does.
        with torch.inference_mode(False), torch.enable_grad():
            return self.values.mean(-1, keepdim=True)

    @cached_property
    def root(self) -> Tensor:
        """A root of the covariance over draws, ``batch_shape x n x min(n, s)``."""
        num_points, num_draws = self.values.shape[-2:]
        with torch.inference_mode(False), torch.enable_grad():
            deviations = (self.values - self.mean) / math.sqrt(num_draws)
            # A triangular factor is no function of the draws where these are dependent.
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
        """Variances, ``batch_shape x q``; below zero by rounding counts as zero."""
        diagonal = self.lazy_covariance_matrix.diagonal(dim1=-2, dim2=-1)
        return diagonal.clamp_min(0.0).expand(self.batch_shape + self.event_shape)


class GaussianPosterior(GPyTorchPosterior):
    """Gaussian posterior of utilities: BoTorch's, with credible intervals.

    A utility may be known, as that of a linear one is at the origin: its variance is 0.
    """

    def quantile(self, value: Tensor) -> Tensor:
        """Quantiles of the marginal distributions, as those of BoTorch's.

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
        """Narrowest marginal credible intervals, which lie around the mean.

        Args:
            level: Probability of each interval, in (0, 1).

        Returns:
            Lower and upper ends, each ``batch_shape x q x 1``.
        """
        variance = self.variance.clamp_min(0.0)
        return narrowest_interval(self.mean.unsqueeze(0), variance, level)


def gaussian_posterior(moments: Moments) -> GaussianPosterior:
    """A Gaussian posterior of utilities.

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
    """Moments of utilities at q points as a person hears them.

    The noise is ``batch_shape x q x 1`` variances, or with True the likelihood's own.
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
    """The posterior of moments at untransformed ``X``, transformed as BoTorch does."""
    # Subclasses may do more; wrong numbers of weights are for BoTorch to refuse.
    if type(transform) is ScalarizedPosteriorTransform:
        weights = cast("Tensor", transform.weights)
        if weights.numel() == 1:
            # Exact for every component of a mixture.
            scaled = moments.combined(lambda f: weights[0] * f, transform.offset)
            return make(scaled)
    posterior = make(moments)
    return posterior if transform is None else transform(posterior=posterior, X=X)
