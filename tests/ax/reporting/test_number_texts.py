"""Numbers of reports as people write them, beside texts that were written by hand."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from botorch_pref.ax.number_texts import (
    cell_text,
    interval_text,
    interval_texts,
    number_text,
    share_text,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (120.0, "120"),
        (1234.5, "1234"),
        (99.6, "99.6"),
        (9.96, "9.96"),
        (-0.000085, "-0.000085"),
        (0.5, "0.5"),
        (0.2449, "0.245"),
        (-0.0, "0"),
        (2.5e9, "2500000000"),
        (1.24e-7, "1.24e-07"),
    ],
)
def test_numbers_are_written_as_people_do(value: float, text: str) -> None:
    assert number_text(value) == text, f"{value} is to be written as {text}"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2.9, "2.90"),
        (123.0, "123.00"),
        (-0.2414, "-0.24"),
        (0.0051, "0.01"),
        (-0.0031, "-0.003"),
        (0.00096, "0.001"),
        (0.0, "0"),
        (-2.3e-18, "0"),
        (math.nan, ""),
    ],
)
def test_a_share_has_two_decimals_and_is_0_only_where_it_is(
    value: float, text: str
) -> None:
    assert share_text(value) == text, f"{value} is to be written as {text}"


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ((-0.2414, -0.6778, -0.000089), "-0.24 (-0.68 to -0.00009)"),
        ((0.49, 0.0031, 0.9), "0.49 (0.003 to 0.90)"),
        ((-0.31, -1.132, 0.0329), "-0.31 (-1.13 to 0.03)"),
        ((0.0, -0.00123, 0.00456), "0.0000 (-0.0012 to 0.0046)"),
        ((12.0, -150.0, 300.5), "12.00 (-150.00 to 300.50)"),
        ((-2.3e-18, -4.0, 4.0), "0.00 (-4.00 to 4.00)"),
        ((-0.5, -1.0, 2.3e-18), "-0.50 (-1.00 to 0.00)"),
        ((0.0, 0.0, 0.0), ""),
        ((math.nan, math.nan, math.nan), ""),
    ],
)
def test_a_share_and_its_interval_have_the_same_decimals(
    values: tuple[float, float, float], text: str
) -> None:
    assert interval_text(*values) == text, f"{values} are to be written as {text}"


@given(st.floats(1e-8, 10), st.floats(1e-6, 10), st.booleans())
def test_an_interval_that_excludes_0_does_so_in_print(
    near: float, width: float, is_below: bool
) -> None:
    """Read back, both ends are on the side of 0 where they are."""
    sign = -1 if is_below else 1
    ends = sorted((sign * near, sign * (near + width)))
    _, lower, upper = interval_texts(sum(ends) / 2, *ends)
    product = float(lower) * float(upper)
    assert product > 0, f"{ends} are written as {lower} to {upper}"


def test_cells_have_words_for_what_is_no_number() -> None:
    values = [True, False, math.nan, math.inf, 3, 0.12345, "x|y", None]
    texts = ["yes", "no", "", "", "3", "0.123", "x|y", "None"]
    assert [*map(cell_text, values)] == texts, "a value is written otherwise"
