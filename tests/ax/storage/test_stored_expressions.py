"""Expressions that Ax hands to SymPy, which evaluates them."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import ax.utils.common.sympy as ax_sympy
import pytest
import sympy
from sympy.parsing import sympy_parser

from botorch_pref.ax.storage import stored_expressions
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
    with expressions_are_data():
        monkeypatch.setattr(sympy_parser, "stringify_expr", evaluated)
        with pytest.raises(StorageError, match="never executed"):
            ax_sympy.sympify(expression)
    assert capsys.readouterr().out == ""


def evaluated(*_args: object) -> None:
    pytest.fail("evaluated")


def test_no_way_into_sympy_leads_around_the_guard() -> None:
    code = "print((1))"
    with expressions_are_data():
        for way in (
            lambda: sympy.sympify(code),
            lambda: sympy.S(code),
            lambda: sympy.parse_expr(code),
            lambda: sympy_parser.parse_expr(code),
            lambda: sympy_parser.eval_expr(code, {}, {}),
            # Arithmetic too, where nothing has checked that it is.
            lambda: sympy.parse_expr("1 + 1"),
        ):
            with pytest.raises(StorageError, match="executed"):
                way()
    assert sympy.parse_expr("sqrt(4)") == sympy.sympify("sqrt(4)") == 2


def test_the_guard_is_of_its_thread_alone() -> None:
    """Neither is it lifted where another thread is done, nor in the way of others."""
    loading, done = Event(), Event()

    def load() -> None:
        with expressions_are_data():
            loading.set()
            done.wait()

    with ThreadPoolExecutor() as pool:
        other = pool.submit(load)
        loading.wait()
        assert sympy.sympify("sqrt(4)") == 2
        with expressions_are_data():
            done.set()
            other.result()
            with pytest.raises(StorageError, match="never executed"):
                sympy.sympify("sqrt(4)")


def test_versions_of_ax_that_go_around_the_guard_load_nothing(monkeypatch) -> None:
    # One that has its own way to evaluate a text.
    ways = (*stored_expressions._WAYS, lambda: eval("abs(1)"))
    monkeypatch.setattr(stored_expressions, "_WAYS", ways)
    stored_expressions._check_guard.cache_clear()
    with (
        pytest.raises(StorageError, match=r"Ax .* could not stop; nothing was loaded"),
        expressions_are_data(),
    ):
        pytest.fail("loads")


def test_versions_of_sympy_that_go_around_the_guard_load_nothing(monkeypatch) -> None:
    monkeypatch.setattr(sympy_parser, "parse_expr", stored_expressions._parse)
    monkeypatch.setattr(sympy_parser, "eval_expr", stored_expressions._evaluate)
    stored_expressions._check_guard.cache_clear()
    with (
        pytest.raises(StorageError, match="nothing was loaded"),
        expressions_are_data(),
    ):
        pytest.fail("loads")
