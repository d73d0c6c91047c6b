"""Constraints are read from text as Ax reads them, and nothing is evaluated."""

import pytest
import sympy
from ax.core import parameter_constraint
from ax.core.parameter_constraint import ParameterConstraint
from cases import in_turn
from espresso import QUICK, QUICK_FIT, create
from parameters import choice, real

from botorch_pref.ax import PreferenceExperiment
from botorch_pref.ax.space.constraints import (
    LinearConstraint,
    equalities,
    linear_text,
    shown_constraint,
)
from botorch_pref.errors import ExperimentError

NAMES = ["dose", "ratio", "x.1", "my dose"]


@in_turn(
    "text",
    [
        "dose + ratio <= 21",
        " 2.0*dose + 0.5*(ratio - 1e-3)/4 <= +28",
        "2*dose - 0.5*ratio <= 21",
        "-1.0*x.1 >= -3",
        "dose >= ratio",
        "-(-dose) + - ratio <= 3 - .5*dose",
        "3 * dose / 4 <= (1 + 2) * 2 + x.1",
        "((dose)) <= 5",
    ],
)
def test_a_constraint_is_what_ax_makes_of_its_text(text) -> None:
    ours, theirs = LinearConstraint.parsed(text, NAMES), ParameterConstraint(text)
    assert ours.constraint_dict == pytest.approx(theirs.constraint_dict, rel=1e-15)
    assert ours.bound == pytest.approx(theirs.bound, rel=1e-15)
    assert ours == ParameterConstraint(ours._constraint_str)


def test_a_bound_of_zero_has_no_sign() -> None:
    assert str(LinearConstraint.parsed("dose >= ratio", NAMES).bound) == "0.0"


def test_people_are_shown_few_digits_and_no_weight_of_one() -> None:
    for text, options in (
        ("dose + 2.00000001*ratio <= 1", "dose + 2 * ratio <= 1"),
        ("dose >= ratio", "ratio - dose <= 0"),
    ):
        assert shown_constraint(LinearConstraint.parsed(text, NAMES)) == options


def test_names_that_no_python_has() -> None:
    constraint = LinearConstraint.parsed("2 * my dose + dose <= 3", NAMES)
    assert constraint.constraint_dict == {"my dose": 2.0, "dose": 1.0}


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("print(1) <= 2", "no parameter 'print'"),
        ("dose.__class__ <= 2", "means nothing"),
        ("dose[0] <= 2", "means nothing"),
        ("(lambda: dose) <= 2", "no parameter 'lambda'"),
        ("'x' <= dose", "means nothing"),
        ("9**9**9**9 <= dose", "more than sums and products"),
        ("9!!!! <= dose", "means nothing"),
        ("dose * ratio <= 21", "multiplies or divides by a parameter"),
        ("1 / dose <= 21", "multiplies or divides by a parameter"),
        ("dose / 0 <= 21", "by zero"),
        ("dose ratio <= 21", "no linear expression"),
        ("dose + <= 21", "no linear expression"),
        ("(dose <= 21", "no linear expression"),
        ("dose) <= 21", "no linear expression"),
        ("dose(3) <= 21", "more than sums and products"),
        ("dose # 2 <= 21", "means nothing"),
        ("(" * 1000 + "dose <= 21", "no linear expression"),
        ("+".join(["dose"] * 3000) + " <= 21", "too deep"),
        ("+" * 30000 + "dose <= 21", "too long"),
        ("_0 <= 21", "no parameter '_0'"),
        ("dose <= 1e999", "too large"),
        ("1e300*dose*1e300 <= 1", "too large"),
        ("grams <= 21", "no parameter 'grams'"),
        ("2dose <= 21", "'dose' follows a number; write \\* between them"),
        ("dose < 21", "no inequality"),
        ("dose == 21", "no inequality"),
        ("dose + ratio = 1", "what the others leave, by Ax's DerivedParameterConfig"),
        ("0 <= dose <= 21", "no inequality"),
        ("dose - dose <= 1", "about no parameter"),
        ("1 <= 2", "about no parameter"),
        ("", "no inequality"),
    ],
)
def test_everything_else_is_refused_and_not_evaluated(
    text, match, capsys, monkeypatch
) -> None:
    monkeypatch.setattr(sympy, "sympify", lambda _: pytest.fail("evaluated"))
    with pytest.raises(ExperimentError, match=match):
        LinearConstraint.parsed(text, NAMES)
    assert capsys.readouterr().out == ""


def test_the_text_that_ax_evaluates_is_of_numbers_and_names() -> None:
    assert linear_text("2*(dose - .5*ratio)", NAMES) == "2.0 * dose + -1.0 * ratio"
    assert linear_text("dose", NAMES) == "dose"
    assert linear_text("dose + 3", NAMES) == "dose + 3.0"
    with pytest.raises(ExperimentError, match="named by letters"):
        linear_text("2 * my dose", NAMES)


