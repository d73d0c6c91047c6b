r"""Function draws from preference posteriors, as BoTorch's sample paths.

A posterior with mean :math:`m(x) + k w` and covariance :math:`K_{**} - (k Q)(k Q)^T`,
:math:`k = K(x, X)`, is drawn by Matheron's rule without an inverse of K: with
:math:`f_0` drawn from the prior around its mean,

.. math:: f(x) = m(x) + f_0(x) + k \big(w - Q (Q^T f_0(X) + e)\big),
    \qquad e \sim N(0, I - Q^T K Q),

because :math:`Q^T f_0(X) + e` then has unit covariance and covariance :math:`k Q` with
:math:`f_0(x)`. A covariance that is wider by :math:`(k P)(k P)^T` gets :math:`k P \xi`
with standard normal :math:`\xi` besides. The rule is exact given :math:`f_0`, a sum of
random Fourier features (Rahimi and Recht 2007) whose covariance is right on average
over draws, within one off by about ``outputscale / sqrt(num_features)``. Of SkewGP,
whose posterior is a mixture over the draws behind its weights, the component and the
noise :math:`e` are exact. Where a joint draw at finitely many points will do,
``model.posterior(X).rsample()`` is exact in the prior too.

BoTorch's features of a stationary kernel are sines and cosines of random phases
:math:`\varphi_j(x) = \omega_j^T x`, since :math:`k(x - x') = E \cos(\varphi(x) -
\varphi(x'))`. Registered here, for kernels over stimuli and raters:

- **Products.** The product of kernels has the sum of their phases, drawn independently,
  :math:`E \cos(\varphi + \psi) = E \cos \varphi \, E \cos \psi` for differences of
  phases that are symmetric.
- **Sums.** The features of a sum are those of its terms, beside each other.
- **Agreement.** :math:`k(u, u') = \rho + (1 - \rho) 1[u = u']` has the phase 0 with
  probability :math:`\rho`, and else :math:`\omega u` with a frequency from a band so
  wide that the phases of different numbers are independent: whole numbers exactly,
  others up to a correlation below :math:`10^{-7} / |u - u'|`.
- **Relevance.** The factor :math:`1 - r + r k_i` of an input has the phase 0 with
  probability :math:`1 - r`, and else that of :math:`k_i`; draws in which all are 0 are
  left out, as the kernel does. Options of a choice have phases of their own, uniform
  over the circle.
- **Reliability.** The scales of raters have the phase 0 and their own amplitude.

As everywhere in BoTorch's pathwise sampling, random numbers come from torch's global
generator, which :class:`botorch_pref.acquisition.DuelingThompson` seeds and restores.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, cast

import torch
from botorch.models.pairwise_gp import PairwiseGP
from botorch.models.transforms.input import InputTransform
from botorch.sampling.pathwise import gen_kernel_features
from botorch.sampling.pathwise.features import KernelEvaluationMap
from botorch.sampling.pathwise.features.generators import GenKernelFeatures
from botorch.sampling.pathwise.features.maps import FeatureMap, KernelFeatureMap
from botorch.sampling.pathwise.paths import GeneralizedLinearPath, PathDict, SamplePath
from botorch.sampling.pathwise.posterior_samplers import DrawMatheronPaths, MatheronPath
from botorch.sampling.pathwise.utils import (
    ChainedTransform,
    FeatureSelector,
    SineCosineTransform,
)
from botorch.utils.transforms import is_ensemble
from gpytorch.kernels import AdditiveKernel, Kernel, ProductKernel
from gpytorch.means import Mean
from torch import Tensor
from torch.distributions import Gamma
from torch.nn import ModuleList

from botorch_pref.errors import BotorchPrefError, FeedbackError
from botorch_pref.inference.engine import PosteriorTerms
from botorch_pref.linalg.covariance import dense_covariance, join_rows, psd_root
from botorch_pref.models.kernels import RelevanceKernel
from botorch_pref.models.preference_gp import PreferenceGP
from botorch_pref.models.rater_groups import at_raters
from botorch_pref.models.raters import (
    AgreementKernel,
    GroupUtility,
    ReliabilityKernel,
)
from botorch_pref.models.regression import PlackettLuceRegression

# Whole, so that differences of whole numbers turn the phase by whole periods.
_BAND_PERIODS = 2**20


class ProductFeatureMap(FeatureMap):
    r"""Sines and cosines of sums of phases, by the addition theorems.

    The maps of the factors have as many features each: sines, then cosines. All but the
    first change places at random: quasi-random frequencies with equal places would
    depend on each other.
    """

    places: Tensor

    def __init__(self, kernel: ProductKernel, maps: Sequence[FeatureMap]) -> None:
        """Draws which features of the factors meet, from torch's generator.

        Args:
            kernel: The product.
            maps: One a factor, in their order, with equal even numbers of features.
        """
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
        """Computes sines, then cosines, of the sums of the factors' phases.

        Points are ``... x d``, features ``... x num_outputs``; their products have the
        product of the kernels as their expectation.
        """
        # Each map divides its features by this number; the product does so once.
        scale = (self.num_outputs // 2) ** 0.5
        first, *further = self.maps
        sine, cosine = first(x).chunk(2, dim=-1)
        for feature_map, place in zip(further, self.places[1:], strict=True):
            halves = feature_map(x).chunk(2, dim=-1)
            s, c = (scale * half[..., place] for half in halves)
            sine, cosine = sine * c + cosine * s, cosine * c - sine * s
        return torch.cat([sine, cosine], dim=-1)


def _selector(kernel: Kernel) -> ChainedTransform:
    """Makes a transform that selects a kernel's columns; the identity for all."""
    columns = kernel.active_dims
    return ChainedTransform(*[] if columns is None else [FeatureSelector(columns)])


