"""The table of engines and feedback, from the classes themselves."""

from __future__ import annotations

from botorch_pref.feedback import (
    Choices,
    Comparisons,
    Feedback,
    OrdinalRatings,
    Rankings,
    Ratings,
    Strengths,
    Validity,
)
from botorch_pref.likelihoods.registry import likelihoods_of
from botorch_pref.models.answers.supported_answers import engines

_KINDS: tuple[type[Feedback], ...] = (
    Comparisons,
    Choices,
    Rankings,
    Validity,
    OrdinalRatings,
    Strengths,
    Ratings,
)


def engine_table() -> str:
    """Markdown table of engines: a row for each likelihood of a kind of answer.

    ``python -c "from botorch_pref.models import engine_table; print(engine_table())"``
    prints it.
    """
    columns = engines()
    names = [f"`{model.__name__}`" for model in columns]
    lines = [
        "| feedback | likelihood | " + " | ".join(names) + " |",
        "| --- " * (2 + len(columns)) + "|",
    ]
    for kind in _KINDS:
        for likelihood in likelihoods_of(kind):
            factors = likelihood.explains[kind]
            taken = [model.engine.accepts(factors) for model in columns]
            default = [
                model.engine.default_likelihoods.get(kind) is likelihood
                for model in columns
            ]
            marks = [
                ("yes, by default" if first else "yes") if takes else ""
                for takes, first in zip(taken, default, strict=True)
            ]
            name = f"| `{kind.__name__}` | `{likelihood.__name__}` | "
            lines.append(name + " | ".join(marks) + " |")
    return "\n".join(lines)
