"""Acquisition functions of trials that may fail: weighted, or kept to likely ones."""

from __future__ import annotations

import math
from abc import abstractmethod
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

from botorch_pref.acquisition.duels import takes_points
from botorch_pref.acquisition.exploring_rule import DuelingEIIG, WrappedAcquisition
from botorch_pref.acquisition.registration import utility_model
from botorch_pref.models import PreferenceGP, log_validity_probability
from botorch_pref.numerics.argument_checks import checked_arguments


class _ValidityAcquisition(WrappedAcquisition):
    """Acquisition function that knows how probable it is that trials are valid."""

    def __init__(
        self, acquisition: AcquisitionFunction, feasibility_model: PreferenceGP
    ) -> None:
        super().__init__(acquisition)
        self.feasibility_model = feasibility_model

    @abstractmethod
    def _value(self, X: Tensor, log_valid: Tensor) -> Tensor:
        """Values points of log probabilities ``batch_shape x q`` to be valid."""

    @takes_points
    @t_batch_mode_transform()  # type: ignore[arg-type]
    def forward(self, X: Tensor) -> Tensor:
        """Values points that may fail, ``batch_shape x q x d``, see `_value`.

        Batches of both models broadcast to the result, ``batch_shape``.
        """
        return self._value(X, log_validity_probability(self.feasibility_model, X))


class FeasibilityWeighted(_ValidityAcquisition):
    r"""The expected value of trials that may fail, with a model of its own for that.

    Where trials fail for reasons that have nothing to do with taste, validity has a
    utility of its own, of the ``feasibility_model``. With :math:`P` the probability
    that all ``q`` points are valid, taken as independent,

    - an acquisition function :math:`\log \beta` in log space (BoTorch's ``Log...``)
      becomes :math:`\log \beta + \log P`, the logarithm of :math:`P \beta`;
    - one that has a method ``feasible_value(X, log_valid)`` becomes its result,
      ``batch_shape``, for the points and :math:`\log P`, such as
      :meth:`.DuelingEIIG.feasible_value`;
    - any other, :math:`\alpha`, becomes :math:`\alpha_0 + g - (1 - P) |g|, \; g =
      \alpha - \alpha_0`: where :math:`\alpha \ge \alpha_0` the expected value :math:`P
      \alpha + (1 - P) \alpha_0` of a trial whose value is :math:`\alpha_0` if it fails;
      below, where that would reward failing, :math:`(2 - P) g` penalises it.

    All of ours are continuous, never decrease in :math:`P` nor in :math:`\alpha` at a
    given :math:`P` (for EIIG: in either of its terms), and do not change the
    acquisition function where :math:`P = 1`. Of `DuelingExploringEIIG` the function
    that was drawn is weighted. The validity of pending points, which are passed on, is
    not weighed.

    Args:
        acquisition: Any, of any model.
        feasibility_model: A model with `Validity`, for example ``EPPreferenceGP(X,
            feedback=[Validity(indices, valid)])``.
        failure_value: :math:`\alpha_0`, the value of a failed trial on the scale of
            ``acquisition``. 0 is right for improvements and for information: all
            dueling functions with a reference point, `DuelingBALD` and `DuelingKG`
            without. Functions whose zero means nothing, such as `DuelingEUBO` without a
            reference, need another one, such as the posterior mean of the utility at
            the incumbent.

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
        """Refuses a failure value for functions that say what failures cost."""
        super().__init__(acquisition, feasibility_model)
        if failure_value != 0 and (
            acquisition._log or self._feasible_value is not None
        ):
            raise ValueError(
                f"failure_value is {failure_value}, but {type(acquisition).__name__} "
                "counts in logarithms of probabilities or improvements, or says "
                "itself what a failure is worth; leave it out."
            )
        self.failure_value = failure_value

    @property
    def _feasible_value(self) -> Callable[[Tensor, Tensor], Tensor] | None:
        """`feasible_value` of the acquisition function; None where it has none."""
        return getattr(self.acquisition, "feasible_value", None)

    def _value(self, X: Tensor, log_valid: Tensor) -> Tensor:
        """Weighs values by the probability that all options are valid.

        ``log_valid`` is of each option, ``batch_shape x q``.
        """
        log_valid = log_valid.sum(-1)
        if self._feasible_value is not None:
            return self._feasible_value(X, log_valid)
        value = self.acquisition(X)
        if self.acquisition._log:
            return value + log_valid
        return failing_value(value, log_valid, self.failure_value)


def failing_value(value: Tensor, log_valid: Tensor, failure_value: float) -> Tensor:
    """Computes the value of a trial that may fail, at most that of one that cannot.

    It is ``f + g - (1 - P) |g|`` with ``g = value - f``, the ``failure_value`` ``f``
    and the probability ``P`` of a valid trial, whose logarithm is ``log_valid``: all
    shapes broadcast.
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
    """Makes keywords of `FeasibilityWeighted`; options are of the class it weights."""
    construct = get_acqf_input_constructor(acquisition_class)
    arguments = construct(model=utility_model(model), **(acquisition_options or {}))
    return {
        "acquisition": acquisition_class(**arguments),
        "feasibility_model": feasibility_model,
        "failure_value": failure_value,
    }


_SLOPE = 0.3


class ChanceConstrained(_ValidityAcquisition):
    r"""The value of points that are valid with at least a given probability.

    With :math:`P` the least probability among the ``q`` points that the point is valid,

    .. math:: \Big(\alpha(X) + \sqrt{1 + \alpha(X)^2}\Big)\, s(P)
        \;\; \text{if } P \ge level, \qquad \log P - \log level \;\; \text{else},

    which orders points that satisfy the chance constraint as :math:`\alpha` does, puts
    each of them above all others, and leads the others towards it. So that optimisers
    meet a slope and no cliff, :math:`s` rises from 0 at the level to 1 three tenths of
    the way, in :math:`\log P`, from there to certainty. Unlike under
    `FeasibilityWeighted`, no promise buys a trial that is likely to fail.

    Pending points are passed on; their validity is not weighed.

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
        """Checks that the level is a probability between 0 and 1."""
        super().__init__(acquisition, feasibility_model)
        if not 0.0 < level < 1.0:
            raise ValueError(
                f"level is {level}; give the least probability of a valid trial, "
                "between 0 and 1, such as 0.9."
            )
        self.level = level

    def _value(self, X: Tensor, log_valid: Tensor) -> Tensor:
        """Orders valid enough points by their values, above all others.

        Others have ``log P - log level``, below 0, with the least probability ``P`` of
        a valid option. ``log_valid`` is of each option, ``batch_shape x q``.
        """
        margin = log_valid.amin(-1) - math.log(self.level)
        value = self.acquisition(X)
        # value + sqrt(1 + value^2), without cancellation where value is negative.
        worth = torch.asinh(value).exp()
        # So that nothing jumps at the level: from 0 there to 1 at three tenths of the
        # way to log P = 0.
        rise = (margin / (_SLOPE * -math.log(self.level))).clamp(0.0, 1.0)
        return torch.where(margin >= 0, worth * rise * (2 - rise), margin)
