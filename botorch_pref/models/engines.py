"""Preference models, one for each engine, and the table of what they take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self, cast

import torch
from botorch.models.transforms.input import InputTransform
from gpytorch.kernels import Kernel
from gpytorch.means import Mean
from torch import Tensor

from botorch_pref.errors import BotorchPrefError, FeedbackError
from botorch_pref.feedback import Choices, Comparisons, Feedback, Rankings
from botorch_pref.inference.engine import PosteriorTerms, Solution, UtilityPrior
from botorch_pref.inference.ep import ExpectationPropagation
from botorch_pref.inference.inducing import InducingPrior
from botorch_pref.inference.laplace import Laplace
from botorch_pref.inference.skew.unified_skew_normal import UnifiedSkewNormal
from botorch_pref.inference.sparse import SparseExpectationPropagation
from botorch_pref.inference.variational import VariationalBound
from botorch_pref.likelihoods import PairwiseLogitLikelihood, PlackettLuceLikelihood
from botorch_pref.likelihoods.protocol import likelihoods_of, registered_likelihoods
from botorch_pref.linalg.covariance import dense_covariance, join_rows
from botorch_pref.linalg.sparse_design import take_rows
from botorch_pref.models.answer_likelihoods import (
    DEFAULT_LIKELIHOODS,
    AnyLikelihood,
    LikelihoodArgument,
    engines,
    register_model,
)
from botorch_pref.models.fitting import equal
from botorch_pref.models.preference_gp import PreferenceGP
from botorch_pref.models.training_data import TrainingSet
from botorch_pref.numerics.argument_checks import check_count, checked_arguments


@register_model("ep")
class EPPreferenceGP(PreferenceGP):
    """A preference model with expectation propagation (Chu and Ghahramani 2005b).

    A Gaussian whose moments match those of every answer in turn; exact for one answer,
    very close to the exact means and variances for many (``benchmarks`` measures how
    close). What no Gaussian has is skewness, which shows in the probabilities of duels
    that were already asked, near 0 and 1. :class:`SkewPreferenceGP` is exact.
    ``diagnostics()["evidence_error"]`` is about how far the log evidence is below the
    exact one, in nats: much where many answers say nearly the same with little noise.
    Where answers may be lapses and some surprise, it says little.

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
    rankings of five it is 301 nats below the evidence. For anything that uses more than
    the order of utilities prefer :class:`LaplacePreferenceGP`. The bound of a set
    depends on where zero is, which the answers do not: it is best with their default
    mean, zero.

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

    Hyper-parameters maximise EP's evidence, or with ``exact_evidence=True`` the exact
    one, which samples at every step. EP's is mostly within 0.3 nats of it, and a nat
    below it where answers with little noise say much the same.

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
        """Makes the model, with an engine of its own that has these settings."""
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


# Share of the largest prior variance below which a point is explained by others: the
# limit of BoTorch's GreedyVarianceReduction.
_EXPLAINED = 1e-6


@torch.no_grad()
def spread_places(kernel: Kernel, points: Tensor, count: int) -> Tensor:
    """Chooses points that tell most of all others, to be inducing points.

    Returned are their places among ``points``, ``batch_shape x count``. The next point
    is the one with the largest prior variance given those before it (Burt et al. 2020),
    as in BoTorch's ``GreedyVarianceReduction``: a pivoted Cholesky factorisation, of
    which only the chosen columns are made. Once all others are explained, the choice
    begins anew among them: hyper-parameters may be others later.
    """
    prior = kernel(points, diag=True)
    variance, factor = prior.clone(), points.new_zeros(*prior.shape, count)
    is_taken = torch.zeros_like(prior, dtype=torch.bool)
    threshold = _EXPLAINED * prior.amax(-1, keepdim=True)
    places = []
    for number in range(count):
        explained = variance.amax(-1, keepdim=True) <= threshold
        if bool(explained.any()):
            # Points that are taken keep a variance of 0, and so are not taken twice.
            factor = torch.where(explained.unsqueeze(-1), 0.0, factor)
            variance = torch.where(
                explained, prior.masked_fill(is_taken, 0.0), variance
            )
        place, before = variance.argmax(-1, keepdim=True), factor[..., :number]
        column = dense_covariance(kernel, points, take_rows(points, place))
        column = column - before @ take_rows(before, place).mT
        column = column.squeeze(-1) / variance.gather(-1, place).sqrt()
        factor[..., number] = column
        is_taken.scatter_(-1, place, True)
        variance = (
            (variance - column.square()).clamp_min(0.0).masked_fill(is_taken, 0.0)
        )
        places.append(place)
    return torch.cat(places, dim=-1)


