"""The rule for duels that explores, and distinct options for any rule."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any

import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.generation.gen import get_reasons_against_fast_path
from botorch.models.model import Model
from botorch.posteriors.posterior import Posterior
from botorch.utils.transforms import is_ensemble, t_batch_mode_transform
from torch import Generator, Tensor
from torch.quasirandom import SobolEngine

from botorch_pref.acquisition.duels import (
    DifferenceAcquisition,
    DuelingAcquisition,
    incumbent,
    new_duels,
    observed_points,
    split_pending,
    takes_points,
    with_others,
)
from botorch_pref.acquisition.registration import register_acquisition
from botorch_pref.errors import FeedbackError, UnsupportedFeedbackError
from botorch_pref.likelihoods import DuelLink
from botorch_pref.likelihoods.protocol import win_and_information
from botorch_pref.models.answer_likelihoods import noticeable_difference
from botorch_pref.models.preference_gp import PreferenceGP
from botorch_pref.numerics import mixtures
from botorch_pref.numerics.argument_checks import checked_arguments, number_tensor
from botorch_pref.posteriors.gaussian import (
    difference_mixture,
    shared_covariance_mixture,
)


@register_acquisition("eiig", reference=incumbent)
class DuelingEIIG(DifferenceAcquisition):
    r"""Dueling expected improvement and information gain.

    .. math::
        \alpha(x) = k \log P(x \succ x_r) + IG(x, x_r), \qquad
        P(x \succ x_r) = E[g(f(x) - f(x_r))],

    where the probability of a win includes the noise of the answer, and the information
    gain :math:`IG` is the value of :class:`.DuelingBALD` (Benavoli, Azzimonti and Piga
    2021, section 5, where the information gain is printed with the opposite sign).

    Args:
        model: See :class:`.DuelingAcquisition`.
        X_ref: The reference point, see :class:`.DuelingAcquisition`.
        k: Weight of improvement, nonnegative: 0.1 explores more than 0.5.
        link: See :class:`.DuelingBALD`.

    Raises:
        UnsupportedFeedbackError: No link is given and the likelihood has none.
        ValueError: ``k`` is negative or ``X_ref`` is no such point.
    """

    parts_differ = True

    @checked_arguments
    def __init__(
        self, model: Model, X_ref: Tensor, k: float = 0.1, link: DuelLink | None = None
    ) -> None:
        """Checks the weight and, early, that there is a link."""
        if not k >= 0:
            raise ValueError(f"k is {k}; give a weight of at least 0.")
        super().__init__(model, X_ref)
        self.k = k
        self._foresee_answers(link)

    def duel_value(self, means: Tensor, variance: Tensor) -> Tensor:
        """See base class."""
        log_win, information = win_and_information(self.link, means, variance)
        return self.k * log_win + information

    def feasible_value(self, X: Tensor, log_valid: Tensor) -> Tensor:
        r"""Values points that may fail, :math:`k \log (v \, P(win)) + v \, IG`.

        A trial improves if it is valid and wins; a failed one answers no question, and
        so brings none of the information gain :math:`IG`.

        Args:
            X: New points, ``batch_shape x q x d``.
            log_valid: :math:`\log v`, of the probability :math:`v` that all are valid,
                ``batch_shape``.

        Returns:
            ``batch_shape``.
        """
        # A copy with the weight 0 values the gain alone; `self` keeps its weight.
        information = copy(self)
        information.k = 0.0
        missed = -torch.expm1(log_valid) * information(X)
        value: Tensor = self(X)
        return value + self.k * log_valid - missed


@register_acquisition("tailed-ei", reference=incumbent)
class DuelingTailedEI(DifferenceAcquisition):
    r"""Expected improvement under heavy tails.

    .. math:: \alpha(x) = E[\max(t, 0)] = \max(\mu, 0)
        + \frac{1}{\pi} \Big(a - |\mu| \arctan \frac{a}{|\mu|}\Big), \qquad
        a = \sqrt3 \, \tau,

    where :math:`t` has Student's distribution with three degrees of freedom and the
    location :math:`\mu` and the scale :math:`\tau` of :math:`f(x) - f(x_r)`; under a
    `SkewNormalPosterior`, the average over its components. A Gaussian promises this
    improvement where its variance is a guess from three degrees of freedom, like the
    scales of a kernel that were learned from a few answers. Far below the reference
    the value falls with the square of :math:`\mu / \tau` instead of exponentially, so
    that an unlikely hump is looked at once little is to be gained elsewhere.

    ``model`` and ``X_ref``, the reference point, are those of
    :class:`.DuelingAcquisition`.
    """

    parts_differ = True

    def __init__(self, model: Model, X_ref: Tensor) -> None:
        super().__init__(model, X_ref)

    def duel_value(self, means: Tensor, variance: Tensor) -> Tensor:
        """See base class."""
        return mixtures.tailed_positive_part(means, variance)


class WrappedAcquisition(AcquisitionFunction):
    """Acquisition function that changes the value of another one.

    The pending points of ``acquisition`` are the wrapper's, and so are its reference
    point and its log space.
    """

    @checked_arguments
    def __init__(self, acquisition: AcquisitionFunction) -> None:
        super().__init__(model=acquisition.model)
        self.acquisition = acquisition
        self._log = acquisition._log
        super().set_X_pending(getattr(acquisition, "X_pending", None))

    @property
    def X_ref(self) -> Tensor | None:
        """The reference point of the acquisition function, if it has one."""
        return getattr(self.acquisition, "X_ref", None)

    def set_X_pending(self, X_pending: Tensor | None = None) -> None:
        """Hands pending points, ``n x d`` or None, to the wrapped function."""
        self.acquisition.set_X_pending(X_pending)
        super().set_X_pending(X_pending)


@register_acquisition("exploring-eiig", reference=incumbent)
class DuelingExploringEIIG(WrappedAcquisition):
    r"""`DuelingTailedEI` with probability :math:`\epsilon`, else `DuelingEIIG`.

    Which of the two is drawn once, when the instance is made:

    .. math:: \alpha(x) = \begin{cases}
        E[\max(t, 0)] & \text{with probability } \epsilon, \\
        k \log P(x \succ x_r) + IG(x, x_r) & \text{otherwise.} \end{cases}

    `DuelingEIIG` is local and learns the most from each answer. `DuelingTailedEI`
    leaves a known hill for regions where the model is too sure that there is nothing.
    Make a new instance for each question.

    Args:
        model: See :class:`.DuelingAcquisition`.
        X_ref: The reference point, see :class:`.DuelingAcquisition`.
        epsilon: Probability of exploring, in [0, 1].
        k: See :class:`.DuelingEIIG`.
        link: See :class:`.DuelingBALD`.
        generator: Source of the draw, on the CPU; torch's default one if None.

    Raises:
        UnsupportedFeedbackError: No link is given and the likelihood has none.
        ValueError: ``epsilon`` is no probability, ``k`` is negative or ``X_ref`` is no
            such point.
    """

    @checked_arguments
    def __init__(
        self,
        model: Model,
        X_ref: Tensor,
        epsilon: float = 1 / 3,
        k: float = 0.2,
        link: DuelLink | None = None,
        generator: Generator | None = None,
    ) -> None:
        """Draws once which of the two functions is wrapped."""
        if not 0 <= epsilon <= 1:
            raise ValueError(f"epsilon is {epsilon}; give a probability.")
        explores = float(torch.rand((), generator=generator)) < epsilon
        # Made in any case, for its checks.
        refining = DuelingEIIG(model, X_ref, k, link)
        super().__init__(DuelingTailedEI(model, X_ref) if explores else refining)

    @property
    def feasible_value(self) -> Callable[[Tensor, Tensor], Tensor] | None:
        """`feasible_value` of the function that was drawn; None where it has none."""
        return getattr(self.acquisition, "feasible_value", None)

    def forward(self, X: Tensor) -> Tensor:
        """Values points by the function that was drawn, see `DuelingAcquisition`."""
        value: Tensor = self.acquisition(X)
        return value


def nearness(squared: Tensor, free: float = 1.0, full: float = 0.0) -> Tensor:
    r"""Computes the penalty of a pair of options with the squared distance :math:`r^2`.

    .. math:: \Big( \frac{\max(0, b - r^2)}{b - a} \Big)^2 :

    0 from :math:`b` (``free``) on, 1 at :math:`a` (``full``), and continuously
    differentiable, so that gradient-based optimisers are led out.
    """
    return ((free - squared).clamp_min(0.0) / (free - full)).square()


SMALLEST_DIFFERENCE = 0.01
"""A hundredth of the range of each input, where the answers to duels are not known."""

SHARE_OF_NOTICEABLE = 0.375
"""Share of the just noticeable difference: with Gaussian noise, of options that differ
by as much, 60 % of the answers name the better one."""

_NEGLIGIBLE = 1e-5
"""Share of the spread of an acquisition function: a gain that no question is worth."""


def options_of_search(gain: float, num_restarts: int = 1) -> dict[str, Any]:
    """Makes options for ``optimize_acqf`` where a penalty keeps options apart.

    A search ends where a step gains less than ``gain``. BoTorch's default, a change of
    2e-9 whatever the values are, takes two to three times as many evaluations. Options
    found are often at the foot of the penalty, whose slope may be a hundred times that
    of the function: 20 steps of a line search, SciPy's default, are then too few, and
    `optimize_acqf` warns and begins again.

    Args:
        gain: What no question is worth; where it is 0, BoTorch's default stays.
        num_restarts: Number of starts of the search.
    """
    options: dict[str, Any] = {"maxls": 60}
    if gain <= 0:
        return options
    # BoTorch climbs from each start by itself, but only with releases of SciPy that it
    # knows. With later ones SciPy climbs the sum of all, and its option is another.
    if get_reasons_against_fast_path("L-BFGS-B", True, {}, None):
        return options | {"ftol": gain / num_restarts}
    return options | {"factr": gain / torch.finfo(torch.float64).eps}


_NUM_BOX_POINTS = 32
"""Points among the observed ones: improvement may be sure to be 0 at all of those."""

_UNRESOLVED = 64
"""Roundings of the prior variance of a difference that count as no difference."""


class DistinctOptions(WrappedAcquisition):
    r"""An acquisition function with a penalty on options that are nearly the same.

    Each pair of a new point with another new point, a pending point of the same
    question (see `DuelingAcquisition`) or the reference costs

    .. math:: s \, \max(0, 1 - r^2)^2 ,

    with :math:`s` the range of the acquisition function's values over the points that
    the model has observed and 32 quasi-random ones among them, in their box: 0 where
    options are distinct, :math:`r \ge 1`, continuously differentiable, and as much as
    lies between the best and the worst question where they are the same.

    By default the model says which options a person tells apart. Let :math:`u` be the
    difference of two utilities, and :math:`A(u)` how much more often than its opponent
    the first option is named. With the just noticeable difference :math:`J` (see
    :func:`.noticeable_difference`) it is :math:`A(u) \approx u / (2J)` for options that
    are hard to tell apart. So the mean square of what an answer says is :math:`E[A^2]
    \approx E[u^2] / (2J)^2`, and with :math:`c = 0.375`

    .. math:: r^2 = \frac{E[u^2]}{(c J)^2 + \rho}, \qquad
        E[u^2] = \frac1S \sum_s \mu_s^2 + \tau^2 ,

    where the model's :math:`u` is a mixture of :math:`N(\mu_s, \tau^2)`. At :math:`r =
    1` about 60 % of the answers name the better option. Options that surely or maybe
    differ are distinct however near they are; options far apart whose utilities are
    known to be equal are not. The denominator is ``smallest_square``, where
    :math:`\rho` is what rounding leaves of :math:`E[u^2]` at two equal points: 64
    roundings of the prior variance of a difference.

    With a ``smallest_difference`` :math:`\delta` the distance counts instead,

    .. math:: r^2 = \sum_i \Big(\frac{x_i - x'_i}{\delta_i}\Big)^2 ,

    so that options are distinct where any one input differs by :math:`\delta_i`. Where
    the model's likelihood says nothing of duels, as of ratings, :math:`\delta` is 0.01.

    Where the best options would be too near each other, those found have :math:`r`
    close to 1: give ``optimize_acqf`` this function's ``optimizer_options``.

    Args:
        acquisition: Any, with or without a reference point ``X_ref``.
        smallest_difference: :math:`\delta`, positive: one for all inputs, or ``d``; by
            default the model says which options are distinct.

    Raises:
        FeedbackError: The model has observed fewer than two points.
        ValueError: The smallest difference is not positive and finite.
    """

    weight: Tensor
    smallest_difference: Tensor | None
    smallest_square: Tensor | None

    def __init__(
        self,
        acquisition: AcquisitionFunction,
        smallest_difference: float | Tensor | None = None,
    ) -> None:
        """Chooses what tells options apart, and measures the weight of the penalty.

        Either ``smallest_difference``, of inputs, or by default ``smallest_square``, of
        the difference of utilities, tells options apart; the other attribute is None.
        """
        super().__init__(acquisition)
        points = observed_points(acquisition.model)
        smallest_square = None
        if smallest_difference is None:
            smallest_square = _smallest_square(acquisition.model, points)
            if smallest_square is None:
                smallest_difference = SMALLEST_DIFFERENCE
        difference = None
        if smallest_difference is not None:
            difference = number_tensor(
                "smallest_difference", smallest_difference, points.dtype, points.device
            )
            if not bool((difference.isfinite() & (difference > 0)).all()):
                raise ValueError(
                    f"smallest_difference is {smallest_difference}; give a positive "
                    "number for all inputs, or one for each."
                )
        self.register_buffer("smallest_difference", difference)
        self.register_buffer("smallest_square", smallest_square)
        self.register_buffer("weight", self._spread(points))

    @property
    def feasible_value(self) -> Callable[[Tensor, Tensor], Tensor] | None:
        """`feasible_value` of the wrapped function, less the penalty.

        None where that function has none.
        """
        base_value = getattr(self.acquisition, "feasible_value", None)
        if base_value is None:
            return None
        return lambda X, log_valid: base_value(X, log_valid) - self._penalty(X)

    @property
    def optimizer_options(self) -> dict[str, Any]:
        """Options for ``optimize_acqf`` of this function, see `options_of_search`.

        A search ends where a step gains less than a hundred-thousandth of the weight of
        the penalty, of a batch of models of the largest weight.
        """
        return options_of_search(_NEGLIGIBLE * float(self.weight.max()))

    def _spread(self, points: Tensor) -> Tensor:
        """Computes the penalty's weight, the range of the function's values.

        It is over the observed ``points`` and further ones in their box, ``batch_shape
        x n x d``, each with the reference; without one over pairs of neighbours in this
        list. Values that are not finite do not count.
        """
        if points.shape[-2] < 2:
            raise FeedbackError(
                "DistinctOptions measures the acquisition function at the points that "
                f"the model has observed, which are {points.shape[-2]}; ask a first "
                "duel of two points of your choice."
            )
        points = torch.cat([points, _box_points(points)], dim=-2)
        with torch.no_grad():
            if self.X_ref is None:
                paired = torch.stack([points, points.roll(1, -2)], dim=-2)
            else:
                point_batch, reference_batch = points.shape[:-2], self.X_ref.shape[:-2]
                batch = torch.broadcast_shapes(point_batch, reference_batch)
                paired = points.expand(*batch, *points.shape[-2:]).unsqueeze(-2)
            values = self.acquisition(paired.movedim(-3, 0))
        finite = values.isfinite()
        if not bool(finite.any(0).all()):
            raise FeedbackError(
                f"{type(self.acquisition).__name__} has no finite value at any point "
                "that the model has observed, so that nothing says what near options "
                "should cost; take an acquisition function that values them."
            )
        largest = values.masked_fill(~finite, -torch.inf).amax(0)
        return largest - values.masked_fill(~finite, torch.inf).amin(0)

    @takes_points
    @t_batch_mode_transform()  # type: ignore[arg-type]
    def forward(self, X: Tensor) -> Tensor:
        """Subtracts the penalty from the acquisition function, ``batch_shape``."""
        # The function that a random choice wraps.
        duels: Any = self.acquisition
        if isinstance(duels, DuelingExploringEIIG):
            duels = duels.acquisition
        by_model = self.smallest_square is not None
        _, open_questions = split_pending(self.X_pending, self.X_ref, X.shape[-2])
        has_base_forward = type(duels).forward is DuelingAcquisition.forward
        if by_model and has_base_forward and open_questions is None:
            # One posterior for value and penalty. With open questions the value's lacks
            # the variance that their answers will take away, which the penalty counts.
            question = duels.meetings(X)
            value = duels.mean_value(*question, X.shape[-2])
            return self._of_all_members(value) - self._price(*question)
        return self.acquisition(X) - self._penalty(X)

    def _penalty(self, X: Tensor) -> Tensor:
        """Sums the penalties of pairs of options, one of which is new, ``batch_shape``.

        Options are the new points ``X``, those of the same question and the reference.
        """
        same_question, _ = split_pending(self.X_pending, self.X_ref, X.shape[-2])
        points = with_others(X, same_question, self.X_ref)
        first, second = new_duels(X.shape[-2], points.shape[-2], X.device)
        if len(first) == 0:
            return torch.zeros_like(self.weight)
        if self.smallest_difference is None:
            return self._price(self.model.posterior(points), first, second)
        scaled = points / self.smallest_difference
        square = (scaled[..., first, :] - scaled[..., second, :]).square().sum(-1)
        return self.weight * nearness(square).sum(-1)

    def _of_all_members(self, value: Tensor) -> Tensor:
        """Averages over the members of an ensemble, which are the last batch."""
        return value.mean(-1) if is_ensemble(self.model) else value

    def _price(self, posterior: Posterior, first: Tensor, second: Tensor) -> Tensor:
        """Sums the penalties of pairs by the mean square difference, ``batch_shape``.

        The ``posterior`` is of all options; ``first`` and ``second`` are their places.
        """
        assert self.smallest_square is not None
        means, variance = difference_mixture(posterior, first, second)
        square = means.square().mean(0) + variance
        close = nearness(square / self.smallest_square.unsqueeze(-1)).sum(-1)
        return self.weight * self._of_all_members(close)


def _box_points(points: Tensor) -> Tensor:
    """Draws points in the bounding box of observed ``points``, ``... x 32 x d``.

    They are the same ones each time. Where all observed points are surely worse than
    the reference, the improvement at each of them is 0, and so would be the range of
    the improvement without further points.
    """
    engine = SobolEngine(points.shape[-1], scramble=True, seed=0)
    shares = engine.draw(_NUM_BOX_POINTS, dtype=torch.float64).to(points)
    lower, upper = points.amin(-2, keepdim=True), points.amax(-2, keepdim=True)
    return lower + shares * (upper - lower)


def _smallest_square(model: Model, points: Tensor) -> Tensor | None:
    r"""Computes the smallest mean square difference of distinct options.

    It is :math:`(c J)^2 + \rho` of :class:`DistinctOptions`, with the noticeable
    difference :math:`J` and what rounding leaves, :math:`\rho`; ``batch_shape``, or
    None where the model's likelihood knows no duels.
    """
    try:
        noticeable = noticeable_difference(model)
    except UnsupportedFeedbackError:
        return None
    with torch.no_grad():
        if isinstance(model, PreferenceGP):
            variance = model.prior_variance(points)
        else:
            _, covariance = shared_covariance_mixture(model.posterior(points))
            variance = covariance.diagonal(dim1=-2, dim2=-1)
        rounding = _UNRESOLVED * torch.finfo(variance.dtype).eps * 2 * variance
    square = (SHARE_OF_NOTICEABLE * noticeable).square() + rounding.amax(-1)
    return square.to(variance)
