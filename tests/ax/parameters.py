"""Ax's parameters in a word."""

from collections.abc import Sequence
from typing import Any

from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig


def real(name: str, low: float = 0, high: float = 1, **options: Any):
    return RangeParameterConfig(
        name=name, parameter_type="float", bounds=(low, high), **options
    )


def whole(name: str, low: int, high: int, **options: Any):
    return RangeParameterConfig(
        name=name, parameter_type="int", bounds=(low, high), **options
    )


def choice(name: str, values: Sequence[Any], is_ordered: bool | None = None):
    kind: Any = type(values[0]).__name__
    return ChoiceParameterConfig(
        name=name, parameter_type=kind, values=[*values], is_ordered=is_ordered
    )
