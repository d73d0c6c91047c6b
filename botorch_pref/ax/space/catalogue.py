"""Tables of designs, whose rows are the only options of an experiment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from ax.core.experiment import Experiment
from ax.core.types import TParameterization
from pandas import CategoricalDtype, DataFrame, Index, Series
from pandas.api import types

from botorch_pref.ax.given import finite_number, is_missing, written
from botorch_pref.errors import ExperimentError

PROPERTY = "preference_catalogue"
"""The property of Ax's experiment that holds the table."""

_MOST_CATEGORIES = 1_000


@dataclass(frozen=True)
class Catalogue:
    """Rows of a table, by id: all designs that an experiment with it shows."""

    rows: Mapping[str, TParameterization]

    @classmethod
    def of(cls, experiment: Experiment) -> Catalogue | None:
        """The catalogue of Ax's experiment; None where designs are free."""
        stored = (experiment._properties or {}).get(PROPERTY)
        return None if stored is None else cls.of_property(stored)

    @classmethod
    def of_property(cls, stored: Mapping[str, Any]) -> Catalogue:
        """A catalogue from what `to_property` made."""
        columns = stored["columns"]
        rows = zip(*columns.values(), strict=True)
        designs = (dict(zip(columns, row, strict=True)) for row in rows)
        return cls(dict(zip(stored["ids"], designs, strict=True)))

    def to_property(self) -> dict[str, Any]:
        """The table as it is stored."""
        names = next(iter(self.rows.values()))
        columns = {name: [row[name] for row in self.rows.values()] for name in names}
        return {"ids": [*self.rows], "columns": columns}

    def id_of(self, parameters: Mapping[str, Any]) -> str | None:
        """The id of a design; None of what is no row."""
        wanted = dict(parameters)
        return next((name for name, row in self.rows.items() if row == wanted), None)


def catalogue_parameters(
    table: DataFrame,
) -> tuple[Catalogue, list[RangeParameterConfig | ChoiceParameterConfig]]:
    """A catalogue, of a row each design, and Ax's parameters of its columns.

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
    if not all(isinstance(name, str) and name for name in names):
        raise ExperimentError(f"The catalogue has the columns {names}; name each.")
    if len(set(names)) < len(names):
        raise ExperimentError(f"The catalogue has columns of one name among {names}.")
    parameters = [_parameter(table[name], ids) for name in names]
    columns = {name: _python_values(table[name]) for name in names}
    seen: dict[tuple[object, ...], str] = {}
    for name, row in zip(ids, zip(*columns.values(), strict=True), strict=True):
        twin = seen.setdefault(row, name)
        if twin != name:
            raise ExperimentError(
                f"The rows {twin!r} and {name!r} of the catalogue are the same in "
                "every column; leave out one, or add a column in which they differ."
            )
    return Catalogue.of_property({"ids": ids, "columns": columns}), parameters


def _ids(index: Index) -> list[str]:
    if index.nlevels > 1 or not index.is_unique or index.hasnans:
        raise ExperimentError(
            "The index of the catalogue must have one level and a different id for "
            "each row; set_index makes one."
        )
    ids = [str(name) for name in index]
    if len(set(ids)) < len(ids):
        raise ExperimentError(
            "Some ids of the catalogue are the same as texts; give others."
        )
    return ids


def _parameter(
    column: Series, ids: list[str]
) -> RangeParameterConfig | ChoiceParameterConfig:
    """Ax's parameter of a column."""
    name = str(column.name)
    for row, value in zip(ids, column.tolist(), strict=True):
        if is_missing(value):
            raise ExperimentError(
                f"The catalogue has no {name!r} of {row!r}; fill it in, or drop the "
                "row."
            )
    values = _python_values(column)
    kinds = {type(value) for value in values}
    if len(kinds) != 1 or not kinds <= {str, int, float, bool}:
        raise ExperimentError(
            f"The column {name!r} of the catalogue holds {column.dtype}; give numbers, "
            "texts or categories, and leave out what is no feature."
        )
    kind: Any = kinds.pop().__name__
    for row, value in zip(ids, values, strict=True):
        if kind in ("int", "float") and finite_number(value) is None:
            raise ExperimentError(
                f"The column {name!r} of the catalogue has {written(value)} for "
                f"{row!r}; give finite numbers."
            )
    low, high = min(values), max(values)
    number = types.is_numeric_dtype(column) and not types.is_bool_dtype(column)
    if number and low < high:
        return RangeParameterConfig(name=name, parameter_type=kind, bounds=(low, high))
    used, ordered = set(values), False
    levels = sorted(used)
    if isinstance(column.dtype, CategoricalDtype):
        levels = [v for v in column.dtype.categories.tolist() if v in used]
        ordered = bool(column.dtype.ordered)
    if len(levels) > _MOST_CATEGORIES:
        raise ExperimentError(
            f"The column {name!r} of the catalogue has {len(levels)} different texts, "
            f"of {_MOST_CATEGORIES} at most; leave it out, or make features of it."
        )
    return ChoiceParameterConfig(
        name=name,
        parameter_type=kind,
        values=levels,
        # Ax takes two values to be in order, always.
        is_ordered=ordered or len(levels) == 2,
    )


def _python_values(column: Series) -> list[Any]:
    """The values as Python has them, numbers of a column all of one type."""
    values = column.tolist()
    return [float(v) for v in values] if types.is_float_dtype(column) else values
