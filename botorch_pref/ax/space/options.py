"""Designs: those of a table, and those that a person chose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from types import MappingProxyType
from typing import Any

from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from ax.core.experiment import Experiment
from ax.core.parameter import (
    ChoiceParameter,
    DerivedParameter,
    FixedParameter,
    Parameter,
    ParameterType,
    RangeParameter,
)
from ax.core.search_space import SearchSpace
from ax.core.types import TParameterization
from ax.exceptions.core import AxError
from botorch.exceptions.warnings import InputDataWarning
from pandas import CategoricalDtype, DataFrame, Index, RangeIndex, Series
from pandas.api import types
from pandas.api.types import is_bool, is_scalar

from botorch_pref.acquisition.exploring_rule import SMALLEST_DIFFERENCE
from botorch_pref.ax.space.constraints import shown_constraint
from botorch_pref.ax.user_values import (
    TEXT,
    argument_error,
    finite_number,
    is_missing,
    is_text,
    look_alike,
    quoted,
)
from botorch_pref.datasets.items import unread_index
from botorch_pref.errors import ExperimentError, warn_caller

PROPERTY = "preference_catalogue"
"""The property of Ax's experiment that holds the table."""

_MOST_CATEGORIES, _MOST_UNIQUE = 1_000, 20
"""Texts of a column; rows whose texts may all differ before that is warned of."""


@dataclass(frozen=True)
class Catalogue:
    """Rows of a table, by id: all designs that an experiment with it shows."""

    rows: Mapping[str, TParameterization]

    @classmethod
    def from_experiment(cls, experiment: Experiment) -> Catalogue | None:
        """Returns the catalogue of Ax's experiment; None where designs are free."""
        stored = (experiment._properties or {}).get(PROPERTY)
        return None if stored is None else cls.from_property(stored)

    @classmethod
    def from_property(cls, stored: Mapping[str, Any]) -> Catalogue:
        """Returns a catalogue from what `to_property` made."""
        columns = stored["columns"]
        rows = zip(*columns.values(), strict=True)
        designs = (dict(zip(columns, row, strict=True)) for row in rows)
        return cls(dict(zip(stored["ids"], designs, strict=True)))

    def to_property(self) -> dict[str, Any]:
        """Returns the table as it is stored."""
        names = next(iter(self.rows.values()))
        columns = {name: [row[name] for row in self.rows.values()] for name in names}
        return {"ids": [*self.rows], "columns": columns}

    def id_of(self, parameters: Mapping[str, Any]) -> str | None:
        """Returns the id of a design; None of what is no row."""
        wanted = dict(parameters)
        return next((name for name, row in self.rows.items() if row == wanted), None)


def catalogue_parameters(
    table: DataFrame,
) -> tuple[Catalogue, list[RangeParameterConfig | ChoiceParameterConfig]]:
    """Returns a catalogue, of a row each design, and Ax's parameters of its columns.

    Numbers have the range of their column, other columns its values; what is the same
    in all rows is fixed. Where there are no columns, the ids are the only parameter.
    """
    if not isinstance(table, DataFrame) or len(table) < 2:
        raise ExperimentError(
            "catalogue must be a DataFrame of two rows or more, the index their ids."
        )
    ids = _ids(table.index)
    if table.shape[1] == 0:
        table = DataFrame({table.index.name or "id": ids})
    names = [*table.columns]
    if warning := unread_index(names):
        raise ExperimentError(f"catalogue: {warning}")
    if not all(isinstance(name, str) and name for name in names):
        raise ExperimentError(f"The catalogue has the columns {names}; name each.")
    if len(set(names)) < len(names):
        raise ExperimentError(f"The catalogue has columns of one name among {names}.")
    columns = {name: _python_values(table[name], ids) for name in names}
    parameters = [_parameter(table[name], columns[name]) for name in names]
    first_names: dict[tuple[object, ...], str] = {}
    for name, row in zip(ids, zip(*columns.values(), strict=True), strict=True):
        twin = first_names.setdefault(row, name)
        if twin != name:
            raise ExperimentError(
                f"The rows {twin!r} and {name!r} of the catalogue are the same in "
                "every column; leave out one, or add a column in which they differ."
            )
    if len(names) > 1:
        _warn_of_ids(parameters, columns, type(table.index) is RangeIndex)
    _warn_of_outliers(parameters, columns)
    return Catalogue.from_property({"ids": ids, "columns": columns}), parameters


