"""Constraints of a search space: their text, the designs and polytopes they leave."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import partial
from numbers import Real
from types import MappingProxyType
from typing import Any, NamedTuple, Self

from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from ax.core.parameter import (
    ChoiceParameter,
    DerivedParameter,
    FixedParameter,
    Parameter,
    ParameterType,
    RangeParameter,
)
from ax.core.parameter_constraint import ParameterConstraint
from ax.core.search_space import SearchSpace
from pandas.api.types import is_bool
from scipy import optimize

from botorch_pref.ax.user_values import (
    TEXT,
    argument_error,
    finite_number,
    is_text,
    look_alike,
    quoted,
)
from botorch_pref.errors import ExperimentError

_NUMBER = r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_LONGEST = 20_000
"""Characters of an expression; a longer one is none that a person wrote."""

_SHARES = (
    "Of shares that sum to one make one what the others leave, by Ax's "
    "DerivedParameterConfig, and bound the sum of the others."
)

Form = tuple[float, dict[str, float]]
"""A constant, and weights of parameters by name: a linear function of a design."""


class LinearConstraint(ParameterConstraint):
    r"""Ax's constraint :math:`w^\top x \le b`, made of numbers instead of text.

    Ax makes each copy of a constraint by handing its text to SymPy, which evaluates the
    text as Python, for milliseconds, about thirty times a question.
    """

    def __init__(self, weights: Mapping[str, float], bound: float) -> None:
        """Sets the fields of Ax's class, whose constructor does nothing but parse."""
        self.is_equality = False
        self._constraint_dict = dict(weights)
        self._bound = bound
        self._constraint_str = f"{sum_text((0.0, self._constraint_dict))} <= {bound}"

    @classmethod
    def parsed(cls, text: str, names: Sequence[str]) -> Self:
        """Reads a constraint of parameters, such as ``"dose + 2 * ratio <= 25"``.

        Raises:
            ExperimentError: The text is no linear inequality, or is about no parameter.
        """
        sides = re.split(r"(<=|>=)", text)
        if len(sides) != 3:
            equality = len(sides) == 1 and "=" in text
            raise ExperimentError(
                f"The constraint {text!r} is no inequality; write a linear one with "
                "one <= or >=, as 'dose + 2 * ratio <= 25'."
                + (f" {_SHARES}" if equality else "")
            )
        smaller, relation, right = sides
        if relation == ">=":
            smaller, right = right, smaller
        smaller_form, larger_form = (
            linear_form(smaller, names),
            linear_form(right, names),
        )
        constant, weights = _sum(smaller_form, larger_form, -1.0)
        weights = {name: weight for name, weight in weights.items() if weight != 0}
        if not all(map(math.isfinite, [constant, *weights.values()])):
            raise ExperimentError(f"The constraint {text!r} has too large numbers.")
        if not weights:
            raise ExperimentError(f"{text!r} is about no parameter; leave it out.")
        # A bound of zero has no sign.
        return cls(weights, 0.0 - constant)

    def without_fixed(self, parameters: Sequence[Parameter]) -> Self | None:
        """Makes the constraint of parameters that vary; None if all designs satisfy it.

        Ax takes none about a fixed parameter, whose term moves to the bound.

        Raises:
            ExperimentError: It is about nothing that varies, and does not hold; or
                about a text.
        """
        weights, bound = dict(self._constraint_dict), self._bound
        for parameter in parameters:
            if isinstance(parameter, FixedParameter) and parameter.name in weights:
                value = finite_number(parameter.value)
                if value is None:
                    raise ExperimentError(
                        f"The constraint {shown_constraint(self)} is about "
                        f"{parameter.name!r}, which is always "
                        f"{quoted(parameter.value)}; leave that out."
                    )
                bound -= weights.pop(parameter.name) * value
        if weights:
            return type(self)(weights, bound)
        if bound < 0:
            raise ExperimentError(
                f"The constraint {shown_constraint(self)} is about parameters with a "
                "single value, which do not satisfy it; change it, or the values."
            )
        return None

    def clone(self) -> LinearConstraint:
        """Returns a copy, of the same numbers."""
        return LinearConstraint(self._constraint_dict, self._bound)

    def clone_with_transformed_parameters(
        self, transformed_parameters: dict[str, Parameter]
    ) -> LinearConstraint:
        """Returns a copy: the names of the parameters stay."""
        return self.clone()


