r"""Several raters in one model: kernels, and the utility of one or of a group.

BoTorch's features of a stationary kernel are sines and cosines of :math:`n` random
phases :math:`\varphi_j(x) = \omega_j^T x`, since :math:`k(x - x') = E \cos(\varphi(x) -
\varphi(x'))` (Rahimi and Recht 2007). Registered here, so that function draws work with
kernels over stimuli and raters, :mod:`botorch_pref.models.raters`:

- **Products.** The product of kernels has the sum of their phases, drawn independently,
  :math:`E \cos(\varphi + \psi) = E \cos \varphi \, E \cos \psi` for differences of
  phases that are symmetric. As many features do as for one factor.
- **Agreement.** :math:`k(u, u') = \rho + (1 - \rho) 1[u = u']` has the phase 0 with
  probability :math:`\rho`, and else :math:`\omega u` with a frequency from a band so
  wide that the phases of different numbers are independent: whole numbers exactly,
  others up to a correlation below :math:`10^{-7} / |u - u'|`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.exceptions.errors import UnsupportedError
from botorch.models.model import Model
from botorch.posteriors.posterior import Posterior
from botorch.sampling.pathwise import gen_kernel_features
from botorch.sampling.pathwise.features.generators import GenKernelFeatures
from botorch.sampling.pathwise.features.maps import FeatureMap, KernelFeatureMap
from botorch.sampling.pathwise.utils import (
    ChainedTransform,
    FeatureSelector,
    SineCosineTransform,
)
from botorch.utils.transforms import is_ensemble
from gpytorch.constraints import Interval
from gpytorch.kernels import Kernel, ProductKernel
from gpytorch.priors import NormalPrior
from torch import Tensor
from torch.nn import ModuleList
from torch.special import ndtr

from botorch_pref.errors import BotorchPrefError
from botorch_pref.models.data import duel_pairs
from botorch_pref.models.preference_gp import PreferenceGP, default_covar_module
from botorch_pref.posteriors.gaussian import (
    Moments,
    check_points,
    contrast,
    transformed_posterior,
)

# A normal of this deviation on the log odds is nearly flat in the agreement itself: its
# density stays within 9 % of 1 on (0.1, 0.9) and falls to 0 at both ends, where
# a handful of answers would otherwise put the estimate.
_LOG_ODDS_DEVIATION = 1.6


class AgreementKernel(Kernel):
    r"""Covariance between raters who are known by number only.

    .. math:: k(u, u') = \rho + (1 - \rho) \, 1[u = u'],

    so that the utility of rater :math:`u` is
    :math:`\sqrt\rho \, g(x) + \sqrt{1 - \rho} \, h_u(x)`: something all share and
    something of his own, independent draws of the same process. :math:`\rho`, the
    *agreement*, is the correlation of two raters' utilities: with 1 they are one
    person, with 0 they have nothing to do with each other.

    One parameter for any number of raters, where a free covariance between them
    (GPyTorch's ``IndexKernel``) has some for each: it is identified by a few answers
    per rater, and it says what a rater without any answers prefers.

    Args:
        batch_shape: Of the model.
        active_dims: The column with the rater's number.
    """

    has_lengthscale = False

    def __init__(
        self,
        batch_shape: torch.Size | None = None,
        active_dims: tuple[int, ...] | None = None,
    ) -> None:
        shape = torch.Size() if batch_shape is None else batch_shape
        super().__init__(batch_shape=shape, active_dims=active_dims)
        self.register_parameter("raw_agreement", torch.nn.Parameter(torch.zeros(shape)))
        self.register_constraint("raw_agreement", Interval(0.0, 1.0))
        prior = NormalPrior(0.0, _LOG_ODDS_DEVIATION)
        self.register_prior("agreement_prior", prior, _log_odds, _set_log_odds)

    @property
    def agreement(self) -> Tensor:
        r""":math:`\rho`, of the model's batch shape, in (0, 1)."""
        return self.raw_agreement_constraint.transform(self.raw_agreement)

    @agreement.setter
    def agreement(self, value: float | Tensor) -> None:
        tensor = torch.as_tensor(value).to(self.raw_agreement)
        raw = self.raw_agreement_constraint.inverse_transform(tensor)
        self.initialize(raw_agreement=raw.expand_as(self.raw_agreement))

    def forward(
        self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any
    ) -> Tensor:
        """See base class.

        Args:
            x1: ``batch_shape x n x 1`` numbers of raters.
            x2: ``batch_shape x n' x 1``.
            diag: Whether only the covariances of equal rows are wanted.
            params: Ignored.
        """
        if diag:
            same = (x1 == x2).all(-1)
            agreement = self.agreement.unsqueeze(-1)
        else:
            same = (x1.unsqueeze(-2) == x2.unsqueeze(-3)).all(-1)
            agreement = self.agreement[..., None, None]
        return torch.where(same, 1.0, agreement)


# At module level, so that they pickle.
def _log_odds(module: AgreementKernel) -> Tensor:
    return module.raw_agreement


def _set_log_odds(module: AgreementKernel, value: Tensor) -> None:
    module.initialize(raw_agreement=value)


def rater_covar_module(
    stimulus_dim: int,
    *,
    rater_dim: int | None = None,
    batch_shape: torch.Size | None = None,
) -> ProductKernel:
    r"""A kernel for answers of several people: stimulus times rater.

    .. math:: k\big((x, u), (x', u')\big) = k(x, x') \, k(u, u')

    (Jensen and Nielsen 2014, equation 14). Points carry the rater in their last
    columns. The stimulus has the package's default kernel. The rater has

    - by default one column with a number, and :class:`AgreementKernel`. Numbers need
      not be known beforehand: one never seen is a person about whom nothing is known;
    - with ``rater_dim`` that many columns of features and an RBF-ARD kernel of unit
      scale over them: people alike in these features have like utilities, and people
      equal in them have one.

    Give it as ``covar_module=`` to any model.

    Args:
        stimulus_dim: Number of leading columns that describe the stimulus.
        rater_dim: Number of columns after them that describe the rater.
        batch_shape: Of the model.
    """
    shape = torch.Size() if batch_shape is None else batch_shape
    stimulus = default_covar_module(stimulus_dim, shape)
    stimulus.active_dims = torch.arange(stimulus_dim)
    if rater_dim is None:
        return ProductKernel(stimulus, AgreementKernel(shape, (stimulus_dim,)))
    rater = default_covar_module(rater_dim, shape).base_kernel
    rater.active_dims = torch.arange(stimulus_dim, stimulus_dim + rater_dim)
    return ProductKernel(stimulus, rater)


# Whole, so that differences of whole numbers turn the phase by whole periods.
_BAND_PERIODS = 2**20


class ProductFeatureMap(FeatureMap):
    r"""Sines and cosines of sums of phases, from those of the summands.

    With :math:`s + i c` for sine and cosine, by the addition theorems. The features of
    all maps but the first change places at random: quasi-random frequencies with equal
    places would depend on each other.

    Args:
        kernel: The product.
        maps: Of its factors, each with as many features: sines, then cosines.
    """

    places: Tensor

    def __init__(self, kernel: ProductKernel, maps: Sequence[FeatureMap]) -> None:
        super().__init__()
        self.kernel = kernel
        self.batch_shape = kernel.batch_shape
        self.num_outputs = maps[0].num_outputs
        self.maps = ModuleList(maps)
        half = self.num_outputs // 2
        places = [torch.arange(half), *(torch.randperm(half) for _ in maps[1:])]
        self.register_buffer("places", torch.stack(places))
        self.input_transform = _selector(kernel)
        # BoTorch chains an output scale with it.
        self.output_transform = ChainedTransform()

    def forward(self, x: Tensor) -> Tensor:
        """Features, ``... x num_outputs``.

        Args:
            x: ``... x d``.
        """
        half = self.num_outputs // 2
        # Each factor has the weight of one feature, the product wants it once.
        scale = half**0.5
        sine, cosine = torch.zeros_like(x[..., :1]), torch.ones_like(x[..., :1])
        for feature_map, place in zip(self.maps, self.places, strict=True):
            features = scale * feature_map(x)
            s, c = features[..., :half][..., place], features[..., half:][..., place]
            sine, cosine = sine * c + cosine * s, cosine * c - sine * s
        return torch.cat([sine, cosine], dim=-1) / scale


def _selector(kernel: Kernel) -> ChainedTransform:
    """Transform that selects a kernel's columns; the identity where it takes all."""
    columns = kernel.active_dims
    return ChainedTransform(*[] if columns is None else [FeatureSelector(columns)])


@GenKernelFeatures.register(ProductKernel)
def _product_features(
    kernel: ProductKernel, *, num_inputs: int, num_outputs: int
) -> ProductFeatureMap:
    columns = kernel.active_dims
    inner = num_inputs if columns is None else len(columns)
    maps = [
        gen_kernel_features(factor, num_inputs=inner, num_outputs=num_outputs)
        for factor in kernel.kernels
    ]
    return ProductFeatureMap(kernel, maps)


@GenKernelFeatures.register(AgreementKernel)
def _agreement_features(
    kernel: AgreementKernel, *, num_inputs: int, num_outputs: int
) -> KernelFeatureMap:
    agreement = kernel.agreement.detach().unsqueeze(-1)
    half = num_outputs // 2
    options: Any = {"dtype": agreement.dtype, "device": agreement.device}
    shape = (*kernel.batch_shape, half)
    frequency = 2 * math.pi * _BAND_PERIODS * torch.rand(shape, **options)
    # The share of common phases is as close to the agreement as can be.
    rank = (torch.arange(half, **options) + 0.5) / half
    weight = torch.where(rank < agreement, 0.0, frequency)
    return KernelFeatureMap(
        kernel=kernel,
        weight=weight.unsqueeze(-1),
        input_transform=_selector(kernel),
        output_transform=SineCosineTransform(torch.tensor(half**-0.5, **options)),
    )


def at_raters(X: Tensor, raters: Tensor) -> Tensor:
    """Every stimulus as every rater meets it.

    Args:
        X: ``batch_shape x q x d`` stimuli.
        raters: ``R x r``, the columns of each rater; or ``R`` numbers.

    Returns:
        ``batch_shape x (q R) x (d + r)``; the raters of a stimulus follow each other.
    """
    columns = _columns(raters).to(X)
    shape = (*X.shape[:-1], len(columns))
    stimuli = X.unsqueeze(-2).expand(*shape, X.shape[-1])
    both = torch.cat([stimuli, columns.expand(*shape, columns.shape[-1])], dim=-1)
    return both.flatten(-3, -2)


def group_mean(moments: Moments, num_raters: int) -> Moments:
    """Moments of utilities averaged over raters.

    Args:
        moments: At ``q R`` points as :func:`at_raters` orders them.
        num_raters: ``R``.

    Returns:
        The moments of ``q`` means. Averaging is linear, so they are exact for each
        component of a mixture.
    """
    return moments.combined(
        lambda points: points.unflatten(-2, (-1, num_raters)).mean(-2)
    )


class GroupUtility(Model):
    r"""The mean utility of some raters, as a BoTorch model over stimuli alone.

    .. math:: \bar f(x) = \frac{1}{R} \sum_{r=1}^R f(x, u_r)

    has the posterior that the model of all raters implies, jointly over stimuli: with
    all raters it is their consensus, with one it is his own utility, with one who has
    not answered yet (a new number, or his features) it is what the others let expect
    of him. Anything that takes a BoTorch model takes it: acquisition functions, their
    gradients in the stimulus, :func:`botorch_pref.incumbent`. It follows the model, and
    a later fit or more answers need no new one.

    One prediction evaluates the kernel at all ``q R`` points.

    Args:
        model: Of stimuli and raters, see
            :func:`botorch_pref.models.raters.rater_covar_module`: the last
            columns of its points are the rater's.
        raters: ``R x r``, the columns of each rater; or ``R`` numbers.

    Raises:
        BotorchPrefError: There are no raters, they are not finite, or no columns are
            left for the stimulus.
    """

    raters: Tensor

    def __init__(self, model: PreferenceGP, raters: Tensor) -> None:
        super().__init__()
        columns = _columns(raters)
        if 0 in columns.shape or columns.dim() != 2:
            raise BotorchPrefError(
                f"raters has shape {tuple(raters.shape)}; give R x r, the columns of "
                "at least one rater, or R numbers."
            )
        if not bool(columns.isfinite().all()):
            raise BotorchPrefError(
                f"raters holds {columns[~columns.isfinite()].tolist()}; give finite "
                "numbers or features."
            )
        if model.dim is not None and model.dim <= columns.shape[-1]:
            raise BotorchPrefError(
                f"Points have {model.dim} columns and raters {columns.shape[-1]}: none "
                "is left for the stimulus."
            )
        self.rater_model = model
        self.register_buffer("raters", columns.detach().clone())

    @property
    def likelihood(self) -> Any:
        """Likelihood of the model of all raters."""
        return self.rater_model.likelihood

    @property
    def num_outputs(self) -> int:
        """One: the mean utility."""
        return 1

    @property
    def batch_shape(self) -> torch.Size:
        """Batch shape of the model of all raters."""
        return self.rater_model.batch_shape

    @property
    def datapoints(self) -> Tensor | None:
        """The distinct stimuli that any rater met, as they were given."""
        return self.train_inputs[0] if self.train_inputs else None

    @property
    def train_inputs(self) -> tuple[Tensor, ...]:
        """The :attr:`datapoints` in a tuple; empty for a model of the prior alone."""
        points = self.rater_model.datapoints
        if points is None:
            return ()
        stimuli = points[..., : -self.raters.shape[-1]]
        return (stimuli if stimuli.dim() > 2 else torch.unique(stimuli, dim=0),)

    @property
    def _num_features(self) -> int | None:
        """Columns of a stimulus; None where an input transform may add some."""
        model, width = self.rater_model, self.raters.shape[-1]
        if model.dim is None or hasattr(model, "input_transform"):
            return None
        return model.dim - width

    def posterior(
        self,
        X: Tensor,
        output_indices: list[int] | None = None,
        observation_noise: bool | Tensor = False,
        posterior_transform: PosteriorTransform | None = None,
    ) -> Posterior:
        """The joint posterior of mean utilities.

        Args:
            X: ``batch_shape x q x d`` stimuli, without columns of raters.
            output_indices: None or ``[0]``.
            observation_noise: False: a group gives no answer, a rater does.
            posterior_transform: Applied to the posterior.

        Returns:
            Of the class that the model has, over ``batch_shape x q x 1``.
        """
        if output_indices not in (None, [0]) or observation_noise is not False:
            raise UnsupportedError(
                f"output_indices={output_indices}, observation_noise="
                f"{observation_noise}: a group has one utility and gives no answers."
            )
        X = check_points("X", X, self.rater_model.datapoints, self._num_features)
        moments = self.rater_model.moments(at_raters(X, self.raters))
        return transformed_posterior(
            self.rater_model.make_posterior,
            group_mean(moments, len(self.raters)),
            posterior_transform,
            X,
        )

    def duel_posterior(self, X: Tensor, X_ref: Tensor) -> Posterior:
        """The posterior of differences of mean utilities, ``f(X) - f(X_ref)``.

        Args:
            X: ``batch_shape x q x d`` stimuli.
            X_ref: ``batch_shape x 1 x d`` or ``batch_shape x q x d``.

        Returns:
            Of the class that the model has, over ``batch_shape x q x 1``.
        """
        num_raters = len(self.raters)
        pairs = torch.cat(torch.broadcast_tensors(X, X_ref), dim=-2)
        pairs = check_points(
            "X", pairs, self.rater_model.datapoints, self._num_features
        )
        moments = self.rater_model.moments(at_raters(pairs, self.raters))
        means = group_mean(moments, num_raters)
        return self.rater_model.make_posterior(contrast(means, X.shape[-2]))

    def duel_probability(
        self, X1: Tensor, X2: Tensor, observation_noise: bool = False
    ) -> Tensor:
        r"""P(X1 beats X2), of mean utilities or in the answer of one of the raters.

        Args:
            X1: ``batch_shape x q x d`` stimuli.
            X2: ``batch_shape x q x d`` or ``batch_shape x 1 x d``.
            observation_noise: Whether of an answer that one of the raters gives, each
                as likely as the others, or of the mean utilities.

        Returns:
            ``batch_shape x q``.
        """
        X1, X2 = torch.broadcast_tensors(X1, X2)
        num_raters, model = len(self.raters), self.rater_model
        if observation_noise:
            first, second = (at_raters(X, self.raters) for X in (X1, X2))
            each = model.duel_probability(first, second, observation_noise=True)
            return each.unflatten(-1, (-1, num_raters)).mean(-1)
        X1 = check_points("X1", X1, model.datapoints, self._num_features)
        pairs = duel_pairs(X1, X2, len(self.batch_shape))
        points = at_raters(pairs.points, self.raters)
        prior = model.prior_variance(points).unflatten(-1, (-1, num_raters)).mean(-1)
        moments = group_mean(model.moments(points), num_raters)
        means, variance = pairs.differences(moments, prior)
        win = ndtr(means / variance.sqrt()).mean(0).movedim(0, -1)
        return win.mean(-2) if is_ensemble(model) else win


def _columns(raters: Tensor) -> Tensor:
    return raters.unsqueeze(-1) if raters.dim() == 1 else raters