@GenKernelFeatures.register(ProductKernel)
def _product_features(
    kernel: ProductKernel, *, num_inputs: int, num_outputs: int
) -> ProductFeatureMap:
    """Makes random features of each factor, and of their product from these.

    BoTorch calls this for the class of the kernel. A factor selects its columns among
    those that the product has selected.
    """
    columns = kernel.active_dims
    inner = num_inputs if columns is None else len(columns)
    maps = [
        gen_kernel_features(factor, num_inputs=inner, num_outputs=num_outputs)
        for factor in kernel.kernels
    ]
    return ProductFeatureMap(kernel, maps)


class SumFeatureMap(FeatureMap):
    """Features of each term of a sum of kernels: sines of all, then cosines of all."""

    def __init__(self, kernel: AdditiveKernel, maps: Sequence[FeatureMap]) -> None:
        """Keeps the maps of the terms, in their order, with even numbers of features.

        The kernel is their sum.
        """
        super().__init__()
        self.kernel, self.batch_shape = kernel, kernel.batch_shape
        self.num_outputs = sum(feature_map.num_outputs for feature_map in maps)
        self.maps = ModuleList(maps)
        self.input_transform = _selector(kernel)
        self.output_transform = ChainedTransform()

    def forward(self, x: Tensor) -> Tensor:
        """Computes the features, whose products have the sum as their expectation.

        Points are ``... x d``, features ``... x num_outputs``.
        """
        halves = (feature_map(x).chunk(2, -1) for feature_map in self.maps)
        sines, cosines = zip(*halves, strict=True)
        return join_rows([*sines, *cosines])