def _identified(identifiers: Mapping[str, str], token: re.Match[str]) -> str:
    """Writes a name of a parameter as its identifier, and a number as Python does.

    `linear_form` replaces tokens of a text so, before Python's parser reads it.

    Raises:
        ValueError: The token is neither.
    """
    name, number, word, sign = token.groups()
    if word in identifiers:
        raise ValueError(f"{word!r} follows a number; write * between them")
    if word is not None:
        raise ValueError(f"there is no parameter {word!r}")
    if sign is not None:
        raise ValueError(f"{sign!r} means nothing in it")
    if number is not None and not math.isfinite(float(number)):
        raise ValueError(f"{number} is too large")
    return f" {identifiers[name] if number is None else float(number)} "


def linear_form(text: str, names: Sequence[str]) -> Form:
    """Reads a linear function of parameters, such as ``"2 * (dose - 0.5 * cup)"``.

    Python's parser makes a tree of the text, which nothing evaluates. Names of
    parameters need not be identifiers.
    """
    identified_names = {f"_{i}": name for i, name in enumerate(names)}
    identifiers = {name: identifier for identifier, name in identified_names.items()}
    longest_first = sorted(map(re.escape, names), key=len, reverse=True)
    # The last one matches nothing, as a pattern of no names has to.
    alternatives = "|".join(
        [*(rf"(?<!\w){name}(?!\w)" for name in longest_first), r"(?!)"]
    )
    identify = partial(_identified, identifiers)
    # A name, a number, another word, or another sign: the groups of `_identified`.
    tokens = rf"({alternatives})|({_NUMBER})|([^\W\d]\w*)|([^-+*/()\s])"
    try:
        if len(text) > _LONGEST:
            raise ValueError("it is too long")
        python_text = " ".join(re.sub(tokens, identify, text).split())
        return _form(ast.parse(python_text, mode="eval").body, identified_names)
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        why = error.msg if isinstance(error, SyntaxError) else error
        why = why if isinstance(error, SyntaxError | ValueError) else "it is too deep"
        raise ExperimentError(
            f"{text.strip()[:200]!r} is no linear expression of the parameters: {why}; "
            "write a sum of numbers and of parameters times numbers."
        ) from error


def _form(tree: ast.expr, names: Mapping[str, str]) -> Form:
    """Returns the linear function of a tree of sums and products, see `Form`."""
    match tree:
        # `_identified` has made a float of every number.
        case ast.Constant(value=float() as number):
            return number, {}
        case ast.Name(id=name):
            return 0.0, {names[name]: 1.0}
        case ast.UnaryOp(op=ast.UAdd() | ast.USub() as sign, operand=inner):
            factor = -1.0 if isinstance(sign, ast.USub) else 1.0
            return _sum((0.0, {}), _form(inner, names), factor)
        case ast.BinOp(left=one, op=ast.Add() | ast.Sub() as sign, right=other):
            factor = -1.0 if isinstance(sign, ast.Sub) else 1.0
            return _sum(_form(one, names), _form(other, names), factor)
        case ast.BinOp(left=one, op=ast.Mult() | ast.Div() as operation, right=other):
            left_form, right_form = _form(one, names), _form(other, names)
            product = isinstance(operation, ast.Mult)
            # The number is the second factor from here on.
            if product and not left_form[1]:
                left_form, right_form = right_form, left_form
            if right_form[1]:
                raise ValueError("it multiplies or divides by a parameter")
            if not product and right_form[0] == 0:
                raise ValueError("it divides by zero")
            return _sum(
                (0.0, {}), left_form, right_form[0] if product else 1 / right_form[0]
            )
    raise ValueError("it is more than sums and products")


def _sum(first: Form, second: Form, factor: float) -> Form:
    """Returns ``first`` plus a factor times ``second``, two linear functions."""
    weights = dict(first[1])
    for name, weight in second[1].items():
        weights[name] = weights.get(name, 0.0) + factor * weight
    return first[0] + factor * second[0], weights


def linear_text(text: str, names: Sequence[str]) -> str:
    """Rewrites the text of a linear function in numbers, ``+``, ``*`` and names alone.

    Ax evaluates such texts, and so never sees what a person wrote.

    Raises:
        ExperimentError: The text is not linear, or has a name that is no identifier.
    """
    form = linear_form(text, names)
    for name in form[1]:
        if not re.fullmatch(r"[A-Za-z_]\w*(\.\w+)*", name):
            raise ExperimentError(
                f"The expression {text!r} has the parameter {name!r}; a parameter that "
                "others are derived from must be named by letters, digits and _."
            )
    return sum_text(form)


