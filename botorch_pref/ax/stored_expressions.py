"""Expressions in what is loaded, kept from being executed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any

import ax.core.derived_metric as ax_derived_metric
import ax.core.parameter as ax_parameter
import ax.utils.common.sympy as ax_sympy

from botorch_pref.errors import StorageError

_CALL = re.compile(r"""[\w)\]"']\s*\(""")


@contextmanager
def expressions_are_data() -> Iterator[None]:
    """Refuses expressions that call something, while Ax loads an experiment.

    Ax stores objectives, constraints and derived parameters as text, and hands it to
    SymPy, which evaluates it as Python. What it takes itself, sums and products of
    names and numbers, calls nothing.

    Raises:
        StorageError: There is a call.
    """
    with ExitStack() as stack:
        for module in (ax_sympy, ax_parameter, ax_derived_metric):
            stack.enter_context(_refusing_calls(module))
        yield


@contextmanager
def _refusing_calls(module: ModuleType) -> Iterator[None]:
    evaluate = vars(module)["sympify"]

    def checked(expression: object, *args: Any, **kwargs: Any) -> Any:
        if isinstance(expression, str) and _CALL.search(expression):
            raise StorageError(
                f"The stored expression {expression!r} calls something; what is loaded "
                "is never executed. It was changed or damaged."
            )
        return evaluate(expression, *args, **kwargs)

    vars(module)["sympify"] = checked
    try:
        yield
    finally:
        vars(module)["sympify"] = evaluate
