"""Numbers of designs with as many digits as a person can read."""

from __future__ import annotations

from math import floor, log10
from typing import Any, TypeGuard

from ax.adapter.transforms.base import Transform
from ax.core.observation import ObservationFeatures
from ax.core.parameter import ParameterType, RangeParameter
from ax.core.search_space import SearchSpace
from ax.core.types import TParameterization

_DIGITS = 5
"""How many tell apart the numbers of a range: steps of 1/10,000 of it or finer."""


class ReadableNumbers(Transform):
    """Numbers rounded to a ten-thousandth of their range, and kept within it.

    Transforms leave 9.999999999999998 where 10 was meant, and nobody can set a dial to
    sixteen digits. On a log scale five digits count. A number stays as it is where
    rounding would leave the constraints.
    """

    no_op_for_experiment_data = True

    def __init__(
        self, search_space: SearchSpace | None = None, *args: Any, **kwargs: Any
    ) -> None:
        super().__init__(search_space, *args, **kwargs)
        assert search_space is not None
        self.search_space = search_space.clone()

    def untransform_observation_features(
        self, observation_features: list[ObservationFeatures]
    ) -> list[ObservationFeatures]:
        """The features with rounded numbers.

        Args:
            observation_features: In the units of the search space; changed in place.
        """
        for features in observation_features:
            features.parameters.update(self._rounded(features.parameters))
        return observation_features

    def _rounded(self, given: TParameterization) -> TParameterization:
        space = self.search_space
        numbers: TParameterization = {
            name: readable(parameter, float(given[name]))  # type: ignore[arg-type]
            for name, parameter in space.parameters.items()
            if name in given and _is_continuous(parameter)
        }
        if space.check_membership(
            {**given, **numbers}, check_all_parameters_present=False
        ):
            return numbers
        constrained = {
            n for c in space.parameter_constraints for n in c.constraint_dict
        }
        return {name: x for name, x in numbers.items() if name not in constrained}


def readable(parameter: RangeParameter, number: float) -> float:
    """A number of a parameter's range with few digits.

    Args:
        parameter: Of floating-point numbers.
        number: In the parameter's unit.
    """
    lower, upper = float(parameter.lower), float(parameter.upper)
    scale = abs(number) if parameter.log_scale else upper - lower
    if scale > 0:
        number = round(number, _DIGITS - 1 - floor(log10(scale)))
    return min(max(number, lower), upper)


def _is_continuous(parameter: object) -> TypeGuard[RangeParameter]:
    return (
        isinstance(parameter, RangeParameter)
        and parameter.parameter_type is ParameterType.FLOAT
        and not parameter.logit_scale
    )