def sum_text(form: Form) -> str:
    """Returns the text of a linear function for Ax, such as ``"dose + 2.0 * x + 1.0"``.

    Numbers have all their digits, for Ax and `linear_form` read it again.
    """
    constant, weights = form
    terms = [n if w == 1 else f"{w!r} * {n}" for n, w in weights.items()]
    return " + ".join(terms + ([repr(constant)] if constant or not terms else []))


LARGEST, _FINEST = 1e100, 1e-9
"""Numbers from which on products of a few overflow; and a share of the size of bounds:
of a smaller range, few numbers have a float."""

_LARGEST_WHOLE, _LARGEST_CHOICE = 2**53, 2**63 - 1
"""Whole numbers up to which each has a float of its own, as models take them; and that
of Ax's tables and of databases, in which choices stand."""

_MOST_VALUES = 1_000
"""The number of values that a step size may make: Ax has no larger choice."""


def check_config(config: Any) -> None:
    """Checks the values of a parameter that a person configures, unless it is derived.

    Numbers must not be too large to calculate with, files have to keep texts, people
    have to tell texts apart, and no other parameters may depend on the values.
    """
    if isinstance(config, RangeParameterConfig):
        _check_range(config)
    elif isinstance(config, ChoiceParameterConfig):
        values: Any = config.values
        argument = f"values of {config.name!r}"
        if isinstance(values, str) or not isinstance(values, Sequence):
            raise argument_error(argument, values, "a list")
        numeric = config.parameter_type in ("float", "int")
        for value in values:
            if numeric or (isinstance(value, Real | Decimal) and not is_bool(value)):
                _checked_size(argument, value)
            is_whole = config.parameter_type == "int"
            if is_whole and not -_LARGEST_CHOICE <= value <= _LARGEST_CHOICE:
                wanted = f"whole numbers of at most {_LARGEST_CHOICE}, or texts"
                raise argument_error(argument, values, wanted)
            if isinstance(value, str) and not is_text(value):
                raise argument_error(argument, value, f"each {TEXT}")
        if alike := look_alike(value for value in values if isinstance(value, str)):
            raise ExperimentError(
                f"{argument} has {alike[0]} and {alike[1]}, which look the same; write "
                "one of them otherwise."
            )
        # Ax takes several values that are one, and fails later.
        if len(values) > 1 and all(value == values[0] for value in values):
            raise argument_error(argument, values, "different ones")
        if config.dependent_parameters:
            raise ExperimentError(
                f"{config.name!r} has dependent_parameters, and every design has all "
                "parameters here; create an experiment for each of its values."
            )


def _check_range(config: RangeParameterConfig) -> None:
    """Checks that a model can tell numbers in the bounds apart, and that steps fit in.

    Steps fit where a whole number of them leads from the lower bound to the upper one;
    they may make 1,000 values.
    """
    argument = f"bounds of {config.name!r}"
    bounds: Any = config.bounds
    if isinstance(bounds, str) or not isinstance(bounds, Sequence) or len(bounds) != 2:
        raise argument_error(argument, bounds, "the smallest value and the largest")
    lower, upper = (_checked_size(argument, bound) for bound in bounds)
    size = max(abs(lower), abs(upper))
    # Exactly: the float of 2^53 + 1 is 2^53.
    ends = [int(bound) if float(bound).is_integer() else bound for bound in bounds]
    largest = max(*map(abs, ends), ends[1] - ends[0])
    if config.parameter_type == "int" and largest > _LARGEST_WHOLE:
        raise ExperimentError(
            f"{argument} is {quoted(bounds)}: beyond {_LARGEST_WHOLE} (2^53), whole "
            "numbers that differ by one are the same to a model. Count from the "
            "smallest one, give a larger unit, or make it texts if it names something."
        )
    if config.scaling == "log" and 0 < lower < 1 / LARGEST:
        raise ExperimentError(
            f"{argument} has {lower}; give a number of at least {1 / LARGEST:g} on a "
            "log scale, or another unit."
        )
    if lower < upper and upper - lower < _FINEST * size:
        raise ExperimentError(
            f"{argument} is {quoted(bounds)}, of which few numbers between have a "
            "float; give the difference from one of them instead."
        )
    if config.step_size is not None:
        argument = f"step_size of {config.name!r}"
        step = _checked_size(argument, config.step_size)
        if step <= 0 or (upper - lower) / step > _MOST_VALUES - 0.5:
            wanted = f"a positive number that makes at most {_MOST_VALUES} values"
            raise argument_error(
                argument, config.step_size, f"{wanted}, or leave it out"
            )
        count, is_whole = (upper - lower) / step, config.parameter_type == "int"
        # Up to the rounding of decimals: three steps of 0.1 are not 0.3.
        if abs(count - round(count)) > 1e-6 * count or (is_whole and step % 1):
            raise ExperimentError(
                f"{argument} is {step:g}, and the bounds are {lower:g} and {upper:g}; "
                "give one that leads from one to the other, whole for whole numbers."
            )
        if config.scaling == "log":
            raise ExperimentError(f"{argument} goes with no log scale; leave one out.")


