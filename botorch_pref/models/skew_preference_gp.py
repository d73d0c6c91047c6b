"""Preference learning with the exact posterior."""

from __future__ import annotations

from collections.abc import Sequence

from botorch.models.transforms.input import InputTransform
from gpytorch.kernels import Kernel
from gpytorch.means import Mean
from torch import Tensor

from botorch_pref.feedback import Comparisons, Feedback
from botorch_pref.inference.skew.unified_skew_normal import UnifiedSkewNormal
from botorch_pref.likelihoods.resolve import LikelihoodArgument
from botorch_pref.models.preference_gp import PreferenceGP
from botorch_pref.models.registry import register_model
from botorch_pref.numerics.argument_ranges import checked_arguments


@register_model("skew")
class SkewPreferenceGP(PreferenceGP):
    r"""A preference model with the exact, unified skew-normal posterior.

    Skew Gaussian processes (Benavoli et al. 2021) for every boxed kind of feedback.
    What the answers leave open is sampled once per fit, ``num_draws`` draws of the
    truncated ``v``; given them the posterior anywhere is a mixture of Gaussians in
    closed form, smooth in ``x``.

    Hyper-parameters maximise EP's evidence, which is within 0.3 nats of the exact one,
    or the exact evidence with ``exact_evidence=True``, which samples at every step.

    Args:
        datapoints: ``batch_shape x n x d``; None for a model of the prior alone.
        comparisons: ``batch_shape x m x 2`` integers into ``datapoints``, winner first.
        feedback: Other answers, at most one container of a kind.
        likelihood: A likelihood instead of the default of its kind of feedback, or a
            mapping from kinds to likelihoods.
        mean_module: The prior mean; see :class:`PreferenceGP`.
        covar_module: The kernel; see :class:`PreferenceGP`.
        input_transform: Applied to all inputs.
        num_draws: Draws of ``v``. Means carry a sampling error of at most one posterior
            standard deviation over the square root of it.
        seed: Of the draws. Equal seeds give equal results; the global random state is
            neither read nor changed.
        exact_evidence: Whether ``log_evidence`` is exact up to sampling error (value by
            bridge sampling, gradient by Fisher's identity) instead of EP's.
    """

    engine = UnifiedSkewNormal()

    @checked_arguments
    def __init__(
        self,
        datapoints: Tensor | None = None,
        comparisons: Tensor | Comparisons | None = None,
        *,
        feedback: Sequence[Feedback] = (),
        likelihood: LikelihoodArgument = None,
        mean_module: Mean | None = None,
        covar_module: Kernel | None = None,
        input_transform: InputTransform | None = None,
        num_draws: int = 1024,
        seed: int = 0,
        exact_evidence: bool = False,
    ) -> None:
        super().__init__(
            datapoints,
            comparisons,
            feedback=feedback,
            likelihood=likelihood,
            mean_module=mean_module,
            covar_module=covar_module,
            input_transform=input_transform,
        )
        self.engine = UnifiedSkewNormal(num_draws, seed, exact_evidence)
