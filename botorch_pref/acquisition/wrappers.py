"""What goes around any acquisition function: distinct options, trials that may fail."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.acquisition.input_constructors import (
    acqf_input_constructor,
    get_acqf_input_constructor,
)
from botorch.models.model import Model
from botorch.utils.transforms import t_batch_mode_transform
from torch import Tensor

from botorch_pref.acquisition.base import append_points, new_duels, takes_points
from botorch_pref.acquisition.reference import observed_points
from botorch_pref.acquisition.registration import utility_model
from botorch_pref.acquisition.rules import DuelingEIIG
from botorch_pref.errors import FeedbackError
from botorch_pref.models.predictions import log_validity_probability
from botorch_pref.models.preference_gp import PreferenceGP
from botorch_pref.numerics.argument_ranges import checked_arguments, number_tensor


class WrappedAcquisition(AcquisitionFunction):
    """Acquisition function that values points by another one, and changes the value.

    Args:
        acquisition: What is wrapped; its pending points are those of the wrapper, which
            is in log space where it is.
    """

    @checked_arguments
    def __init__(self, acquisition: AcquisitionFunction) -> None:
        super().__init__(model=acquisition.model)
        self.acquisition = acquisition
        self._log = acquisition._log
        super().set_X_pending(getattr(acquisition, "X_pending", None))

    def set_X_pending(self, X_pending: Tensor | None = None) -> None:
        """Hands pending points to the wrapped acquisition function.

        Args:
            X_pending: ``n x d``, or None.
        """
        self.acquisition.set_X_pending(X_pending)
        super().set_X_pending(X_pending)


def nearness(squared: Tensor, free: float = 1.0, full: float = 0.0) -> Tensor:
    r"""Price of a pair of options, from 0 for distinct ones upwards.

    .. math:: \Big( \frac{\max(0, b - r^2)}{b - a} \Big)^2

    for the squared difference :math:`r^2` in units of the smallest difference: nothing
    from :math:`b` on, one at :math:`a`, and continuously differentiable, so that
    gradient-based optimisers are led out of there.

    Args:
        squared: :math:`r^2`, nonnegative, any shape.
        free: :math:`b`, from which nothing is to be paid.
        full: :math:`a`, below ``free``, at which the price is 1.
    """
    return ((free - squared).clamp_min(0.0) / (free - full)).square()


SMALLEST_DIFFERENCE = 0.01
"""A hundredth of the range of each input."""


class DistinctOptions(WrappedAcquisition):
    r"""An acquisition function with a penalty on options that are nearly the same.

    Two options are distinct where their distance in units of the smallest difference,

    .. math:: r^2 = \sum_i \Big(\frac{x_i - x'_i}{\delta_i}\Big)^2 ,

    is at least 1, as where any one input differs by :math:`\delta_i`. Each pair of a
    new point with another new point, a pending point or the reference costs

    .. math:: s \, \max(0, 1 - r^2)^2 ,

    with :math:`s` the spread of the acquisition function's values over the points that
    the model has observed: nothing where options are distinct, continuously
    differentiable, and as much as lies between the best and the worst question where
    they are the same. Over a distance as short as the smallest difference a question's
    worth hardly changes beside :math:`s`, so that where the best question is one of
    options too near each other, what is found has :math:`r` close to 1.

    There the penalty is a wall, for its slope is a hundred times that of what it is
    added to, and L-BFGS-B's line search may end before its 20 steps have led to the
    foot of it: `optimize_acqf` then warns of ``ABNORMAL`` and begins again from other
    points. ``options={"maxls": 60}`` gives it the steps that it needs.

    Args:
        acquisition: Any, with or without a reference point ``X_ref``.
        smallest_difference: :math:`\delta`, positive: one for all inputs, or ``d``.

    Raises:
        FeedbackError: If the model has observed fewer than two points.
        ValueError: If the smallest difference is not positive and finite.
    """

    smallest_difference: Tensor
    weight: Tensor

    def __init__(
        self,
        acquisition: AcquisitionFunction,
        smallest_difference: float | Tensor = SMALLEST_DIFFERENCE,
    ) -> None:
        super().__init__(acquisition)
        points = observed_points(acquisition.model)
        difference = number_tensor(
            "smallest_difference", smallest_difference, points.dtype, points.device
        )
        if not bool((difference.isfinite() & (difference > 0)).all()):
            raise ValueError(
                f"smallest_difference is {smallest_difference}; give a positive number "
                "for all inputs, or one for each."
            )
        self.register_buffer("smallest_difference", difference)
        self.register_buffer("weight", self._spread(points))

    @property
    def X_ref(self) -> Tensor | None:
        """The reference point of the acquisition function, if it has one."""
        return getattr(self.acquisition, "X_ref", None)

    def _spread(self, points: Tensor) -> Tensor:
        """Largest less smallest value over observed points, or over pairs of them."""
        if points.shape[-2] < 2:
            raise FeedbackError(
                "DistinctOptions measures the acquisition function at the points that "
                f"the model has observed, which are {points.shape[-2]}; ask a first "
                "duel of two points of your choice."
            )
        with torch.no_grad():
            if self.X_ref is None:
                paired = torch.stack([points, points.roll(1, -2)], dim=-2)
            else:
                paired = points.unsqueeze(-2)
            values = self.acquisition(paired.movedim(-3, 0))
        finite = values[values.isfinite()]
        return finite.amax() - finite.amin()

    @takes_points
    @t_batch_mode_transform()  # type: ignore[arg-type]
    def forward(self, X: Tensor) -> Tensor:
        """The acquisition function's value less the penalty.

        Args:
            X: ``batch_shape x q x d``.

        Returns:
            ``batch_shape``, broadcast with the batch of the model.
        """
        return self.acquisition(X) - self.weight * self._nearness(X)

    def _nearness(self, X: Tensor) -> Tensor:
        """Sum of ``max(0, 1 - r^2)^2`` over the pairs that count, ``batch_shape``."""
        points = X
        for others in (self.X_pending, self.X_ref):
            if others is not None:
                points = append_points(points, others)
        first, second = new_duels(X.shape[-2], points.shape[-2], X.device)
        scaled = points / self.smallest_difference
        square = (scaled[..., first, :] - scaled[..., second, :]).square().sum(-1)
        return nearness(square).sum(-1)


class FeasibilityWeighted(WrappedAcquisition):
    r"""The worth of a trial that may fail, with a model of its own for failing.

    Valid need not mean good: where trials crash for reasons that have nothing to do
    with taste, validity has a utility, ``feasibility_model``, of its own. With
    :math:`P` the probability that all ``q`` points are valid, taken as independent,

    - an acquisition function :math:`\log \beta` in log space (BoTorch's ``Log...``)
      becomes :math:`\log \beta + \log P`, the logarithm of :math:`P \beta`;
    - one that has a method ``feasible_value(X, log_valid)`` becomes what that returns,
      ``batch_shape``, for the points and for :math:`\log P`. `DuelingEIIG`,
      :math:`k \log P(x \succ x_r) + IG`, has
      :math:`k \log \big(P \, P(x \succ x_r)\big) + P \, IG`: to improve, the trial must
      be valid and win, and a failed one answers no question;
    - any other, :math:`\alpha`, becomes
      :math:`\alpha_0 + g - (1 - P) |g|, \; g = \alpha - \alpha_0`. Where
      :math:`\alpha \ge \alpha_0`, this is the expected value
      :math:`P \alpha + (1 - P) \alpha_0` of a trial that is worth :math:`\alpha_0` if
      it fails. Below, where that would reward failing, :math:`(2 - P) g` penalises it.

    All of ours are continuous, never decrease in :math:`P` nor in :math:`\alpha` at a
    given :math:`P` (for EIIG: in either of its terms), and leave the acquisition
    function as it is where :math:`P = 1`.

    Of `DuelingExploringEIIG` the function that was drawn is weighted. Pending points
    are passed on; their own validity is not weighed.

    Args:
        acquisition: Any, of any model.
        feasibility_model: A model with `Validity`, for example
            ``EPPreferenceGP(X, feedback=[Validity(indices, valid)])``.
        failure_value: :math:`\alpha_0`, the worth of a failed trial on the scale of
            ``acquisition``. 0 is right for improvements and for what an answer teaches:
            all dueling functions with a reference point, `DuelingBALD` and `DuelingKG`
            without. Functions whose zero means nothing, such as `DuelingEUBO` without
            a reference, need one, for example the posterior mean of the utility at the
            incumbent.

    Raises:
        ValueError: A failure value for a function that has none: `DuelingEIIG`, another
            one with ``feasible_value``, or one in log space.
        UnsupportedFeedbackError: The model knows nothing of validity.
    """

    @checked_arguments
    def __init__(
        self,
        acquisition: AcquisitionFunction,
        feasibility_model: PreferenceGP,
        failure_value: float = 0.0,
    ) -> None:
        super().__init__(acquisition)
        if failure_value != 0 and (acquisition._log or self._own_value is not None):
            raise ValueError(
                f"failure_value is {failure_value}, but {type(acquisition).__name__} "
                "counts in logarithms of probabilities or improvements, or says "
                "itself what a failure is worth; leave it out."
            )
        self.feasibility_model = feasibility_model
        self.failure_value = failure_value

    @property
    def _own_value(self) -> Callable[[Tensor, Tensor], Tensor] | None:
        """`feasible_value` of the acquisition function; None where it has none."""
        return getattr(self.acquisition, "feasible_value", None)

    @takes_points
    @t_batch_mode_transform()  # type: ignore[arg-type]
    def forward(self, X: Tensor) -> Tensor:
        """The weighted value.

        Args:
            X: ``batch_shape x q x d``.

        Returns:
            ``batch_shape``, broadcast with the batches of both models.
        """
        log_valid = log_validity_probability(self.feasibility_model, X).sum(-1)
        if self._own_value is not None:
            return self._own_value(X, log_valid)
        value = self.acquisition(X)
        if self.acquisition._log:
            return value + log_valid
        return failing_value(value, log_valid, self.failure_value)


def failing_value(value: Tensor, log_valid: Tensor, failure_value: float) -> Tensor:
    """``failure + g - (1 - P) |g|`` with ``g = value - failure``.

    Args:
        value: If the trial is valid, any shape.
        log_valid: ``log P``, broadcastable with ``value``.
        failure_value: If it fails.
    """
    gain, valid = value - failure_value, log_valid.exp()
    # Without the difference 1 - P, whose rounding would swallow a small P.
    return failure_value + torch.where(gain > 0, valid * gain, (2 - valid) * gain)


@acqf_input_constructor(FeasibilityWeighted)
def construct_inputs_feasibility_weighted(
    model: Model,
    feasibility_model: PreferenceGP,
    acquisition_class: type[AcquisitionFunction] = DuelingEIIG,
    acquisition_options: dict[str, Any] | None = None,
    failure_value: float = 0.0,
) -> dict[str, Any]:
    """Keyword arguments of `FeasibilityWeighted`.

    Args:
        model: The model of the utility, or a list with nothing but it.
        feasibility_model: The model of validity.
        acquisition_class: What is weighted, by its own input constructor.
        acquisition_options: Options of that constructor, besides the model.
        failure_value: See `FeasibilityWeighted`.
    """
    construct = get_acqf_input_constructor(acquisition_class)
    arguments = construct(model=utility_model(model), **(acquisition_options or {}))
    return {
        "acquisition": acquisition_class(**arguments),
        "feasibility_model": feasibility_model,
        "failure_value": failure_value,
    }


_SLOPE = 0.3


class ChanceConstrained(WrappedAcquisition):
    r"""The worth of points that are valid with at least a given probability.

    With :math:`P` the least probability among the ``q`` points that the point is valid,

    .. math:: \Big(\alpha(X) + \sqrt{1 + \alpha(X)^2}\Big)\, s(P)
        \;\; \text{if } P \ge level, \qquad \log P - \log level \;\; \text{else},

    which orders points that satisfy the chance constraint as :math:`\alpha` does, puts
    each of them above all others, and leads the others towards it: where no point
    satisfies it, the one that is most likely to be valid is best. So that optimisers
    meet a slope and no cliff, :math:`s` rises from 0 at the level to 1 three tenths of
    the way, in :math:`\log P`, from there to certainty. Unlike
    `FeasibilityWeighted`, no promise buys a trial that is likely to fail. The
    probability is the model's: it holds as far as the model does, and is not that of
    the whole run.

    Pending points are passed on; their own validity is not weighed.

    Args:
        acquisition: Any, of any model.
        feasibility_model: A model with `Validity`, for example
            ``EPPreferenceGP(X, feedback=[Validity(indices, valid)])``.
        level: The least probability of a valid trial, in (0, 1).

    Raises:
        ValueError: The level is no probability between 0 and 1.
        UnsupportedFeedbackError: The model knows nothing of validity.
    """

    @checked_arguments
    def __init__(
        self,
        acquisition: AcquisitionFunction,
        feasibility_model: PreferenceGP,
        level: float = 0.9,
    ) -> None:
        super().__init__(acquisition)
        if not 0.0 < level < 1.0:
            raise ValueError(
                f"level is {level}; give the least probability of a valid trial, "
                "between 0 and 1, such as 0.9."
            )
        self.feasibility_model = feasibility_model
        self.level = level

    @takes_points
    @t_batch_mode_transform()  # type: ignore[arg-type]
    def forward(self, X: Tensor) -> Tensor:
        """The constrained value.

        Args:
            X: ``batch_shape x q x d``.

        Returns:
            ``batch_shape``, broadcast with the batches of both models; positive where
            the constraint holds with something to spare.
        """
        log_valid = log_validity_probability(self.feasibility_model, X).amin(-1)
        margin = log_valid - math.log(self.level)
        value = self.acquisition(X)
        # value + sqrt(1 + value^2), without cancellation where value is negative.
        worth = torch.asinh(value).exp()
        rise = (margin / (_SLOPE * -math.log(self.level))).clamp(0.0, 1.0)
        return torch.where(margin >= 0, worth * rise * (2 - rise), margin)