def in_steps(config: Any) -> Any:
    """Makes an ordered choice of a range with a step; other parameters stay.

    Its values are the numbers that people write. Ax adds up floats: 0.1 makes
    0.30000000000000004 of three steps, and from 1 to 1.3 the value 1.4.
    """
    if not isinstance(config, RangeParameterConfig) or config.step_size is None:
        return config
    lower, upper, step = map(float, (*config.bounds, config.step_size))
    first, size = Decimal(repr(lower)), Decimal(repr(step))
    steps = range(round((upper - lower) / step))
    values = [*(float(first + k * size) for k in steps), upper]
    kind = int if config.parameter_type == "int" else float
    return ChoiceParameterConfig(
        name=config.name,
        parameter_type=config.parameter_type,
        values=[kind(value) for value in values],
        is_ordered=True,
    )


def _checked_size(argument: str, value: Any) -> float:
    """Checks that a number is finite and not too large."""
    number = finite_number(value)
    if number is None:
        raise ExperimentError(f"{argument} has {quoted(value)}; give finite numbers.")
    if abs(number) > LARGEST:
        raise ExperimentError(
            f"{argument} has {quoted(value)}, which is too large to calculate with; "
            f"give numbers of at most {LARGEST:g}, in another unit or on a log scale."
        )
    return number


def check_coefficients(space: SearchSpace) -> None:
    """Checks that no weight or bound of a space is too large to calculate with.

    Constraints have weights and a bound, derived parameters weights and a constant.
    """
    for constraint in space.parameter_constraints:
        for number in (*constraint.constraint_dict.values(), constraint.bound):
            _checked_size(f"the constraint {shown_constraint(constraint)}", number)
    for name, parameter in space.parameters.items():
        if isinstance(parameter, DerivedParameter):
            weights = parameter._parameter_names_to_weights.values()
            for number in (*weights, parameter._intercept):
                _checked_size(f"the expression of {name!r}", number)


def is_feasible(
    space: SearchSpace,
    constraints: Sequence[ParameterConstraint],
    fixed: Mapping[str, Any] = MappingProxyType({}),
) -> bool:
    """Tells whether a design may satisfy constraints, with some values ``fixed``.

    It solves a mixed-integer programme, and says True where the solver cannot tell.
    """
    # 2 is "infeasible"; anything else proves nothing.
    return not constraints or _solution(space, constraints, fixed=fixed).status != 2


def check_feasible(space: SearchSpace) -> None:
    """Checks that some design satisfies all constraints."""
    constraints = space.parameter_constraints
    if is_feasible(space, constraints):
        return
    alone = [c for c in constraints if not is_feasible(space, [c])]
    problem = "no design satisfies all of"
    if alone:
        problem = "no values in the ranges of its parameters satisfy"
    listed = ", ".join(map(shown_constraint, alone or constraints))
    raise ExperimentError(
        f"parameter_constraints cannot be: {problem} {listed}. Change it, or the "
        "ranges."
    )


def equalities(space: SearchSpace) -> list[str]:
    """Returns constraints that hold with equality for all designs of a space.

    Two opposite ones do, such as ``x + y <= 1`` and ``-x - y <= -1``. The summary names
    them, since none of their parameters can change while the others stay.
    """
    limits = space.parameter_constraints
    return [shown_constraint(c) for c in limits if _is_equality(space, c)]