@GenKernelFeatures.register(AdditiveKernel)
def _sum_features(
    kernel: AdditiveKernel, *, num_inputs: int, num_outputs: int
) -> SumFeatureMap:
    """Makes random features of each term, of which each has an equal part.

    BoTorch calls this for the class of the kernel. A term selects its columns among
    those that the sum has selected.
    """
    columns = kernel.active_dims
    inner = num_inputs if columns is None else len(columns)
    phases = torch.arange(num_outputs // 2).tensor_split(len(kernel.kernels))
    maps = [
        gen_kernel_features(term, num_inputs=inner, num_outputs=2 * len(part))
        for term, part in zip(kernel.kernels, phases, strict=True)
    ]
    return SumFeatureMap(kernel, maps)


@GenKernelFeatures.register(AgreementKernel)
def _agreement_features(
    kernel: AgreementKernel, *, num_inputs: int, num_outputs: int
) -> KernelFeatureMap:
    r"""Makes features of the agreement :math:`\rho` of raters, who have whole numbers.

    A share :math:`\rho` of the phases is 0 for all raters. The others are a frequency
    times the rater's number, from a band of whole periods so wide that two raters have
    independent phases. BoTorch calls this for the class of the kernel.
    """
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


@GenKernelFeatures.register(RelevanceKernel)
def _relevance_features(
    kernel: RelevanceKernel, *, num_inputs: int, num_outputs: int
) -> KernelFeatureMap:
    """Makes features of a sum over sets of inputs, one set drawn for each phase.

    Inputs are in a set by their relevances, given that at least one is. A phase is a
    random frequency of each number of the set, drawn from the spectrum of Matern-5/2, a
    Student's t of 5 degrees of freedom, plus a random angle of the option of each
    choice in it. BoTorch calls this for the class of the kernel.
    """
    relevance = kernel.relevance.detach().unsqueeze(-2)
    options: Any = {"dtype": relevance.dtype, "device": relevance.device}
    half, inputs = num_outputs // 2, relevance.shape[-1]
    shape = (*kernel.batch_shape, half)
    # The first input that matters, at evenly spread quantiles, and any behind it.
    ahead = (1 - relevance).cumprod(-1)
    quantile = (torch.arange(half, **options) + 0.5) / half
    at_least_one = 1 - ahead[..., -1:]
    first = (1 - ahead < (quantile * at_least_one[..., 0]).unsqueeze(-1)).sum(-1, True)
    place = torch.arange(inputs, device=relevance.device)
    matters = torch.rand(*shape, inputs, **options) < relevance
    matters = (matters & (place > first)) | (place == first)
    weight = torch.zeros(*shape, kernel.dim, **options)
    if numbers := kernel.numbers:
        gamma = torch.tensor(2.5, **options)
        scale = Gamma(gamma, gamma).sample(torch.Size([*shape, len(numbers)])).rsqrt()
        normal = torch.randn(*shape, len(numbers), **options)
        frequency = scale * normal / kernel.lengthscale.detach()
        weight[..., numbers] = frequency * matters[..., : len(numbers)]
    for i, columns in enumerate(kernel.categorical, len(numbers)):
        phase = 2 * math.pi * torch.rand(*shape, len(columns), **options)
        weight[..., columns] = phase * matters[..., i : i + 1]
    return KernelFeatureMap(
        kernel=kernel,
        weight=weight,
        input_transform=_selector(kernel),
        output_transform=SineCosineTransform(torch.tensor(half**-0.5, **options)),
    )


@GenKernelFeatures.register(ReliabilityKernel)
def _reliability_features(
    kernel: ReliabilityKernel, *, num_inputs: int, num_outputs: int
) -> _ScaleFeatureMap:
    return _ScaleFeatureMap(kernel, num_outputs)


class _ScaleFeatureMap(FeatureMap):
    """Phases of zero, whose cosines are the scales of raters."""

    def __init__(self, kernel: ReliabilityKernel, num_outputs: int) -> None:
        """Takes the settings that BoTorch asks of a map of ``num_outputs`` features."""
        super().__init__()
        self.kernel, self.num_outputs = kernel, num_outputs
        self.batch_shape = kernel.batch_shape
        self.input_transform = _selector(kernel)
        self.output_transform = ChainedTransform()

    def forward(self, x: Tensor) -> Tensor:
        """Computes features of raters' numbers ``... x 1``: sines, all 0, then cosines.

        A rater's scale is 1 / the noise deviation; the inner product of the features of
        two raters is the product of their scales.
        """
        half = self.num_outputs // 2
        scales = self.kernel.deviations(x.squeeze(-1)).reciprocal().unsqueeze(-1)
        cosines = (scales / half**0.5).expand(*scales.shape[:-1], half)
        return torch.cat([torch.zeros_like(cosines), cosines], dim=-1)


class _LinearPath(GeneralizedLinearPath):
    """BoTorch's path, which makes no copy of common features for each function."""

    def forward(self, x: Tensor, **kwargs: Any) -> Tensor:
        """See base class; weights are ``sample_shape x batch_shape x k``."""
        if self.is_ensemble and not self.ensemble_as_batch:
            x = x.unsqueeze(-3)
        features = self.feature_map(x, **kwargs)
        if features.dim() == self.weight.dim():
            # All functions at the same points: a column each.
            out = (features @ self.weight.movedim(0, -1)).movedim(-1, 0)
        else:
            out = (features @ self.weight.unsqueeze(-1)).squeeze(-1)
        return out if self.bias_module is None else out + self.bias_module(x)


_CONTAINERS = {"AdditiveKernel", "ProductKernel", "ScaleKernel"}

# Error of the prior covariance about 0.02 output scales; 512 points take milliseconds.
_NUM_FEATURES = 2048


def _preference_paths(
    sample_shape: torch.Size,
    mean_module: Mean,
    covar_module: Kernel,
    terms: PosteriorTerms | None,
    num_inputs: int,
    input_transform: InputTransform | None = None,
    is_ensemble: bool = False,
) -> SamplePath:
    """Draws functions from a posterior given by its terms, or without these the prior.

    By Matheron's rule they are a function drawn from the prior, plus prior covariances
    with the terms' points times weights, see `_update_weights`. Each draw takes one of
    the mixture components at random. Inputs have no dimension for the members of an
    ensemble; ``num_inputs`` counts features after the transform.
    """
    like = next(covar_module.parameters())
    batch_shape = covar_module.batch_shape
    if terms is not None:
        # Answers may have a batch that points have not.
        shapes = terms.points.shape[:-2], terms.weights.shape[:-2]
        batch_shape = torch.broadcast_shapes(batch_shape, *shapes)
    try:
        feature_map = gen_kernel_features(
            covar_module, num_inputs=num_inputs, num_outputs=_NUM_FEATURES
        )
    except NotImplementedError as error:
        parts = [k for k in covar_module.modules() if isinstance(k, Kernel)]
        names = {type(part).__name__ for part in parts} - _CONTAINERS
        raise BotorchPrefError(
            "No functions can be drawn under this kernel, for BoTorch has no random "
            f"features of one of its parts ({', '.join(sorted(names))}). Take another "
            "one; stopping_advice needs no functions without bounds."
        ) from error
    feature_weights = torch.randn(
        *sample_shape, *batch_shape, _NUM_FEATURES, dtype=like.dtype
    ).to(like.device)
    prior = _LinearPath(feature_map, feature_weights)
    if terms is not None:
        # Before the path has a transform and a mean: the terms' points are transformed,
        # and Matheron's rule wants the draw around the mean.
        update_weights = _update_weights(prior(terms.points), covar_module, terms)
    prior.bias_module = mean_module
    prior.input_transform = input_transform
    prior.is_ensemble = is_ensemble
    if terms is None:
        return prior
    update = _LinearPath(
        KernelEvaluationMap(covar_module, terms.points),
        update_weights,
        input_transform=input_transform,
        is_ensemble=is_ensemble,
    )
    return MatheronPath(prior_paths=prior, update_paths=update)


def _update_weights(
    prior_values: Tensor, kernel: Kernel, terms: PosteriorTerms
) -> Tensor:
    """Draws the weights that turn a draw of the prior into one of the posterior.

    With a draw ``f0(X)`` (``prior_values``) around the prior mean at the points of the
    terms, their weights ``w`` of a random component, root ``Q`` and widening ``P``,
    that is ``w - Q (Q' f0(X) + e) + P xi`` for ``e ~ N(0, I - Q' K Q)`` and standard
    normal ``xi``. It has the shape of ``f0(X)``. Torch's global generator draws: a seed
    means these draws in this order.
    """
    weights, root, widening = terms.weights, terms.root, terms.widening
    gram = root.mT @ (dense_covariance(kernel, terms.points) @ root)
    eye = torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
    projected = root.mT @ prior_values.unsqueeze(-1)
    noise = torch.randn(projected.shape, dtype=projected.dtype).to(projected)
    component = torch.randint(weights.shape[-1], prior_values.shape[:-1])
    index = component.to(weights.device)[..., None, None]
    index = index.expand(*prior_values.shape, 1)
    chosen = weights.expand(*prior_values.shape, -1).gather(-1, index)
    drawn = chosen - root @ (projected + psd_root(eye - gram) @ noise)
    if widening is not None:
        shape = (*prior_values.shape[:-1], widening.shape[-1], 1)
        drawn = drawn + widening @ torch.randn(shape, dtype=root.dtype).to(root)
    return drawn.squeeze(-1)


@DrawMatheronPaths.register(PreferenceGP)
def _draw_preference_gp_paths(
    model: PreferenceGP, *, sample_shape: torch.Size, **_: Any
) -> SamplePath:
    """Draws utility functions of a model of this package, for BoTorch's sample paths.

    They have no gradient in hyper-parameters. The model is in evaluation mode after it.
    """
    if model.dim is None:
        raise FeedbackError("A function draw needs a model that has datapoints.")
    model.eval()
    with torch.no_grad():
        return _preference_paths(
            sample_shape,
            mean_module=model.mean_module,
            covar_module=model.covar_module,
            terms=model.posterior_terms(),
            num_inputs=model.transformed_points().shape[-1],
            input_transform=getattr(model, "input_transform", None),
            is_ensemble=is_ensemble(model),
        )


@DrawMatheronPaths.register(GroupUtility)
def _draw_group_paths(
    model: GroupUtility, *, sample_shape: torch.Size, **_: Any
) -> SamplePath:
    """Draws paths of a group: means over raters of paths of the model of all raters.

    Each rater's utility is in the unit that all raters share, by the scales if any.
    """
    path = _draw_preference_gp_paths(model.rater_model, sample_shape=sample_shape)
    raters, scales = model.raters, model.scales()
    scales = None if scales is None else scales.detach().unsqueeze(-2)

    def mean_over_raters(values: Tensor) -> Tensor:
        of_each = values.unflatten(-1, (-1, len(raters)))
        return (of_each if scales is None else of_each * scales).mean(-1)

    return PathDict(
        {"raters": path},
        join=cast("Any", sum),
        input_transform=partial(at_raters, raters=raters),
        output_transform=mean_over_raters,
    )


@DrawMatheronPaths.register(PlackettLuceRegression)
def _draw_linear_paths(
    model: PlackettLuceRegression, *, sample_shape: torch.Size, **_: Any
) -> SamplePath:
    """Draws paths of utilities linear in the features: one draw of the weights."""
    mean, root = model.weights_mean, psd_root(model.weights_covariance)
    normal = torch.randn(*sample_shape, *mean.shape, 1, dtype=mean.dtype).to(mean)
    return GeneralizedLinearPath(
        cast("Any", torch.nn.Identity()),
        mean + (root @ normal).squeeze(-1),
        input_transform=getattr(model, "input_transform", None),
    )


@DrawMatheronPaths.register(PairwiseGP)
def _draw_pairwise_gp_paths(
    model: PairwiseGP, *, sample_shape: torch.Size, **_: Any
) -> SamplePath:
    """Draws paths of BoTorch's `PairwiseGP`, from its cached mode and Hessian ``C``.

    BoTorch has none of its own for it. The weights are ``K^-1`` times the mode less the
    mean; with ``C = R R'`` and ``L L' = I + R' K R`` the root of the posterior is ``Q =
    R L'^-1``.
    """
    with torch.no_grad():
        model.eval()
        points = model.transform_inputs(model.datapoints)
        residual = (model.utility - model.mean_module(points)).unsqueeze(-1)
        weights = torch.cholesky_solve(residual, model.covar_chol)
        hessian_root = psd_root(model.likelihood_hess)
        inner = hessian_root.mT @ model.covar @ hessian_root
        eye = torch.eye(inner.shape[-1], dtype=inner.dtype, device=inner.device)
        cholesky = torch.linalg.cholesky(eye + inner)
        root = torch.linalg.solve_triangular(cholesky, hessian_root.mT, upper=False).mT
        return _preference_paths(
            sample_shape,
            mean_module=model.mean_module,
            covar_module=model.covar_module,
            terms=PosteriorTerms(points, weights, root),
            num_inputs=points.shape[-1],
            input_transform=getattr(model, "input_transform", None),
        )
