"""Expressions that Ax hands to SymPy, which evaluates them."""

import ax.utils.common.sympy as ax_sympy
import pytest

from botorch_pref.ax.storage.stored_expressions import expressions_are_data
from botorch_pref.errors import StorageError


@pytest.mark.parametrize(
    "expression",
    [
        "pairwise_pref_query",
        "-pairwise_pref_query",
        "a, -b",
        " 2.0*x + 0.5*(y - 1e-3)/4 <= +28",
        "-1.0*x__dot__1 >= -3",
    ],
)
def test_arithmetic_is_taken(expression) -> None:
    with expressions_are_data():
        assert ax_sympy.sympify(expression) == ax_sympy.sympify(expression)


@pytest.mark.parametrize(
    "expression",
    [
        "print(1)",
        "print (1)",
        "print((1))",
        "(print)(1)",
        "x.__class__",
        "x[0]",
        "[x for x in y]",
        "(lambda: x)",
        "f'{x}'",
        "'x'",
        "9**9**9**9",
        "9!!!!",
        "x if y else z",
        "{x}",
        "x +",
        "",
        "(" * 1000,
    ],
)
def test_everything_else_is_refused_before_sympy_sees_it(
    expression, monkeypatch, capsys
) -> None:
    monkeypatch.setattr(ax_sympy, "sympify", lambda *_args: pytest.fail("evaluated"))
    with (
        expressions_are_data(),
        pytest.raises(StorageError, match="never executed"),
    ):
        ax_sympy.sympify(expression)
    assert capsys.readouterr().out == ""