def _is_equality(space: SearchSpace, limit: ParameterConstraint) -> bool:
    """Tells whether all designs of the space lie on the bound of one constraint."""
    # `_solution` returns minus the largest distance from the bound that a design has.
    most_room = _solution(space, space.parameter_constraints, limit)
    return most_room.x is not None and -most_room.fun < _NO_RANGE


def shown_constraint(constraint: ParameterConstraint) -> str:
    """Returns the text of a constraint for messages: with few digits, sums first."""
    weights = constraint.constraint_dict.items()
    text = ""
    for name, weight in sorted(weights, key=lambda term: term[1] < 0):
        times = "" if abs(weight) == 1 else f"{abs(weight):g} * "
        text += f" {'-' if weight < 0 else '+'} {times}{name}"
    return f"{text.removeprefix(' + ').strip()} <= {constraint.bound:g}"


def constrained_names(space: SearchSpace) -> set[str]:
    """Returns the names of parameters that constraints are about."""
    return {name for c in space.parameter_constraints for name in c.constraint_dict}


_TOLERANCE = 1e-6
"""The error of a share of a range that a solver found."""

_NO_RANGE, _FAR_SMALLER = 10 * _TOLERANCE, 0.1
"""Shares of a range that a solver may take for none, and that make another range."""


def fit_ranges(space: SearchSpace) -> None:
    """Narrows ranges of which constraints leave less than a tenth, to what they leave.

    The model, the first designs and the smallest differences go by ranges, and in a
    range that is far too wide all designs lie at one place. The space changes in place,
    and keeps all its designs.
    """
    waiting = [
        parameter
        for name, parameter in space.parameters.items()
        if name in constrained_names(space) and isinstance(parameter, RangeParameter)
    ]
    while waiting:
        # Tolerances of a solver count less in smaller ranges.
        waiting = [p for p in waiting if _narrow(space, p)]


def _shares_left(
    space: SearchSpace, name: str, fixed: Mapping[str, Any] = MappingProxyType({})
) -> tuple[float, float] | None:
    """Finds the ends that constraints leave a number, as shares of its range.

    Other parameters may have ``fixed`` values. None where the solver finds no design.
    """
    limits, parameter = space.parameter_constraints, space.parameters[name]
    lowest, highest = (
        _solution(space, limits, name, sign, fixed) for sign in (1.0, -1.0)
    )
    if lowest.x is None or highest.x is None:
        return None
    assert isinstance(parameter, RangeParameter)
    is_whole = parameter.parameter_type is ParameterType.INT
    # A whole number is counted in the programme, see `_variables`.
    unit = float(parameter.upper - parameter.lower) if is_whole else 1.0
    return lowest.fun / unit, -highest.fun / unit


def most_shares(
    space: SearchSpace, fixed: Mapping[str, Any] = MappingProxyType({})
) -> dict[str, float]:
    """Finds for each number in a constraint the share of its range that is left to it.

    The share is never too small: it is 1 where the solver finds no design.

    Args:
        space: The search space, whose constraints leave the shares.
        fixed: Values of some parameters, which stay.

    Returns:
        The shares by the names of the numbers; of numbers in no constraint none.
    """
    widths = {}
    for name in constrained_names(space) & space.range_parameters.keys():
        ends = _shares_left(space, name, fixed)
        is_whole = space.parameters[name].parameter_type is ParameterType.INT
        # The solver's tolerance may have made the share that much smaller.
        error = 0.0 if is_whole else _NO_RANGE
        widths[name] = 1.0 if ends is None else ends[1] - ends[0] + error
    return widths


def _narrow(space: SearchSpace, parameter: RangeParameter) -> bool:
    """Narrows a parameter of a space to the range that constraints leave it.

    The new ends are rounded outwards, to multiples of a power of ten that is at most a
    millionth of the old range: no allowed value is beyond them.

    Returns:
        Whether the range is narrower now: it stays where a tenth of it or more is left,
        or a single value.
    """
    lower, upper = float(parameter.lower), float(parameter.upper)
    ends, span = _shares_left(space, parameter.name), upper - lower
    if ends is None or not _NO_RANGE < ends[1] - ends[0] < _FAR_SMALLER:
        return False
    step = 10.0 ** math.floor(math.log10(_TOLERANCE * span))
    low = max(lower, _outwards(lower + ends[0] * span, step, math.floor))
    high = min(upper, _outwards(lower + ends[1] * span, step, math.ceil))
    if parameter.parameter_type is ParameterType.INT:
        low, high = round(low), round(high)
    if low < high:
        parameter.update_range(lower=low, upper=high)
    return low < high