def _warn_of_ids(
    parameters: Sequence[RangeParameterConfig | ChoiceParameterConfig],
    columns: Mapping[str, Sequence[Any]],
    numbered: bool,
) -> None:
    """Warns of columns of ids or titles, by which all rows are equally unlike.

    Such a column has another text in each of more than 20 rows. Where the index only
    numbers the rows, ``numbered``, three rows are enough, and a first column that
    counts the rows from 0 or 1 is one of ids, too.
    """
    for place, parameter in enumerate(parameters):
        values = [*columns[parameter.name]]
        if isinstance(parameter, ChoiceParameterConfig):
            fewest = 2 if numbered else _MOST_UNIQUE
            is_id = len(parameter.values) == len(values) > fewest
            is_id &= not parameter.is_ordered
        else:
            first = numbered and place == 0 and isinstance(values[0], int)
            is_id = first and values[0] in (0, 1)
            is_id &= values == [values[0] + i for i in range(len(values))]
        if is_id:
            warn_caller(
                f"The column {parameter.name!r} of the catalogue has another value in "
                "each row: the model learns less of a row by others, and asks slowly. "
                "If it names the rows, make it the index by "
                f"set_index({parameter.name!r}); else leave it out.",
                InputDataWarning,
            )


_MOST_NEAR = 10
"""Different values in a hundredth of a range, before that is warned of."""


def _warn_of_outliers(
    parameters: Sequence[RangeParameterConfig | ChoiceParameterConfig],
    columns: Mapping[str, Sequence[Any]],
) -> None:
    """Warns of values so far from all others that a model cannot tell these apart.

    The middle half of such a column lies within a hundredth of its range, and has more
    than ten different values.
    """
    for parameter in parameters:
        if not isinstance(parameter, RangeParameterConfig):
            continue
        values = Series(columns[parameter.name], dtype=float)
        lower, upper = values.quantile(0.25), values.quantile(0.75)
        near = values[values.between(lower, upper)].nunique()
        share = (upper - lower) / (values.max() - values.min())
        if share < SMALLEST_DIFFERENCE and near > _MOST_NEAR:
            warn_caller(
                f"Half of the values of the catalogue's column {parameter.name!r} lie "
                f"within {100 * share:.1g} % of its range. Beside those far away the "
                "model takes them for the same: give the column's logarithm or rank.",
                InputDataWarning,
            )


def _ids(index: Index) -> list[str]:
    """Returns the ids of a catalogue as texts, which files can keep and people tell."""
    if index.nlevels > 1 or not index.is_unique or index.hasnans:
        raise ExperimentError(
            "The index of the catalogue must have one level and a different id for "
            "each row; set_index makes one."
        )
    ids = [str(name) for name in index]
    if len(set(ids)) < len(ids):
        twin = ids[Index(ids).duplicated().argmax()]
        raise ExperimentError(
            f"Some ids of the catalogue are the same as texts, such as {twin!r}; give "
            "others."
        )
    for name in ids:
        if not is_text(name):
            raise argument_error(
                "The index of the catalogue", name, f"ids, each {TEXT}"
            )
    if pair := look_alike(ids):
        raise ExperimentError(
            f"The ids {pair[0]} and {pair[1]} of the catalogue look the same; write "
            "one of them otherwise."
        )
    return ids


