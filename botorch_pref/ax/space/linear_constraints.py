"""Linear constraints of parameters, read from text without evaluating it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Self

from ax.core.parameter import Parameter
from ax.core.parameter_constraint import ParameterConstraint

from botorch_pref.errors import ExperimentError

_NUMBER = r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_DEEPEST = 50
"""Parentheses in parentheses; more are no constraint that a person wrote."""

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
        constant, weights = _sum(
            linear_form(left, names), linear_form(right, names), -1.0
        )
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
        """A copy: the names of the parameters stay.

        Args:
            transformed_parameters: Not used.
        """
        return self.clone()


def linear_form(text: str, names: Sequence[str]) -> Form:
    """A linear function of parameters from its text; nothing is evaluated.

    Args:
        text: Sums and products of numbers and names, as ``"2 * (dose - 0.5 * cup)"``.
        names: Of the parameters.

    Raises:
        ExperimentError: The text is something else, or names another parameter.
    """
    return _Parser(text, names).form()


def linear_text(text: str, names: Sequence[str]) -> str:
    """The text of a linear function, written anew from its numbers.

    Ax evaluates the text of a derived parameter. What this returns holds numbers,
    ``+``, ``*`` and names of parameters, which are identifiers, and nothing else.

    Args:
        text: See `linear_form`.
        names: Of the parameters.

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
    """The text of a linear function.

    Args:
        form: The function.
    """
    constant, weights = form
    terms = [n if w == 1 else f"{w!r} * {n}" for n, w in weights.items()]
    return " + ".join(terms + ([repr(constant)] if constant or not terms else []))


def _sum(first: Form, second: Form, factor: float) -> Form:
    weights = dict(first[1])
    for name, weight in second[1].items():
        weights[name] = weights.get(name, 0.0) + factor * weight
    return first[0] + factor * second[0], weights


def _scaled(form: Form, factor: float) -> Form:
    return form[0] * factor, {name: w * factor for name, w in form[1].items()}


class _Parser:
    """Parser of one linear expression, by recursive descent."""

    def __init__(self, text: str, names: Sequence[str]) -> None:
        self._text = text
        self._names = set(names)
        longest_first = sorted(map(re.escape, names), key=len, reverse=True)
        known = [rf"(?<!\w){name}(?!\w)" for name in longest_first]
        name = "|".join([*known, r"[A-Za-z_]\w*"])
        self._pattern = re.compile(rf"\s*(?:({name})|({_NUMBER})|([-+*/()])|(\S))")
        self._tokens = [*self._tokenised(text)]
        self._next = 0
        self._depth = 0

    def _tokenised(self, text: str) -> Iterator[str | float]:
        for found in self._pattern.finditer(text.rstrip()):
            name, number, sign, other = found.groups()
            if number is not None:
                if not math.isfinite(float(number)):
                    raise self._error(f"{number} is too large")
                yield float(number)
            elif name is not None and name not in self._names:
                raise self._error(f"there is no parameter {name!r}")
            elif other is not None:
                raise self._error(f"{other!r} means nothing in it")
            else:
                yield name or sign

    def _error(self, why: str) -> ExperimentError:
        return ExperimentError(
            f"{self._text.strip()[:200]!r} is no linear expression of the parameters: "
            f"{why}; write a sum of numbers and of parameters times numbers."
        )

    def form(self) -> Form:
        found = self._sum()
        if self._next < len(self._tokens):
            raise self._error(f"{self._tokens[self._next]!r} stands where + or - could")
        return found

    def _peek(self) -> str | float | None:
        return self._tokens[self._next] if self._next < len(self._tokens) else None

    def _sum(self) -> Form:
        total = self._product()
        while (sign := self._peek()) in ("+", "-"):
            self._next += 1
            total = _sum(total, self._product(), 1.0 if sign == "+" else -1.0)
        return total

    def _product(self) -> Form:
        product = self._atom()
        while (sign := self._peek()) in ("*", "/"):
            self._next += 1
            other = self._atom()
            if sign == "*" and not product[1]:
                product, other = other, product
            if other[1]:
                raise self._error("it multiplies or divides by a parameter")
            if sign == "/" and other[0] == 0:
                raise self._error("it divides by zero")
            product = _scaled(product, other[0] if sign == "*" else 1 / other[0])
        return product

    def _atom(self) -> Form:
        sign = 1.0
        while (token := self._peek()) in ("+", "-"):
            self._next += 1
            sign = -sign if token == "-" else sign
        self._next += 1
        if isinstance(token, float):
            return sign * token, {}
        if token == "(":
            self._depth += 1
            if self._depth > _DEEPEST:
                raise self._error("it has too many parentheses")
            inner = self._sum()
            if self._peek() != ")":
                raise self._error("a parenthesis is not closed")
            self._next += 1
            self._depth -= 1
            return _scaled(inner, sign)
        if token is None or token not in self._names:
            raise self._error("a number or a parameter is missing")
        assert isinstance(token, str)
        return 0.0, {token: sign}
