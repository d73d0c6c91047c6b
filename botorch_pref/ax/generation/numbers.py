"""Ax's transforms of designs: rows of a table, whole numbers, digits to be read."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from functools import partial
from itertools import combinations, product
from math import ceil, floor
from typing import Any

from ax.adapter.registry import Cont_X_trans
from ax.adapter.transforms.base import Transform
from ax.adapter.transforms.choice_encode import OrderedChoiceToIntegerRange
from ax.adapter.transforms.int_to_float import IntToFloat
from ax.adapter.transforms.unit_x import UnitX
from ax.core.observation import ObservationFeatures
from ax.core.parameter import RangeParameter
from ax.core.parameter_constraint import ParameterConstraint
from ax.core.search_space import SearchSpace
from ax.core.types import TParameterization

from botorch_pref.ax.space.constraints import LinearConstraint, constrained_names
from botorch_pref.ax.space.differences import shares
from botorch_pref.ax.space.lines import has_digits, readable_neighbours
from botorch_pref.ax.space.options import Catalogue
from botorch_pref.errors import ExperimentError


class _ShownDesigns(Transform):
    """Transform of designs on their way back to a person, one by one."""

    def __init__(
        self, search_space: SearchSpace | None = None, *args: Any, **kwargs: Any
    ) -> None:
        """Keeps the search space, by which values are rounded, and catalogue rows."""
        super().__init__(search_space, *args, **kwargs)
        assert search_space is not None
        # As it is before this transform: transforms change a space in place.
        self.search_space = search_space.clone()
        catalogue = (
            None
            if self.adapter is None
            else Catalogue.from_experiment(self.adapter._experiment)
        )
        self._rows = [] if catalogue is None else [*catalogue.rows.values()]

    def untransform_observation_features(
        self, observation_features: list[ObservationFeatures]
    ) -> list[ObservationFeatures]:
        """Gives designs the values that a person is shown, in place as Ax does."""
        for features in observation_features:
            features.parameters.update(self._shown_values(features.parameters))
        return observation_features

    @abstractmethod
    def _shown_values(self, design: TParameterization) -> Mapping[str, Any]:
        """Returns values that change, by the names of their parameters."""


class CatalogueRows(_ShownDesigns):
    """Designs replaced by the row of the catalogue that is nearest by `shares`."""

    no_op_for_experiment_data = True

    def __init__(
        self, search_space: SearchSpace | None = None, *args: Any, **kwargs: Any
    ) -> None:
        super().__init__(search_space, *args, **kwargs)
        self._shares = shares(self.search_space, self._rows) if self._rows else None

    def _shown_values(self, design: TParameterization) -> Mapping[str, Any]:
        """Returns the catalogue row nearest to a complete design, else nothing."""
        if self._shares is None or self.search_space.parameters.keys() - design.keys():
            return {}
        off = self._shares - shares(self.search_space, [design])
        return self._rows[int(off.square().sum(-1).argmin())]


_MOST_TURNED = 2
"""Numbers that are rounded away from the nearest, at most: of three shares that fill
the whole one is enough, and of six two."""


class ReadableNumbers(_ShownDesigns):
    """Numbers rounded to the digits that people are shown, and kept within the range.

    See `num_decimals`. Where the nearest would leave the constraints, one or two are
    the next on the other side; numbers in constraints stay as they are where these do
    not hold either. So do those of a catalogue, whose rows may differ by less.
    """

    no_op_for_experiment_data = True

    def _shown_values(self, design: TParameterization) -> Mapping[str, Any]:
        """Rounds numbers to readable ones, those in constraints if these still hold."""
        space = self.search_space
        # Rows of a catalogue may differ by less than rounding.
        if self._rows:
            return {}
        neighbours = {
            name: readable_neighbours(parameter, float(design[name]))  # type: ignore[arg-type]
            for name, parameter in space.parameters.items()
            if name in design and has_digits(parameter)
        }
        nearest = {name: near for name, (near, _) in neighbours.items()}
        constrained = [name for name in nearest if name in constrained_names(space)]
        for number in range(_MOST_TURNED + 1):
            rounded = [
                nearest | {name: neighbours[name][1] for name in turned}
                for turned in combinations(constrained, number)
            ]
            allowed = [
                numbers
                for numbers in rounded
                if _is_member(space, {**design, **numbers})
            ]
            if allowed:
                return min(allowed, key=partial(_moved, space, design))
        return {name: x for name, x in nearest.items() if name not in constrained}


def _moved(
    space: SearchSpace, design: Mapping[str, Any], numbers: Mapping[str, float]
) -> float:
    """Returns how far numbers are from those of a design, in ranges of theirs."""
    moves = [abs(number - float(design[name])) for name, number in numbers.items()]
    ranges: list[Any] = [space.parameters[name] for name in numbers]
    return sum(
        move / float(parameter.upper - parameter.lower)
        for move, parameter in zip(moves, ranges, strict=True)
    )


def _is_member(space: SearchSpace, design: TParameterization) -> bool:
    return space.check_membership(design, check_all_parameters_present=False)


class NearestIntegers(_ShownDesigns, IntToFloat):
    """Integers relaxed to numbers, and rounded to the nearest that constraints allow.

    Under constraints Ax's own transform rounds at random, in the order of a set.
    """

    def _shown_values(self, design: TParameterization) -> Mapping[str, int]:
        """Rounds numbers to the nearest whole ones that constraints allow.

        Distances add up, and of equal ones the smaller numbers count. Where constraints
        allow no rounding, all are rounded anyway: `next_options` refuses the design.
        """
        numbers = {
            name: float(design[name])  # type: ignore[arg-type]
            for name in self.search_space.parameters
            if name in self.transform_parameters and name in design
        }
        nearest = {name: round(number) for name, number in numbers.items()}
        constrained = [n for n in nearest if n in constrained_names(self.search_space)]
        roundings = product(
            *({floor(numbers[n]), ceil(numbers[n])} for n in constrained)
        )

        def distance(rounding: tuple[int, ...]) -> tuple[float, tuple[int, ...]]:
            """Sums how far numbers are rounded; the rounding itself decides ties."""
            off = (
                abs(w - numbers[n]) for n, w in zip(constrained, rounding, strict=True)
            )
            return sum(off), rounding

        for rounding in sorted(roundings, key=distance):
            integers = nearest | dict(zip(constrained, rounding, strict=True))
            if _is_member(self.search_space, {**design, **integers}):
                return integers
        return nearest


class WholeNumbers(NearestIntegers):
    """Integers relaxed to the numbers between the smallest and the largest.

    Ax adds a half at both ends. Where an optimum is there, rounding one way breaks a
    constraint and rounding the other way leaves the range.
    """

    def transform_search_space(self, search_space: SearchSpace) -> SearchSpace:
        """Returns the search space with numbers for integers, of the same bounds."""
        relaxed = super().transform_search_space(search_space)
        for name in self.transform_parameters:
            integer, number = search_space.parameters[name], relaxed.parameters[name]
            assert isinstance(integer, RangeParameter)
            assert isinstance(number, RangeParameter)
            number.update_range(lower=float(integer.lower), upper=float(integer.upper))
        return relaxed


class _MovedConstraints(Transform):
    """Transform of numbers that takes constraints along, without texts for SymPy."""

    def transform_search_space(self, search_space: SearchSpace) -> SearchSpace:
        """Returns the search space with other numbers, and constraints of these."""
        constraints = [self._transformed(c) for c in search_space.parameter_constraints]
        # Ax would leave them as they are, or have texts of them parsed.
        search_space.set_parameter_constraints([])
        search_space = super().transform_search_space(search_space)
        search_space.set_parameter_constraints(constraints)
        return search_space

    def _transformed(self, constraint: ParameterConstraint) -> ParameterConstraint:
        r"""Translates :math:`w^\top x \le b` to the transformed parameters ``z``.

        With ``x = start + unit * z`` of each, weights are :math:`w \, unit`, and the
        bound is :math:`b - \sum w \, start`.
        """
        if constraint.is_equality:
            raise ExperimentError(
                f"{constraint} is an equality; leave out one of its parameters."
            )
        weights, bound = {}, float(constraint.bound)
        for name, weight in constraint.constraint_dict.items():
            start, unit = self._start_and_unit(name, weight)
            weights[name] = weight * unit
            bound -= weight * start
        return LinearConstraint(weights, bound)

    @abstractmethod
    def _start_and_unit(self, name: str, weight: float) -> tuple[float, float]:
        """Finds the value where a new number is 0, and what 1 adds to it."""


class PlacesInOrder(_MovedConstraints, OrderedChoiceToIntegerRange):
    """Ordered values to their places. Ax leaves constraints as they are, of values.

    Where steps between values are not even, the constraint of places allows all designs
    that are allowed, and perhaps more.
    """

    def _start_and_unit(self, name: str, weight: float) -> tuple[float, float]:
        """Finds ``start`` and ``unit``: ``start + unit * place`` is near the value.

        Where steps between values are not even, it is nowhere above the value, or below
        it with a negative weight: the constraint of places allows all designs that the
        one of values allows. What is no ordered choice stays.
        """
        if name not in self.encoded_parameters:
            return 0.0, 1.0
        values: list[Any] = sorted(self.encoded_parameters[name])
        unit = (values[-1] - values[0]) / (len(values) - 1)
        starts = [value - unit * place for place, value in enumerate(values)]
        return (min if weight > 0 else max)(starts), unit


class UnitNumbers(_MovedConstraints, UnitX):
    """Numbers to the unit cube."""

    def _start_and_unit(self, name: str, weight: float) -> tuple[float, float]:
        lower, upper = self.bounds.get(name, (0.0, 1.0))
        return lower, upper - lower


def _transforms(integers: type[Transform]) -> list[type[Transform]]:
    """Lists the transforms of designs to points, Ax's with ours in place of some.

    ``integers`` is the transform of whole numbers: designs that are spread have another
    one than those that the model chooses.
    """
    remove_fixed, *encoders = Cont_X_trans
    ours: dict[type[Transform], type[Transform]] = {
        OrderedChoiceToIntegerRange: PlacesInOrder,
        IntToFloat: integers,
        UnitX: UnitNumbers,
    }
    encoded = (ours.get(t, t) for t in encoders)
    # The last one is undone first: numbers are rounded, then the fixed and derived
    # parameters that Ax removed come back, then a row replaces the complete design.
    return [CatalogueRows, remove_fixed, ReadableNumbers, *encoded]


TO_UNIT_CUBE = _transforms(WholeNumbers)
"""Transforms of parameters: numbers to the unit cube, unordered choices to one-hot."""
TO_EVEN_UNIT_CUBE = _transforms(NearestIntegers)
"""The same for points that are spread: each integer has the same share."""