def _python_values(column: Series, ids: list[str]) -> list[Any]:
    """Returns the values of a catalogue's column as Python has them, all of one type.

    Raises:
        ExperimentError: One is missing or not finite, or types differ.
    """
    values, name = column.tolist(), column.name
    if types.is_float_dtype(column):
        values = [value if is_missing(value) else float(value) for value in values]
    for row, value in zip(ids, values, strict=True):
        if is_missing(value):
            problem = f"The catalogue has no {name!r} of {row!r}"
            raise ExperimentError(f"{problem}; fill it in, or drop the row.")
    kinds = {type(value) for value in values}
    if len(kinds) != 1 or not kinds <= {str, int, float, bool}:
        raise ExperimentError(
            f"The column {name!r} of the catalogue holds {column.dtype}; give numbers, "
            "texts or categories, and leave out what is no feature."
        )
    for row, value in zip(ids, values, strict=True):
        if kinds <= {int, float} and finite_number(value) is None:
            raise ExperimentError(
                f"The column {name!r} of the catalogue has {quoted(value)} for "
                f"{row!r}; give finite numbers."
            )
    return values


def _parameter(
    column: Series, values: list[Any]
) -> RangeParameterConfig | ChoiceParameterConfig:
    """Returns Ax's parameter of a catalogue's column, whose values are of one type.

    Numbers that differ make a range. Others make a choice of the values that there are,
    in order where they are ordered categories or two.
    """
    name, kind = str(column.name), type(values[0])
    low, high = min(values), max(values)
    shared: dict[str, Any] = {"name": name, "parameter_type": kind.__name__}
    is_category = isinstance(column.dtype, CategoricalDtype)
    if kind in (int, float) and not is_category and low < high:
        return RangeParameterConfig(**shared, bounds=(low, high))
    used, ordered = set(values), False
    levels = sorted(used)
    if is_category:
        levels = [v for v in column.dtype.categories.tolist() if v in used]
        ordered = bool(column.dtype.ordered)
    if len(levels) > _MOST_CATEGORIES:
        raise ExperimentError(
            f"The column {name!r} of the catalogue has {len(levels)} different texts, "
            f"of {_MOST_CATEGORIES} at most; leave it out, or make features of it."
        )
    # Ax takes two values to be in order, always.
    ordered = ordered or len(levels) == 2
    return ChoiceParameterConfig(**shared, values=levels, is_ordered=ordered)


def number_range(parameter: Parameter) -> tuple[float, float] | None:
    """Returns bounds of numbers, also of those in steps; None of what has no order."""
    if isinstance(parameter, RangeParameter):
        return parameter.lower, parameter.upper
    if not isinstance(parameter, ChoiceParameter) or not parameter.is_ordered:
        return None
    numeric = parameter.parameter_type in (ParameterType.INT, ParameterType.FLOAT)
    values: list[Any] = parameter.values
    return (min(values), max(values)) if numeric else None


def own_options(
    space: SearchSpace,
    catalogue: Catalogue | None,
    options: object,
    context: Mapping[str, Any] = MappingProxyType({}),
) -> list[TParameterization]:
    """Returns options that a person chose, as they are and in their order.

    Values of a ``context`` may be left out.
    """
    wanted = "a list of two or more designs, each the values of its parameters by name"
    if isinstance(options, str | Mapping) or not isinstance(options, Sequence):
        raise argument_error("options", options, wanted)
    if len(options) < 2:
        raise ExperimentError(f"options has {len(options)}; give {wanted}.")
    designs = (
        {**context, **option} if context and isinstance(option, Mapping) else option
        for option in options
    )
    return checked_options([own_design(space, catalogue, design) for design in designs])


def checked_options(designs: list[TParameterization]) -> list[TParameterization]:
    """Returns designs of one question, which are different ones."""
    for place, design in enumerate(designs):
        if (first := designs.index(design)) < place:
            raise ExperimentError(
                f"Options {first} and {place} are both {design}; give each design once."
            )
    return designs


