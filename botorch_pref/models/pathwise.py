r"""Function draws from preference posteriors, as BoTorch's sample paths.

A posterior with mean :math:`m(x) + k w` and covariance :math:`K_{**} - (k Q)(k Q)^T`,
:math:`k = K(x, X)`, is drawn by Matheron's rule without an inverse of K: with
:math:`f_0` drawn from the prior around its mean,

.. math:: f(x) = m(x) + f_0(x) + k \big(w - Q (Q^T f_0(X) + e)\big),
    \qquad e \sim N(0, I - Q^T K Q),

because :math:`Q^T f_0(X) + e` then has unit covariance and covariance :math:`k Q` with
:math:`f_0(x)`. A covariance that is wider by :math:`(k P)(k P)^T` gets
:math:`k P \xi` with standard normal :math:`\xi` besides. The rule is exact given
:math:`f_0`, which is a sum of random Fourier features (Rahimi and Recht 2007): over
draws its covariance is right on average, within one draw of features it is off by about
``outputscale / sqrt(num_features)``. Nothing else approximates: of SkewGP, whose
posterior is a mixture over the draws behind its weights, the component, hence the
skewness, and the noise :math:`e` are exact. Where a joint draw at finitely many points
will do, ``model.posterior(X).rsample()`` is exact in the prior too.

As everywhere in BoTorch's pathwise sampling, random numbers come from torch's global
generator; :class:`botorch_pref.acquisition.DuelingThompson` seeds and restores it.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from botorch.models.pairwise_gp import PairwiseGP
from botorch.models.transforms.input import InputTransform
from botorch.sampling.pathwise import gen_kernel_features
from botorch.sampling.pathwise.features import KernelEvaluationMap
from botorch.sampling.pathwise.paths import GeneralizedLinearPath, PathDict, SamplePath
from botorch.sampling.pathwise.posterior_samplers import DrawMatheronPaths, MatheronPath
from botorch.utils.transforms import is_ensemble
from gpytorch.kernels import Kernel
from gpytorch.means import Mean
from torch import Tensor
from torch.nn import Module

import botorch_pref.models.raters  # noqa: F401 (products and raters)
from botorch_pref.errors import FeedbackError
from botorch_pref.inference.engine import PosteriorTerms
from botorch_pref.linalg.covariance import dense_covariance, psd_root
from botorch_pref.models.preference_gp import PreferenceGP
from botorch_pref.models.raters import GroupUtility, at_raters
from botorch_pref.models.regression import PlackettLuceRegression

# Error of the prior covariance about 0.02 output scales; 512 points take milliseconds.
_NUM_FEATURES = 2048


def preference_paths(
    sample_shape: torch.Size,
    mean_module: Mean,
    covar_module: Kernel,
    terms: PosteriorTerms | None,
    num_inputs: int,
    input_transform: InputTransform | None = None,
    is_ensemble: bool = False,
) -> SamplePath:
    """Draws functions from a posterior given by weights and a root.

    Args:
        sample_shape: Shape of the set of draws.
        mean_module: Prior mean ``m``.
        covar_module: Prior covariance, one that there are kernel features for: RBF,
            Matern, agreement of raters, scaled or not, and products.
        terms: Of the posterior; None for the prior. Each draw takes one of its mixture
            components at random.
        num_inputs: ``d``, after the input transform.
        input_transform: What turns the inputs of the model into those of the kernel.
        is_ensemble: Whether the last batch dimension of the model is its members', for
            which inputs have none.

    Returns:
        A path that maps ``batch_shape x q x d`` to ``sample_shape x batch_shape x q``.
    """
    like = next(covar_module.parameters())
    batch_shape = covar_module.batch_shape
    if terms is not None:
        batch_shape = torch.broadcast_shapes(batch_shape, terms.points.shape[:-2])
    feature_map = gen_kernel_features(
        covar_module, num_inputs=num_inputs, num_outputs=_NUM_FEATURES
    )
    feature_weights = torch.randn(
        *sample_shape, *batch_shape, _NUM_FEATURES, dtype=like.dtype
    ).to(like.device)
    prior = GeneralizedLinearPath(feature_map, feature_weights)
    if terms is not None:
        update_weights = _update_weights(prior(terms.points), covar_module, terms)
    prior.bias_module = mean_module
    prior.input_transform = input_transform
    prior.is_ensemble = is_ensemble
    if terms is None:
        return prior
    update = GeneralizedLinearPath(
        KernelEvaluationMap(covar_module, terms.points),
        update_weights,
        input_transform=input_transform,
        is_ensemble=is_ensemble,
    )
    return MatheronPath(prior_paths=prior, update_paths=update)


def _update_weights(
    prior_values: Tensor, kernel: Kernel, terms: PosteriorTerms
) -> Tensor:
    """``w - Q (Q' f0(X) + e) + P xi``, of the shape of ``f0(X)``."""
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
    """Paths of this package's models: one mixture component at random for SkewGP."""
    if model.dim is None:
        raise FeedbackError("A function draw needs a model that has datapoints.")
    model.eval()
    with torch.no_grad():
        return preference_paths(
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
    """Paths of a group: means over raters of paths of the model of all raters."""
    path = _draw_preference_gp_paths(model.rater_model, sample_shape=sample_shape)
    return PathDict(
        {"raters": path},
        join=cast("Any", sum),
        input_transform=_AtRaters(model.raters),
        output_transform=_MeanOver(len(model.raters)),
    )


class _AtRaters(Module):
    """Every stimulus as every rater meets it."""

    raters: Tensor

    def __init__(self, raters: Tensor) -> None:
        super().__init__()
        self.register_buffer("raters", raters)

    def forward(self, X: Tensor) -> Tensor:
        return at_raters(X, self.raters)


class _MeanOver(Module):
    """The mean over the raters of each stimulus."""

    def __init__(self, num_raters: int) -> None:
        super().__init__()
        self.num_raters = num_raters

    def forward(self, values: Tensor) -> Tensor:
        return values.unflatten(-1, (-1, self.num_raters)).mean(-1)


@DrawMatheronPaths.register(PlackettLuceRegression)
def _draw_linear_paths(
    model: PlackettLuceRegression, *, sample_shape: torch.Size, **_: Any
) -> SamplePath:
    """Paths of utilities that are linear in the features: one draw of the weights."""
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
    """Paths of BoTorch's `PairwiseGP`, from its cached mode and Hessian ``C``.

    With ``C = R R'`` and ``L L' = I + R' K R`` its root is ``Q = R L'^-1``.
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
        return preference_paths(
            sample_shape,
            mean_module=model.mean_module,
            covar_module=model.covar_module,
            terms=PosteriorTerms(points, weights, root),
            num_inputs=points.shape[-1],
            input_transform=getattr(model, "input_transform", None),
        )
