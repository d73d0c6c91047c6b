"""Preference models, one for each engine, and the table of what they take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from botorch.models.transforms.input import InputTransform
from gpytorch.kernels import Kernel
from gpytorch.means import Mean
from torch import Tensor

from botorch_pref.feedback import Choices, Comparisons, Feedback, Rankings
from botorch_pref.inference.ep import ExpectationPropagation
from botorch_pref.inference.laplace import Laplace
from botorch_pref.inference.skew.solution import UnifiedSkewNormal
from botorch_pref.inference.variational import VariationalBound
from botorch_pref.likelihoods import PairwiseLogitLikelihood, PlackettLuceLikelihood
from botorch_pref.likelihoods.base import likelihoods_of, registered_likelihoods
from botorch_pref.models.answers import (
    DEFAULT_LIKELIHOODS,
    AnyLikelihood,
    LikelihoodArgument,
    engines,
    register_model,
)
from botorch_pref.models.preference_gp import PreferenceGP
from botorch_pref.numerics.argument_ranges import checked_arguments


@register_model("ep")
class EPPreferenceGP(PreferenceGP):
    """A preference model with expectation propagation (Chu and Ghahramani 2005b).

    A Gaussian whose moments match those of every answer in turn; exact for one answer,
    very close to the exact means and variances for many (``benchmarks`` measures how
    close). What no Gaussian has is skewness, which shows in the probabilities of duels
    that were already asked, near 0 and 1. :class:`SkewPreferenceGP` is exact.

    The arguments are those of :class:`PreferenceGP`.
    """

    engine = ExpectationPropagation()


@register_model("laplace")
class LaplacePreferenceGP(PreferenceGP):
    """A preference model with Laplace's approximation (Chu and Ghahramani 2005).

    The Gaussian around the mode. The fastest engine, and the least accurate one where
    answers carry little noise beside the output scale; ``benchmarks`` measures by how
    much. Prefer :class:`EPPreferenceGP` unless the mode itself is wanted.

    The arguments are those of :class:`PreferenceGP`.
    """

    engine = Laplace()


@register_model()
class VariationalPreferenceGP(PreferenceGP):
    """A preference model with a lower bound of its evidence (Guo et al. 2020).

    Logistic and softmax answers are replaced by Gaussian lower bounds: Jaakkola and
    Jordan's of pairs, Bouchard's of larger sets. The bound never falls from step to
    step, and hyper-parameters maximise it.

    Bouchard's bound is far from tight: it draws utilities apart and states deviations
    that are too small, by the figures of :class:`PlackettLuceRegression`; after 200
    rankings of five it is 301 nats below the evidence. The order of utilities suffers
    less, but for anything that uses their size or spread prefer
    :class:`LaplacePreferenceGP`.

    The bound of a set depends on where zero is, which the answers do not: it is best
    with the zero mean that is the default for them.

    The arguments are those of :class:`PreferenceGP`.
    """

    engine = VariationalBound()
    default_likelihoods = DEFAULT_LIKELIHOODS | {
        Comparisons: PairwiseLogitLikelihood,
        Choices: PlackettLuceLikelihood,
        Rankings: PlackettLuceLikelihood,
    }


@register_model("skew")
class SkewPreferenceGP(PreferenceGP):
    r"""A preference model with the exact, unified skew-normal posterior.

    Skew Gaussian processes (Benavoli et al. 2021) for every boxed kind of feedback.
    What the answers leave open is sampled once per fit, ``num_draws`` draws of the
    truncated ``v``; given them the posterior anywhere is a mixture of Gaussians in
    closed form, smooth in ``x``.

    Hyper-parameters maximise EP's evidence, within 0.3 nats of the exact one, or with
    ``exact_evidence=True`` the exact one, which samples at every step.

    ``datapoints``, ``comparisons``, ``feedback``, ``likelihood``, ``mean_module``,
    ``covar_module`` and ``input_transform`` are those of :class:`PreferenceGP`.

    Args:
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


def engine_table() -> str:
    """Markdown table of engines: a row for each likelihood of a kind of answer.

    Kinds that have a likelihood by default come first.

    ``python -c "from botorch_pref.models import engine_table; print(engine_table())"``
    prints it.
    """
    columns = engines()
    names = [f"`{model.__name__}`" for model in columns]
    lines = [
        "| feedback | likelihood | " + " | ".join(names) + " |",
        "| --- " * (2 + len(columns)) + "|",
    ]
    explained = (k for cls in registered_likelihoods().values() for k in cls.explains)
    for kind in dict.fromkeys((*DEFAULT_LIKELIHOODS, *explained)):
        for likelihood in likelihoods_of(kind):
            marks = " | ".join(_mark(model, kind, likelihood) for model in columns)
            lines.append(f"| `{kind.__name__}` | `{likelihood.__name__}` | {marks} |")
    return "\n".join(lines)


def _mark(model: Any, kind: type[Feedback], likelihood: type[AnyLikelihood]) -> str:
    if not model.engine.accepts(likelihood.explains[kind]):
        return ""
    is_default = model.default_likelihoods.get(kind) is likelihood
    return "yes, by default" if is_default else "yes"
