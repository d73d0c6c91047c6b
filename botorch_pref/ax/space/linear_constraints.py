"""Linear constraints of parameters, read from text without evaluating it."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Mapping, Sequence
from typing import Self

from ax.core.parameter import Parameter
from ax.core.parameter_constraint import ParameterConstraint

from botorch_pref.errors import ExperimentError

_NUMBER = r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_LONGEST = 20_000
"""Characters of an expression; a longer one is none that a person wrote."""

Form = tuple[float, dict[str, float]]
"""A constant, and weights of parameters by name: a linear function of a design."""


class LinearConstraint(ParameterConstraint):
    r"""Ax's constraint :math:`w^\top x \le b`, made of numbers instead of text.

    Ax makes each copy of a constraint by handing its text to SymPy, which evaluates the
    text as Python and takes milliseconds. Ax copies a search space about thirty times a
    question.

    Args:
        weights: Of parameters, by name.
        bound: The largest value of the weighted sum.
    """

    def __init__(self, weights: Mapping[str, float], bound: float) -> None:
        # Ax's own constructor does nothing but parse.
        self.is_equality = False
        self._constraint_dict = dict(weights)
        self._bound = bound
        self._constraint_str = f"{sum_text((0.0, self._constraint_dict))} <= {bound}"

    @classmethod
    def parsed(cls, text: str, names: Sequence[str]) -> Self:
        """A constraint from its text.

        Args:
            text: Two linear expressions with ``<=`` or ``>=`` between them, as
                ``"dose + 2 * ratio <= 25"``.
            names: Of the parameters.

        Raises:
            ExperimentError: The text is no linear inequality of these parameters.
        """
        sides = re.split(r"(<=|>=)", text) if isinstance(text, str) else []
        if len(sides) != 3:
            raise ExperimentError(
                f"The constraint {text!r} is no inequality; write a linear one with "
                "one <= or >=, as 'dose + 2 * ratio <= 25'."
            )
        left, relation, right = sides
        if relation == ">=":
            left, right = right, left
        most, least = linear_form(left, names), linear_form(right, names)
        constant, weights = _sum(most, _scaled(least, -1.0))
        weights = {name: weight for name, weight in weights.items() if weight != 0}
        if not all(map(math.isfinite, [constant, *weights.values()])):
            raise ExperimentError(f"The constraint {text!r} has too large numbers.")
        if not weights:
            raise ExperimentError(
                f"The constraint {text!r} is about no parameter; leave it out."
            )
        # A bound of zero has no sign.
        return cls(weights, 0.0 - constant)

    def clone(self) -> LinearConstraint:
        """A copy, of the same numbers."""
        return LinearConstraint(self._constraint_dict, self._bound)

    def clone_with_transformed_parameters(
        self, transformed_parameters: dict[str, Parameter]
    ) -> LinearConstraint:
        """A copy: the names of the parameters stay."""
        return self.clone()


def linear_form(text: str, names: Sequence[str]) -> Form:
    """A linear function of parameters from its text, as ``"2 * (dose - 0.5 * cup)"``.

    Python's parser makes a tree of the text, and nothing evaluates it. The names of
    parameters need not be identifiers.

    Raises:
        ExperimentError: The text is something else, or names another parameter.
    """
    known = {f"_{i}": name for i, name in enumerate(names)}
    identifiers = {name: identifier for identifier, name in known.items()}
    longest_first = sorted(map(re.escape, names), key=len, reverse=True)
    own = "|".join([*(rf"(?<!\w){name}(?!\w)" for name in longest_first), r"(?!)"])

    def identified(found: re.Match[str]) -> str:
        name, number, other, sign = found.groups()
        if other is not None:
            raise ValueError(f"there is no parameter {other!r}")
        if sign is not None:
            raise ValueError(f"{sign!r} means nothing in it")
        if number is not None and not math.isfinite(float(number)):
            raise ValueError(f"{number} is too large")
        return f" {identifiers[name] if number is None else float(number)} "

    tokens = rf"({own})|({_NUMBER})|([^\W\d]\w*)|([^-+*/()\s])"
    try:
        if len(text) > _LONGEST:
            raise ValueError("it is too long")
        written = " ".join(re.sub(tokens, identified, text).split())
        return _form(ast.parse(written, mode="eval").body, known)
    except (SyntaxError, ValueError) as error:
        why = error.msg if isinstance(error, SyntaxError) else error
        raise ExperimentError(
            f"{text.strip()[:200]!r} is no linear expression of the parameters: {why}; "
            "write a sum of numbers and of parameters times numbers."
        ) from error
    except (MemoryError, RecursionError) as error:
        raise ExperimentError(
            f"{text.strip()[:200]!r} is too deep to be read; write a sum of numbers "
            "and of parameters times numbers."
        ) from error


def _form(tree: ast.expr, known: Mapping[str, str]) -> Form:
    """The linear function of a tree of sums and products.

    Raises:
        ValueError: It is something else.
    """
    match tree:
        case ast.Constant(value=float() as number):
            return number, {}
        case ast.Name(id=name):
            return 0.0, {known[name]: 1.0}
        case ast.UnaryOp(op=ast.UAdd() | ast.USub() as sign, operand=inner):
            return _scaled(
                _form(inner, known), -1.0 if isinstance(sign, ast.USub) else 1.0
            )
        case ast.BinOp(left=left, op=operation, right=right):
            return _combined(operation, _form(left, known), _form(right, known))
    raise ValueError("it is more than sums and products")


def _combined(operation: ast.operator, left: Form, right: Form) -> Form:
    match operation:
        case ast.Add():
            return _sum(left, right)
        case ast.Sub():
            return _sum(left, _scaled(right, -1.0))
        case ast.Mult() if not left[1] or not right[1]:
            form, factor = (left, right[0]) if left[1] else (right, left[0])
            return _scaled(form, factor)
        case ast.Div() if not right[1]:
            if right[0] == 0:
                raise ValueError("it divides by zero")
            return _scaled(left, 1 / right[0])
        case ast.Mult() | ast.Div():
            raise ValueError("it multiplies or divides by a parameter")
    raise ValueError("it is more than sums and products")


def _sum(first: Form, second: Form) -> Form:
    weights = dict(first[1])
    for name, weight in second[1].items():
        weights[name] = weights.get(name, 0.0) + weight
    return first[0] + second[0], weights


def _scaled(form: Form, factor: float) -> Form:
    return form[0] * factor, {name: w * factor for name, w in form[1].items()}


def linear_text(text: str, names: Sequence[str]) -> str:
    """The text of a linear function, written anew from its numbers.

    Ax evaluates the text of a derived parameter. What this returns holds numbers,
    ``+``, ``*`` and names of parameters, which are identifiers, and nothing else.

    Raises:
        ExperimentError: The text is no linear function, or a name in it is no
            identifier.
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
    """The text of a linear function."""
    constant, weights = form
    terms = [n if w == 1 else f"{w!r} * {n}" for n, w in weights.items()]
    return " + ".join(terms + ([repr(constant)] if constant or not terms else []))
