"""Constraints of parameters whose text is parsed once, however often Ax copies them."""

from __future__ import annotations

from functools import lru_cache

from ax.core import parameter_constraint
from ax.utils.common.sympy import extract_coefficient_dict_from_inequality
from sympy import Symbol

from botorch_pref.ax.storage.stored_expressions import loads_expressions

_NAME = extract_coefficient_dict_from_inequality.__name__


@lru_cache(maxsize=1024)
def _coefficients(inequality: str, loads: bool) -> dict[Symbol, float]:
    # What is loaded is refused where what a user writes is taken: not the same answer.
    return extract_coefficient_dict_from_inequality(inequality)


def _parsed(inequality_str: str) -> dict[Symbol, float]:
    """Ax's function: the coefficients of what is at most zero."""
    return dict(_coefficients(inequality_str, loads_expressions()))


def parse_constraints_once() -> None:
    """Keeps the coefficients of every text that Ax has had parsed.

    Ax copies a search space about thirty times a question, and hands the text of each
    constraint to SymPy in each copy, which takes milliseconds.
    """
    setattr(parameter_constraint, _NAME, _parsed)
