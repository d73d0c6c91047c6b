"""Posteriors of skew-normal processes, and their sampler."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import NoReturn, Self

import torch
from botorch.posteriors.posterior import Posterior
from botorch.sampling.get_sampler import GetSampler
from gpytorch.distributions import MultivariateNormal
from torch import Tensor

from botorch_pref.linalg.covariance import semidefinite_cholesky
from botorch_pref.numerics import mixtures as gaussian_mixture
from botorch_pref.numerics.argument_checks import check_kind, check_probabilities
from botorch_pref.numerics.mixtures import narrowest_interval
from botorch_pref.posteriors.gaussian import Moments


class SkewNormalPosterior(Posterior):
    """Equal-weight mixture of ``S`` Gaussians over ``q`` points with one covariance.

    Given draws ``v_1 .. v_S`` of the latent variables of a unified skew-normal, the
    utilities are Gaussian with means ``m_s`` that depend on the draw and a covariance
    ``C`` that does not (Benavoli, Azzimonti and Piga 2021, "Preferential Bayesian
    optimisation with skew Gaussian processes"). Every quantity below is the exact one
    of that mixture: only the latent variables are sampled.

    **Base samples.** A sample needs ``q + 1`` standard normals: the first, through its
    distribution function, picks the component, ``floor(S Phi(z_0))``, and the others
    make the Gaussian part. The component of a sample then depends on its base sample
    alone, so that samples are consistent across t-batches, any IID or quasi-random
    normal base samples will do, and Sobol points are stratified over the components.

    **Root.** The Gaussian part is ``L z`` with the Cholesky factor of ``C``, so that
    the samples at a point do not depend on the points behind it: BoTorch's noisy
    improvements cut the gradient of their baseline, which a symmetric root gets wrong.
    Where points coincide the factor is singular, with no jitter.

    Args:
        component_means: ``num_components x batch_shape x q``.
        component_covariance: ``batch_shape x q x q``, positive semi-definite.

    Raises:
        ValueError: The two shapes disagree.
    """

    def __init__(self, component_means: Tensor, component_covariance: Tensor) -> None:
        """Checks that both have one batch shape: nothing broadcasts."""
        check_kind("component_means", component_means, Tensor)
        check_kind("component_covariance", component_covariance, Tensor)
        event = component_means.shape[1:]
        if len(event) == 0 or component_covariance.shape != event + event[-1:]:
            raise ValueError(
                f"component_means has shape {tuple(component_means.shape)} and "
                f"component_covariance {tuple(component_covariance.shape)}; give "
                "num_components x batch_shape x q and batch_shape x q x q."
            )
        self.moments = Moments(component_means, component_covariance)

    @classmethod
    def from_moments(cls, moments: Moments) -> Self:
        """Makes a posterior of moments, whose component means are made when needed."""
        # Past the constructor, whose check of shapes would make them.
        posterior = cls.__new__(cls)
        posterior.moments = moments
        return posterior

    @property
    def component_means(self) -> Tensor:
        """Means of the components, ``num_components x batch_shape x q``."""
        return self.moments.means

    @property
    def component_covariance(self) -> Tensor:
        """The covariance that all components have, ``batch_shape x q x q``."""
        return self.moments.covariance

    @property
    def device(self) -> torch.device:
        """Device of the utilities."""
        return self.component_covariance.device

    @property
    def dtype(self) -> torch.dtype:
        """Floating-point type of the utilities."""
        return self.component_covariance.dtype

    @property
    def batch_shape(self) -> torch.Size:
        """Shape of the t-batch, without components."""
        return self.component_covariance.shape[:-2]

    @property
    def base_sample_shape(self) -> torch.Size:
        """``batch_shape x (q + 1)``, the component's normal, then one per point."""
        return self.batch_shape + torch.Size([self.component_covariance.shape[-1] + 1])

    @property
    def batch_range(self) -> tuple[int, int]:
        """The dimensions of `base_sample_shape` that are t-batches."""
        return (0, -1)

    @property
    def distribution(self) -> NoReturn:
        """Absent, being the joint Gaussian that only Gaussian posteriors have.

        Raises:
            AttributeError: Always, and says what takes any posterior.
        """
        raise AttributeError(
            "A SkewNormalPosterior is no Gaussian and has no `distribution`, which "
            "ModelListGP and fast paths of BoTorch ask for; ModelList takes models "
            "with any posterior."
        )

    def _extended_shape(
        self,
        sample_shape: torch.Size = torch.Size(),  # noqa: B008
    ) -> torch.Size:
        """Returns the shape of samples: ``sample_shape x batch_shape x q x 1``."""
        return sample_shape + self.component_covariance.shape[:-1] + torch.Size([1])

    @property
    def mean(self) -> Tensor:
        """Mean, ``batch_shape x q x 1``."""
        return self.moments.mean.unsqueeze(-1)

    @property
    def covariance_matrix(self) -> Tensor:
        """Covariance within plus between components, ``batch_shape x q x q``."""
        spread = self.moments.spread
        return self.component_covariance + spread @ spread.mT

    @property
    def variance(self) -> Tensor:
        """Variance, ``batch_shape x q x 1``."""
        between = self.moments.spread.square().sum(-1)
        return (self._component_variance + between).unsqueeze(-1)

    @property
    def skewness(self) -> Tensor:
        """Third standardised moment, ``batch_shape x q x 1``; 0 for a point mass."""
        _, skewness = gaussian_mixture.central_moments(
            self.component_means, self._component_variance
        )
        return skewness.unsqueeze(-1)

    @property
    def _component_variance(self) -> Tensor:
        """Variance within components, ``batch_shape x q``; below 0 by rounding is 0."""
        diagonal = self.component_covariance.diagonal(dim1=-2, dim2=-1)
        return diagonal.clamp_min(0.0)

    def cdf(self, value: Tensor) -> Tensor:
        """Computes marginal distribution functions at every point of all values.

        Returns:
            ``value.shape x batch_shape x q x 1``, without ``value.shape`` for a single
            value (as the densities and quantiles of BoTorch's Gaussian posterior).
        """
        return self._at_each(gaussian_mixture.cdf, value)

    def density(self, value: Tensor) -> Tensor:
        """Computes marginal densities; shapes as in `cdf`."""
        return self._at_each(gaussian_mixture.log_density, value).exp()

    def quantile(self, value: Tensor) -> Tensor:
        """Computes marginal quantiles at probabilities in (0, 1); shapes as in `cdf`.

        Raises:
            FeedbackError: A probability is not strictly between 0 and 1.
        """
        check_probabilities("value", value)
        return self._at_each(gaussian_mixture.quantile, value)

    def _at_each(
        self, function: Callable[[Tensor, Tensor, Tensor], Tensor], value: Tensor
    ) -> Tensor:
        """Evaluates a function of a marginal mixture at each value, shaped as in `cdf`.

        The function takes a value, means and the variance of all components.
        """
        # One value at a time: a grid of values times points times components would
        # not fit into memory.
        results = [
            function(scalar, self.component_means, self._component_variance)
            for scalar in value.to(self.component_covariance).flatten()
        ]
        shape = value.shape if value.numel() > 1 else torch.Size()
        return torch.stack(results).reshape(self._extended_shape(shape))

    def interval(self, level: float) -> tuple[Tensor, Tensor]:
        """Computes narrowest marginal credible intervals.

        Args:
            level: Probability of each interval, in (0, 1).

        Returns:
            Lower and upper ends, each ``batch_shape x q x 1``.
        """
        lower, upper = narrowest_interval(
            self.component_means, self._component_variance, level
        )
        return lower.unsqueeze(-1), upper.unsqueeze(-1)

    def rsample(
        self, sample_shape: torch.Size | None = None, base_samples: Tensor | None = None
    ) -> Tensor:
        """Draws joint samples, differentiable in the means and the covariance.

        Args:
            sample_shape: Shape of the draws; one draw by default.
            base_samples: Standard normals, ``sample_shape x base_sample_shape``; by
                default torch draws them.

        Returns:
            ``sample_shape x batch_shape x q x 1``.
        """
        sample_shape = torch.Size([1]) if sample_shape is None else sample_shape
        if base_samples is None:
            base_samples = torch.randn(
                sample_shape + self.base_sample_shape,
                dtype=self.dtype,
                device=self.device,
            )
        return self.rsample_from_base_samples(sample_shape, base_samples)

    def rsample_from_base_samples(
        self, sample_shape: torch.Size, base_samples: Tensor
    ) -> Tensor:
        """Makes joint samples that are a fixed function of given standard normals.

        Args:
            sample_shape: Shape of the draws.
            base_samples: Standard normals, ``sample_shape x base_sample_shape``, or
                with t-batch dimensions of size 1.

        Returns:
            ``sample_shape x batch_shape x q x 1``.

        Raises:
            RuntimeError: ``base_samples`` does not begin with ``sample_shape``.
        """
        if base_samples.shape[: len(sample_shape)] != sample_shape:
            raise RuntimeError(
                "`sample_shape` disagrees with shape of `base_samples`. "
                f"Got {sample_shape=} and {base_samples.shape=}."
            )
        normals = base_samples.expand(sample_shape + self.base_sample_shape)
        normals = normals.reshape(sample_shape.numel(), *self.base_sample_shape)
        count, *_, num_points = self.component_means.shape
        # The first normal z picks the component, ``floor(count Phi(z))``, the same at
        # all points of a sample. It may depend on nothing else: t-batches with equal
        # base samples have equal components.
        uniform = 0.5 * torch.erfc(normals[..., 0] * -math.sqrt(0.5))
        index = (uniform * count).long().clamp(max=count - 1).unsqueeze(-1)
        means = self.component_means.gather(
            0, index.expand(*index.shape[:-1], num_points)
        )
        # Samples become columns: one product per t-batch instead of one per sample.
        gaussian = (self._root @ normals[..., 1:].movedim(0, -1)).movedim(-1, 0)
        return (means + gaussian).reshape(self._extended_shape(sample_shape))

    @cached_property
    def _root(self) -> Tensor:
        """The lower triangular root of the covariance within components.

        Triangular, so that a sample at a point does not depend on the points behind it.
        """
        # The first sample may be drawn without a graph, and a later one with it.
        with torch.enable_grad():
            return semidefinite_cholesky(self.component_covariance)


# Sobol normals, or IID ones beyond the dimensions of torch's Sobol engine.
GetSampler.register(SkewNormalPosterior)(GetSampler.dispatch(MultivariateNormal))
