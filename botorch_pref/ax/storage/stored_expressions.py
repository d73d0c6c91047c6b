"""Guard that keeps stored expressions from being executed."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from threading import local
from typing import Any

from ax.core.derived_metric import ExpressionDerivedMetric
from ax.core.parameter import DerivedParameter, ParameterType
from ax.utils.common.sympy import (
    extract_coefficient_dict_from_equality,
    extract_coefficient_dict_from_inequality,
    parse_objective_expression,
)
from sympy.parsing import sympy_parser

from botorch_pref.errors import StorageError

_ARITHMETIC = (
    ast.Expression,
    ast.Name,
    ast.Load,
    ast.Constant,
    ast.Tuple,
    ast.UnaryOp,
    ast.UAdd,
    ast.USub,
    ast.BinOp,
    ast.Add,
    ast.Sub,
    ast.Mult,
    ast.Div,
    ast.Compare,
    ast.cmpop,
)
"""No powers, which need not end, and nothing that could call."""


class _State(local):
    """The state of one thread: whether it loads, and whether a text was checked."""

    loads = False
    checked = False


_state = _State()
_parse, _evaluate = sympy_parser.parse_expr, sympy_parser.eval_expr


@contextmanager
def expressions_are_data() -> Iterator[None]:
    """Refuses expressions that are no arithmetic, while this thread loads.

    Ax stores objectives, constraints and derived parameters as text, and hands it to
    SymPy, which evaluates it as Python. What Ax makes of them are sums, products and
    comparisons of names and numbers. The guard stands where SymPy evaluates, whoever
    asks it to; other threads do not pass it.

    Raises:
        StorageError: There is something else, or a version of Ax or SymPy that finds
            a way around the guard.
    """
    with _loading():
        _check_guard()
        yield


@contextmanager
def _loading() -> Iterator[None]:
    before, _state.loads = _state.loads, True
    try:
        yield
    finally:
        _state.loads = before


def loads_expressions() -> bool:
    """Whether this thread loads, so that nothing but arithmetic is evaluated."""
    return _state.loads


def _is_arithmetic(expression: object) -> bool:
    try:
        tree = ast.parse(str(expression).strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return all(
        isinstance(node, _ARITHMETIC)
        and not (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))
        for node in ast.walk(tree)
    )


def _checked_parse(expression: Any, *args: Any, **kwargs: Any) -> Any:
    """SymPy's function, which evaluates only arithmetic while a thread loads."""
    if not _state.loads:
        return _parse(expression, *args, **kwargs)
    if not _is_arithmetic(expression):
        raise _Refused(
            f"The stored expression {expression!r} is no sum or product of names "
            "and numbers; what is loaded is never executed. It was changed or damaged."
        )
    before, _state.checked = _state.checked, True
    try:
        return _parse(expression, *args, **kwargs)
    finally:
        _state.checked = before


def _checked_evaluate(*args: Any, **kwargs: Any) -> Any:
    """SymPy's function, which takes only what `_checked_parse` hands it."""
    if _state.loads and not _state.checked:
        raise _Refused(
            "A stored expression came to SymPy in a way that this package does not "
            f"know, from Ax {version('ax-platform')}; it was not executed. Use Ax 1.3."
        )
    return _evaluate(*args, **kwargs)


class _Refused(StorageError):
    """An expression that was refused before it was evaluated."""


# Once, and for all threads: what is patched and put back leaves gaps to others.
sympy_parser.parse_expr = _checked_parse
sympy_parser.eval_expr = _checked_evaluate

_CALL = "abs((x))"
"""What is harmless and no arithmetic."""

_WAYS: tuple[Callable[[], object], ...] = (
    lambda: parse_objective_expression(_CALL),
    lambda: extract_coefficient_dict_from_inequality(f"{_CALL} <= 1"),
    lambda: extract_coefficient_dict_from_equality(f"{_CALL} == 1"),
    lambda: DerivedParameter("y", ParameterType.FLOAT, _CALL),
    lambda: ExpressionDerivedMetric("y", ["x"], _CALL),
)
"""The ways in which Ax has texts evaluated."""


@cache
def _check_guard() -> None:
    """Checks once that what Ax evaluates passes the guard.

    Raises:
        StorageError: It does not, so that nothing can be loaded.
    """
    for way in _WAYS:
        try:
            way()
        except Exception as error:
            if isinstance(error, _Refused) or isinstance(error.__cause__, _Refused):
                continue
        raise StorageError(
            f"Ax {version('ax-platform')} evaluates stored expressions in a way that "
            "this package does not know and could not stop; nothing was loaded. Use Ax "
            "1.3."
        )