def test_a_copy_says_the_same_without_its_text(monkeypatch) -> None:
    constraint = LinearConstraint.parsed("2*dose - 0.5*ratio <= 21", NAMES)
    monkeypatch.setattr(
        parameter_constraint,
        "extract_coefficient_dict_from_inequality",
        lambda **_: pytest.fail("parsed again"),
    )
    for copy in (constraint.clone(), constraint.clone_with_transformed_parameters({})):
        assert copy == constraint
        # A copy that is changed is a copy.
        copy.constraint_dict["dose"], copy.bound = 3.0, 1.0
        assert constraint.clone() == constraint != copy


def test_asking_hands_no_text_of_a_constraint_to_sympy(tmp_path, monkeypatch) -> None:
    experiment = create(tmp_path / "espresso.db", initial=1)
    experiment.tell(experiment.ask(2), winner=0)
    for name in ("inequality", "equality"):
        monkeypatch.setattr(
            parameter_constraint,
            f"extract_coefficient_dict_from_{name}",
            lambda **_: pytest.fail("parsed"),
        )
    question = experiment.ask(2)
    again = PreferenceExperiment.resume("espresso", storage=tmp_path / "espresso.db")
    assert again.pending == [question]
    assert all(o["dose"] + o["ratio"] <= 21 for o in question.options)


VARIED = {"optimizer_options": QUICK, "fit_options": QUICK_FIT, "repeat_rate": 0}


@pytest.mark.parametrize("values", [[1, 10, 100], [0.1, 1.0, 10.0], [1, 2, 5, 100]])
def test_ordered_numbers_have_constraints_whatever_their_ratios(
    values, tmp_path
) -> None:
    experiment = PreferenceExperiment.create(
        "x",
        parameters=[real("a"), choice("cup", values, is_ordered=True)],
        parameter_constraints=[f"cup + a <= {values[-2] + 0.5}"],
        storage=tmp_path / "x.db",
        initial=4,
        **VARIED,
    )
    options = []
    for _ in range(5):
        question = experiment.ask(2)
        options += question.options
        experiment.tell(question, winner=0)
    cups = {option["cup"] for option in options}
    # All but the largest, and the last of these with a small number only.
    assert cups == {*values[:-1]}
    assert all(o["cup"] + o["a"] <= values[-2] + 0.5 + 1e-9 for o in options)


def test_parameters_with_a_single_value_count_in_constraints(tmp_path) -> None:
    def created(name, *constraints, single=1.5):
        return PreferenceExperiment.create(
            name,
            parameters=[real("a", 0, 2), choice("b", [single])],
            parameter_constraints=constraints,
            storage=tmp_path / "x.db",
            initial=2,
            **VARIED,
        )

    experiment = created("x", "a + 2 * b <= 3.5", "b >= 1")
    options = []
    for _ in range(3):
        question = experiment.ask(2)
        options += question.options
        experiment.tell(question, winner=0)
    assert all(o["b"] == 1.5 and o["a"] <= 0.5 + 1e-9 for o in options)
    assert max(option["a"] for option in options) > 0.25
    resumed = PreferenceExperiment.resume("x", storage=tmp_path / "x.db")
    assert resumed.log.space == experiment.log.space
    with pytest.raises(ExperimentError, match="single value, which do not satisfy"):
        created("y", "b <= 1")
    with pytest.raises(ExperimentError, match="about 'b', which is always 'c'"):
        created("y", "a + b <= 1", single="c")


def drink(tmp_path, names, *constraints):
    parameters = [real(name, 0, 1) for name in names]
    return PreferenceExperiment.create(
        "drink",
        parameters=parameters,
        parameter_constraints=constraints,
        storage=tmp_path / "drink.db",
    )


@pytest.mark.parametrize(
    ("constraints", "expected"),
    [
        (["a + b <= 1", "a + b >= 1"], ["a + b <= 1", "- a - b <= -1"]),
        (["a <= 0.5", "a >= 0.5"], ["a <= 0.5", "- a <= -0.5"]),
        # Alone: a and b are at their largest.
        (["a + b >= 2"], ["- a - b <= -2"]),
        (["a + b <= 1.001", "a + b >= 1"], []),
    ],
)
def test_inequalities_that_make_an_equality_are_named(
    tmp_path, constraints, expected
) -> None:
    experiment = drink(tmp_path, "abc", *constraints)
    assert equalities(experiment.log.space) == expected


def test_a_thin_slice_is_no_equality(tmp_path) -> None:
    experiment = drink(tmp_path, "abc", "a + b <= 1.001", "a + b >= 1")
    sums = [option["a"] + option["b"] for option in experiment.ask(2).options]
    assert all(0.9999 <= total <= 1.0011 for total in sums)


def test_a_number_named_as_an_option_of_a_choice_is_refused(tmp_path) -> None:
    with pytest.raises(ExperimentError, match="marks the options of a choice"):
        drink(tmp_path, ["a_OH_PARAM_1", "b"])
