"""Any acquisition function, weighted by the probability that the trial is valid."""

from __future__ import annotations

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

from botorch_pref.acquisition.dueling_eiig import DuelingEIIG
from botorch_pref.acquisition.point_arguments import takes_points
from botorch_pref.acquisition.registration.input_constructors import utility_model
from botorch_pref.acquisition.wrappers.wrapped_acquisition import WrappedAcquisition
from botorch_pref.models.predictions.validity_probability import (
    log_validity_probability,
)
from botorch_pref.models.preference_gp import PreferenceGP
from botorch_pref.numerics.argument_ranges import checked_arguments


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
