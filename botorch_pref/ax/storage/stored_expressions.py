"""Guard that keeps stored expressions from being executed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any

import ax.core.derived_metric as ax_derived_metric
import ax.core.parameter as ax_parameter
import ax.utils.common.sympy as ax_sympy

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


@contextmanager
def expressions_are_data() -> Iterator[None]:
    """Refuses expressions that are no arithmetic, while Ax loads an experiment.

    Ax stores objectives, constraints and derived parameters as text, and hands it to
    SymPy, which evaluates it as Python. What Ax makes of them are sums, products and
    comparisons of names and numbers.

    Raises:
        StorageError: There is something else.
    """
    with ExitStack() as stack:
        for module in (ax_sympy, ax_parameter, ax_derived_metric):
            stack.enter_context(_refusing_all_else(module))
        yield


def _is_arithmetic(expression: str) -> bool:
    try:
        tree = ast.parse(expression.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return all(
        isinstance(node, _ARITHMETIC)
        and not (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))
        for node in ast.walk(tree)
    )


@contextmanager
def _refusing_all_else(module: ModuleType) -> Iterator[None]:
    evaluate = vars(module)["sympify"]

    def checked(expression: object, *args: Any, **kwargs: Any) -> Any:
        if isinstance(expression, str) and not _is_arithmetic(expression):
            raise StorageError(
                f"The stored expression {expression!r} is no sum or product of names "
                "and numbers; what is loaded is never executed. It was changed or "
                "damaged."
            )
        return evaluate(expression, *args, **kwargs)

    vars(module)["sympify"] = checked
    try:
        yield
    finally:
        vars(module)["sympify"] = evaluate