def own_design(
    space: SearchSpace, catalogue: Catalogue | None, design_or_id: object
) -> TParameterization:
    """Returns a design that a person chose, with values of the types that Ax has.

    Values are given by the names of parameters, of which fixed and derived ones may be
    left out; of a catalogue the id of a row says the same.
    """
    if catalogue is None or isinstance(design_or_id, Mapping):
        design = _free_design(space, design_or_id)
        if catalogue is not None and catalogue.id_of(design) is None:
            raise ExperimentError(
                f"The design {quoted(design_or_id)} is no row of the catalogue; give "
                "values that are together in one of its rows, or the id of a row."
            )
        return design
    # NaN and what is no single value are no ids.
    is_id = is_scalar(design_or_id) and not is_missing(design_or_id)
    if is_id and isinstance(design_or_id, Real) and not is_bool(design_or_id):
        is_id = finite_number(design_or_id) is not None
    if not is_id or str(design_or_id) not in catalogue.rows:
        raise ExperimentError(f"The catalogue has no row {quoted(design_or_id)}.")
    return dict(catalogue.rows[str(design_or_id)])


def _free_design(space: SearchSpace, values: object) -> TParameterization:
    """Returns the complete design of values that a person gave, in the search space.

    Fixed parameters may be left out, and derived ones, which are computed.

    Raises:
        ExperimentError: The space has no such design; says in which values.
    """
    if not isinstance(values, Mapping):
        raise argument_error("A design", values, "the values of its parameters by name")
    if unknown := [name for name in values if name not in space.parameters]:
        raise ExperimentError(
            f"There is no parameter {', '.join(map(repr, unknown))}; there are "
            f"{', '.join(space.parameters)}."
        )
    design = {k: typed(space.parameters[k], v) for k, v in values.items()}
    if missing := space.tunable_parameters.keys() - design.keys():
        raise ExperimentError(
            f"The design {quoted(dict(values))} has no {', '.join(sorted(missing))}; "
            "give each parameter a value."
        )
    for parameter in space.parameters.values():
        if isinstance(parameter, FixedParameter):
            design.setdefault(parameter.name, parameter.value)
    for name, parameter in space.parameters.items():
        if name not in design and isinstance(parameter, DerivedParameter):
            design[name] = parameter.compute(design)
    complete = {name: design[name] for name in space.parameters}
    try:
        space.check_membership(complete, raise_error=True)
    except (AxError, ValueError) as error:
        # In words of the person and not of Ax, as far as they go.
        faults = [
            f"{name} is {quoted(complete[name])}, and should be {allowed(parameter)}"
            for name, parameter in space.parameters.items()
            if not isinstance(parameter, DerivedParameter)
            and not parameter.validate(complete[name])
        ]
        faults += [
            f"{shown_constraint(limit)} should hold"
            for limit in space.parameter_constraints
            if not limit.check({n: complete[n] for n in limit.constraint_dict})
        ]
        raise ExperimentError(
            f"A design is not in the search space: {'; '.join(faults) or error}"
        ) from error
    return complete


_MOST_NAMED = 10
"""Numbers in steps that a message names one by one."""


def allowed(parameter: Parameter) -> str:
    """Writes the values that a parameter can have for a message, in plain words."""
    if isinstance(parameter, RangeParameter):
        unit = "whole " if parameter.parameter_type is ParameterType.INT else ""
        return f"a {unit}number from {parameter.lower:g} to {parameter.upper:g}"
    if isinstance(parameter, ChoiceParameter):
        values = [*map(quoted, parameter.values)]
        if len(values) > _MOST_NAMED and number_range(parameter) is not None:
            return f"{', '.join(values[:3])} and so on to {values[-1]}"
        return " or ".join(values)
    if isinstance(parameter, FixedParameter):
        return quoted(parameter.value)
    # A derived one follows from the others.
    return "known"


def typed(parameter: Parameter, value: Any) -> Any:
    """Returns a person's value in the type that Ax has for it, within its range or not.

    Raises:
        ExperimentError: It is of another type, such as a fraction for a whole number.
    """
    kind, number = parameter.parameter_type, finite_number(value)
    if kind is ParameterType.FLOAT and number is not None:
        return number
    if kind is ParameterType.INT and number is not None and number.is_integer():
        return int(value)
    if kind is ParameterType.BOOL and is_bool(value):
        return bool(value)
    if kind is ParameterType.STRING and isinstance(value, str):
        return str(value)
    has = "has no value" if value is None else f"is {quoted(value)}"
    raise ExperimentError(
        f"{parameter.name} {has}, and should be {allowed(parameter)}."
    )
