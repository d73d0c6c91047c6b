"""Constraints that Ax copies, and what they say."""

import ax.utils.common.sympy as ax_sympy
import pytest
from ax.core.parameter_constraint import ParameterConstraint
from ax.exceptions.core import UserInputError

import botorch_pref.ax  # noqa: F401
from botorch_pref.ax.storage.stored_expressions import expressions_are_data
from botorch_pref.errors import StorageError


def test_a_copy_says_the_same_without_sympy(monkeypatch) -> None:
    constraint = ParameterConstraint("2*dose - 0.5*ratio <= 21")
    monkeypatch.setattr(ax_sympy, "sympify", lambda _: pytest.fail("parsed again"))
    copy = constraint.clone()
    assert copy.constraint_dict == {"dose": 2.0, "ratio": -0.5}
    assert copy.bound == 21
    # A copy that is changed is a copy.
    copy.constraint_dict["dose"], copy.bound = 3.0, 1.0
    assert constraint.clone() == constraint != copy


def test_what_cannot_be_is_refused_each_time() -> None:
    for _ in range(2):
        with pytest.raises(UserInputError, match="Only linear"):
            ParameterConstraint("dose * ratio <= 21")


def test_what_a_user_may_write_is_still_refused_when_it_is_loaded() -> None:
    text = "abs(-2) * dose <= 21"
    assert ParameterConstraint(text).constraint_dict == {"dose": 2.0}
    with expressions_are_data(), pytest.raises(StorageError, match="never executed"):
        ParameterConstraint(text)
