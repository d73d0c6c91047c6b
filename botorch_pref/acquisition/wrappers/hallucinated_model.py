"""A model that believes in one draw of what it does not know."""

from __future__ import annotations

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.exceptions.errors import UnsupportedError
from botorch.models.model import Model
from botorch.posteriors.gpytorch import GPyTorchPosterior
from botorch.posteriors.posterior import Posterior
from botorch.utils.transforms import is_ensemble
from gpytorch.distributions import MultivariateNormal
from gpytorch.likelihoods import Likelihood
from torch import Generator, Tensor

from botorch_pref.acquisition.dueling_acquisition import append_points
from botorch_pref.acquisition.reference.observed_points import observed_points
from botorch_pref.linalg.semidefinite_operator import SemidefiniteLinearOperator
from botorch_pref.numerics.argument_ranges import checked_arguments
from botorch_pref.posteriors.difference import shared_covariance_mixture
from botorch_pref.posteriors.query_points import check_points
from botorch_pref.posteriors.skew_normal_posterior import SkewNormalPosterior


class HallucinatedModel(Model):
    r"""A model whose posterior is conditioned on one draw (Takeno et al. 2023).

    Under the exact posterior, a `SkewNormalPosterior`, the draw is one of the latent
    variables :math:`v`: one component at random, a Gaussian process. Under a Gaussian
    posterior, of any model, it is one of the utilities at the observed points
    :math:`X`: with :math:`f(X) \sim N(m, C)`, :math:`C = V \Lambda V^T` and standard
    normal :math:`z`,

    .. math:: E[f(x) \mid z] = \mu(x) + A z, \qquad
        \operatorname{cov} = C_{**} - A A^T, \qquad
        A = C_{*X} V \Lambda^{-1/2} .

    Directions :math:`V` whose variance is below :math:`\epsilon^{2/3}` of the largest
    are known already, up to rounding, and left as they are.

    The draw is made when the instance is, and stays: the posterior is a fixed function.
    Averaged over draws it has the mean of the model's.

    Args:
        model: Any BoTorch model with training inputs whose posterior
            `shared_covariance_mixture` takes.
        generator: Source of the draw, on the CPU; torch's default one if None.

    Raises:
        FeedbackError: If the model has observed no points.
    """

    _points: Tensor
    _direction: Tensor
    _normal: Tensor

    @checked_arguments
    def __init__(self, model: Model, generator: Generator | None = None) -> None:
        super().__init__()
        self.model = model
        self._is_ensemble = is_ensemble(model)
        points = observed_points(model)
        self.register_buffer("_points", points.detach().clone())
        with torch.no_grad():
            posterior = model.posterior(points)
            self._is_skew = isinstance(posterior, SkewNormalPosterior)
            means, covariance = shared_covariance_mixture(posterior)
            self._component = int(torch.randint(len(means), (), generator=generator))
            shape = (*means.shape[1:], 1)
            normal = torch.randn(shape, generator=generator, dtype=torch.double)
            self.register_buffer("_normal", normal.to(means))
            self.register_buffer("_direction", _inverse_root(covariance))

    @property
    def num_outputs(self) -> int:
        """One: the utility."""
        return 1

    @property
    def batch_shape(self) -> torch.Size:
        """Batch shape of the model that was conditioned."""
        return self.model.batch_shape

    @property
    def likelihood(self) -> Likelihood:
        """Likelihood of the model that was conditioned."""
        return self.model.likelihood

    @property
    def train_inputs(self) -> tuple[Tensor]:
        """The observed points, before any input transform."""
        return (self._points,)

    def posterior(
        self,
        X: Tensor,
        output_indices: list[int] | None = None,
        observation_noise: bool | Tensor = False,
        posterior_transform: PosteriorTransform | None = None,
    ) -> Posterior:
        """The joint posterior of utilities, given the draw.

        Args:
            X: ``batch_shape x q x d``.
            output_indices: None or ``[0]``.
            observation_noise: False; the draw is of utilities.
            posterior_transform: Applied to the posterior.

        Returns:
            A Gaussian posterior over ``batch_shape x q x 1``; of an ensemble, with a
            batch dimension for its members.

        Raises:
            UnsupportedError: If other outputs or observation noise are asked for.
        """
        if output_indices not in (None, [0]) or observation_noise is not False:
            raise UnsupportedError(
                "A HallucinatedModel has one output, without observation noise; got "
                f"{output_indices=} and {observation_noise=}."
            )
        has_transform = hasattr(self.model, "input_transform")
        dim = None if has_transform else self._points.shape[-1]
        X = check_points("X", X, self._points, dim)
        posterior = self._conditional(X)
        if posterior_transform is None:
            return posterior
        return posterior_transform(posterior=posterior, X=X)

    def _conditional(self, X: Tensor) -> GPyTorchPosterior:
        if self._is_skew:
            means, covariance = shared_covariance_mixture(self.model.posterior(X))
            return _gaussian(means[self._component], covariance)
        joint = self.model.posterior(append_points(X, self._points))
        means, covariance = shared_covariance_mixture(joint)
        q = X.shape[-2]
        shift = covariance[..., :q, q:] @ self._direction
        mean = means[0, ..., :q] + (shift @ self._normal).squeeze(-1)
        remaining = covariance[..., :q, :q] - shift @ shift.mT
        return _gaussian(mean, remaining)


def _inverse_root(covariance: Tensor) -> Tensor:
    """``V L^-1/2`` of ``V L V'``, with columns of zeros for what is known."""
    values, vectors = torch.linalg.eigh(covariance)
    threshold = torch.finfo(values.dtype).eps ** (2 / 3) * values[..., -1:]
    unknown = values > threshold
    inverse = torch.where(unknown, torch.where(unknown, values, 1.0).rsqrt(), 0.0)
    return vectors * inverse.unsqueeze(-2)


def _gaussian(mean: Tensor, covariance: Tensor) -> GPyTorchPosterior:
    distribution = MultivariateNormal(mean, SemidefiniteLinearOperator(covariance))
    return GPyTorchPosterior(distribution)