@register_model("sparse")
class SparsePreferenceGP(PreferenceGP):
    """A preference model with expectation propagation on inducing points.

    For thousands of points and hundreds of thousands of answers of every kind that
    :class:`EPPreferenceGP` takes. The utilities of all points are seen through those of
    ``num_inducing`` of them, and what these leave open of a utility counts as noise,
    drawn anew for each answer (FITC, Snelson and Ghahramani 2006). So what an item has
    beyond its features, and a rater's own taste, are learned for inducing points only;
    :class:`CrowdPreferenceGP` learns the tastes of all raters. A sweep costs :math:`O(n
    r^2 + m r)` for ``r`` inducing points, ``n`` points and ``m`` different answers,
    without a matrix of points by points. ``benchmarks/sparse_models.py`` measures how
    close to exact it is. With ``num_inducing`` different points or fewer it is
    :class:`EPPreferenceGP`.

    Inducing points are chosen from the datapoints as the model is made, each where the
    prior leaves the most variance given those before it, and again when datapoints are
    replaced. They stay while hyper-parameters are fitted;
    :meth:`choose_inducing_points` chooses anew. A ``state_dict`` holds them, for models
    that have more datapoints than inducing points. A model that is conditioned on more
    points takes these in addition, which move with the points where look-ahead takes
    derivatives in these. There is no derivative where a further point is a copy of an
    inducing point.

    ``datapoints``, ``comparisons``, ``feedback``, ``likelihood``, ``mean_module``,
    ``covar_module`` and ``input_transform`` are those of :class:`PreferenceGP`.

    Args:
        num_inducing: The number of inducing points, at least one.
    """

    engine = SparseExpectationPropagation()
    inducing_points: Tensor | None
    """``batch_shape x r x d``, untransformed; None where all points are."""
    _chosen_for: Tensor | None
    """The datapoints that the inducing points were chosen for."""

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
        num_inducing: int = 256,
    ) -> None:
        """Makes the model, and chooses inducing points at the hyper-parameters' start.

        Only the inducing points are in a ``state_dict``, not the datapoints that they
        were chosen for.
        """
        check_count("num_inducing", num_inducing, at_least=1)
        super().__init__(
            datapoints,
            comparisons,
            feedback=feedback,
            likelihood=likelihood,
            mean_module=mean_module,
            covar_module=covar_module,
            input_transform=input_transform,
        )
        self.num_inducing = num_inducing
        self.register_buffer("inducing_points", None)
        self.register_buffer("_chosen_for", None, persistent=False)
        if datapoints is not None:
            self.choose_inducing_points()

    @torch.no_grad()
    def choose_inducing_points(self) -> None:
        """Chooses inducing points from the datapoints, at the present hyper-parameters.

        Raises:
            FeedbackError: The model has no datapoints.
        """
        datapoints = self.datapoints
        if datapoints is None:
            raise FeedbackError(
                "A model without datapoints has nothing to choose inducing points "
                "from; pass datapoints=."
            )
        # Chosen among transformed points, and kept as they were before the transform.
        points, distinct = self.transformed_points(), self._distinct
        first = datapoints if distinct is None else datapoints[distinct.first]
        self._chosen_for, self.inducing_points = datapoints.detach(), None
        if points.shape[-2] > self.num_inducing:
            places = spread_places(self.covar_module, points, self.num_inducing)
            self.inducing_points = take_rows(first.detach(), places)

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, *args: Any
    ) -> None:
        """Takes the inducing points of a state; where all points are seen, none.

        PyTorch calls it for this module, with a copy of the state that may be changed.
        The state of a conditioned model has more of them, and PyTorch refuses a buffer
        of another shape: this model's becomes the state's before.
        """
        name, datapoints = f"{prefix}inducing_points", self.datapoints
        if datapoints is None or self.inducing_points is None:
            state_dict.pop(name, None)
        elif name in state_dict:
            self._chosen_for = datapoints.detach()
            self.inducing_points = state_dict[name].to(datapoints).clone()
        else:
            # A state of so few points that all were seen.
            state_dict[name] = self.inducing_points
        super()._load_from_state_dict(state_dict, prefix, *args)

    @property
    def num_data(self) -> int:
        """The number of inducing points, by which the loss of a fit is divided.

        Processes that share answers have the same, and so the same loss. Where every
        point is seen there are no inducing points, and the base class says the number.
        """
        return super().num_data if self.inducing_points is None else self.num_inducing

    def _answered(self) -> TrainingSet:
        self._check_share()
        return super()._answered()

    def solution(self) -> Solution[PosteriorTerms] | None:
        """See base class.

        Raises:
            BotorchPrefError: A process without answers has no share in those of others.
        """
        self._check_share()
        return super().solution()

    def _check_share(self) -> None:
        """Refuses a model without answers if its engine adds up all processes' answers.

        It would not solve, and the other processes would wait for it.
        """
        if getattr(self.engine, "shared", False) and not self.feedback:
            raise BotorchPrefError(
                "This process has no answers to share; give it some of those of the "
                "others, or leave it out of the process group."
            )

    def prior(self) -> UtilityPrior:
        """Makes the prior by way of inducing points, if there are any.

        These are chosen anew first where the datapoints are others than those that they
        were chosen for. Another engine that somebody gave the model sees all points.
        """
        datapoints = self.datapoints
        chosen_for = self._chosen_for
        if datapoints is not None and (
            chosen_for is None or not equal(datapoints, chosen_for)
        ):
            self.choose_inducing_points()
        by_weights = isinstance(self.engine, SparseExpectationPropagation)
        if self.inducing_points is None or not by_weights:
            return super().prior()
        x, z = self.transformed_points(), self.inducing_points
        if hasattr(self, "input_transform"):
            # As training inputs, but so that the transform learns nothing from them.
            z = self.input_transform.preprocess_transform(z)
        kernel: Any = self.covar_module
        prior = InducingPrior(
            points=z,
            mean=self.mean_module(x).clone(),
            covar=dense_covariance(kernel, z),
            cross=dense_covariance(kernel, x, z),
            variance=kernel(x, diag=True),
        )
        weights = self._weight_prior
        return cast("Any", prior if weights is None else prior.with_weights(weights))

    def _state(self) -> list[Tensor]:
        inducing = self.inducing_points
        return [*super()._state(), *([] if inducing is None else [inducing.detach()])]

    def _go_on_from(self, before: Self, new_data: TrainingSet) -> None:
        """Adds the points of further answers to the inducing points.

        So the copy's prior has them before the engine goes on, and look-ahead has
        derivatives in them.
        """
        if before.datapoints is not None and self.datapoints is not None:
            self._chosen_for = self.datapoints.detach()
        if before.inducing_points is not None:
            parts = before.inducing_points, new_data.datapoints
            self.inducing_points = join_rows(parts, along=-2)
        super()._go_on_from(before, new_data)


def engine_table() -> str:
    """Writes a Markdown table of engines: a row for each likelihood of an answer.

    The documentation has it, and a test compares both. Kinds that have a likelihood by
    default come first.

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
