"""Contexts: values that are measured and not chosen, as the room of a tasting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ax.core.search_space import SearchSpace
from ax.core.types import TParameterization

from botorch_pref.ax.space.constraints import is_feasible, shown_constraint
from botorch_pref.ax.space.lines import complete
from botorch_pref.ax.space.options import allowed, typed
from botorch_pref.ax.user_values import argument_error, quoted
from botorch_pref.errors import ExperimentError

Context = Mapping[str, Any]
"""Values by the names of their parameters."""

NO_CONTEXT: Context = MappingProxyType({})
"""The context of experiments that have none."""


def check_names(space: SearchSpace, names: Sequence[str]) -> None:
    """Checks that parameters can be a context, and that others are left to choose."""
    varying = space.tunable_parameters
    if unknown := [name for name in names if name not in varying]:
        raise ExperimentError(
            f"context names {', '.join(map(repr, unknown))}; name parameters that "
            f"vary, of {', '.join(varying)}."
        )
    if names and len({*names}) == len(varying):
        raise ExperimentError(
            "context names all parameters that vary, and nothing is left to choose; "
            "name those that are measured."
        )


def checked_context(
    space: SearchSpace, names: Sequence[str], context: object
) -> Context:
    """Returns the values of a context as Ax has them, a value for each of its names.

    Args:
        space: The search space.
        names: The parameters that are measured and not chosen.
        context: What a person gave; None where there are no names.

    Raises:
        ExperimentError: A value is missing, is of no such parameter, or is outside its
            range, or no design satisfies the constraints there.
    """
    stated = {} if context is None else context
    if not isinstance(stated, Mapping):
        raise argument_error("context", context, "a value for each parameter of it")
    if not names and stated:
        raise ExperimentError(
            f"context is {quoted(context)}, and the experiment has none; leave it out, "
            "or create one with context=[...], the names of its parameters."
        )
    if {*stated} != {*names}:
        raise ExperimentError(
            f"context is {quoted(context)}; give a value for {', '.join(names)}, which "
            "this experiment measures and does not choose."
        )
    values = {name: typed(space.parameters[name], stated[name]) for name in names}
    for name, value in values.items():
        parameter: Any = space.parameters[name]
        if not parameter.validate(value):
            raise ExperimentError(
                f"context has {quoted(value)} for {name}; it is {allowed(parameter)}."
            )
    limits = space.parameter_constraints
    if values and not is_feasible(space, limits, values):
        listed = ", ".join(map(shown_constraint, limits))
        raise ExperimentError(
            f"No design satisfies {listed} where {context_text(values)}; give another "
            "context, or create an experiment with wider constraints."
        )
    return values


def context_of(design: Mapping[str, Any], names: Sequence[str]) -> Context:
    """Selects the values of a design that are measured and not chosen."""
    return {name: design[name] for name in names}


def context_text(context: Context) -> str:
    """Writes a context as people know it."""
    texts = (f"{v:.12g}" if isinstance(v, float) else v for v in context.values())
    pairs = zip(context, texts, strict=True)
    return " and ".join(f"{name} = {text}" for name, text in pairs)


def in_context(
    space: SearchSpace, design: Mapping[str, Any], context: Context
) -> TParameterization:
    """Returns a design as it is in a context, with what is derived computed anew."""
    return complete(space, {**design, **context})


def check_one_context(
    designs: Sequence[Mapping[str, Any]], names: Sequence[str]
) -> None:
    """Checks that the options of a question are all in one context."""
    contexts = [context_of(design, names) for design in designs]
    for context in contexts[1:]:
        if context != contexts[0]:
            raise ExperimentError(
                f"Options of one question are in the contexts {quoted(contexts[0])} "
                f"and {quoted(context)}; give all of them the same."
            )