def _outwards(number: float, step: float, rounding: Callable[[float], int]) -> float:
    """Rounds a number that a solver found to a multiple of a step.

    ``rounding`` is the floor for a lower end, and the ceiling for an upper one.
    """
    near = round(number / step)
    # A multiple of the step up to the solver's error: 0.01 stays 0.01.
    exact = abs(number / step - near) < _TOLERANCE
    steps = Decimal(near if exact else rounding(number / step))
    return float(steps * Decimal(repr(step)))


class _Variables(NamedTuple):
    """Variables of a programme that make one parameter.

    The parameter is ``offset`` and the sum of its variables times their ``values``.
    """

    offset: float
    values: list[float]
    ends: list[tuple[float, float]]
    is_whole: bool


def _variables(parameter: Any, fixed: Any = None) -> _Variables:
    """Makes the variables of a parameter, which may have a ``fixed`` value.

    A number is its share of the range, a whole number counts from the smallest one, and
    a choice has a variable for each value, which is 1 where it is taken.
    """
    if isinstance(parameter, ChoiceParameter):
        numbers: list[Any] = parameter.values
        values = [float(number) for number in numbers]
        ends = [(0.0, 1.0)] * len(values)
        if fixed is not None:
            ends = [(float(number == fixed),) * 2 for number in numbers]
        return _Variables(0.0, values, ends, True)
    low, span = float(parameter.lower), float(parameter.upper - parameter.lower)
    is_whole = parameter.parameter_type is ParameterType.INT
    size, largest = (1.0, span) if is_whole else (span, 1.0)
    end = (0.0, largest) if fixed is None else ((fixed - low) / size,) * 2
    return _Variables(low, [size], [end], is_whole)


def _solution(
    space: SearchSpace,
    constraints: Sequence[ParameterConstraint],
    wanted: str | ParameterConstraint | None = None,
    sign: float = 1.0,
    fixed: Mapping[str, Any] = MappingProxyType({}),
) -> optimize.OptimizeResult:
    """Solves a mixed-integer programme for a design that satisfies constraints.

    Args:
        space: The search space.
        constraints: Those to be satisfied, of all parameters in the programme.
        wanted: The name of a number whose smallest or largest value is sought; or one
            of the constraints, from whose bound the design is as far as can be; or None
            where any design will do.
        sign: 1.0 for the smallest value of that number, -1.0 for the largest.
        fixed: Values that parameters have, by name.

    Returns:
        SciPy's result. ``x`` is None where no design was found, and ``status`` is 2
        where there is none. ``fun`` is ``sign`` times the number, as `_variables`
        counts it; or minus the distance from the bound, divided by the largest
        coefficient of the constraint in these variables.
    """
    names = dict.fromkeys(name for c in constraints for name in c.constraint_dict)
    columns, offset, integrality, rows = [], {}, [], []
    ends: list[tuple[float, float]] = []
    for name in names:
        variables = _variables(space.parameters[name], fixed.get(name))
        offset[name] = variables.offset
        columns += [(name, value) for value in variables.values]
        integrality += [int(variables.is_whole)] * len(variables.values)
        ends += variables.ends
    for name in names:
        # One value of a choice is taken.
        if isinstance(space.parameters[name], ChoiceParameter):
            row_of_choice = [float(column == name) for column, _ in columns]
            rows.append(optimize.LinearConstraint(row_of_choice, 1, 1))
    objective, constant = [sign * float(name == wanted) for name, _ in columns], 0.0
    for constraint in constraints:
        weights = constraint.constraint_dict
        row = [weights.get(name, 0.0) * value for name, value in columns]
        # Divided by the largest one, coefficients are at most 1 in size.
        size = max(map(abs, row), default=0.0) or 1.0
        moved = sum(weight * offset[name] for name, weight in weights.items())
        bound = (constraint.bound - moved) / size
        row = [number / size for number in row]
        rows.append(optimize.LinearConstraint(row, -math.inf, bound))
        if constraint is wanted:
            objective, constant = row, bound
    solved = optimize.milp(
        objective,
        bounds=optimize.Bounds(*zip(*ends, strict=True)),
        integrality=integrality,
        constraints=rows,
    )
    if solved.x is not None:
        solved.fun -= constant
    return solved
