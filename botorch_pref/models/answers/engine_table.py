"""The table of engines and feedback, from the classes themselves."""

from __future__ import annotations

from botorch_pref.likelihoods.registry import likelihoods_of, registered_likelihoods
from botorch_pref.likelihoods.resolve import DEFAULT_LIKELIHOODS
from botorch_pref.models.answers.supported_answers import engines


def engine_table() -> str:
    """Markdown table of engines: a row for each likelihood of a kind of answer.

    Kinds that have a likelihood by default come first.

    ``python -c "from botorch_pref.models import engine_table; print(engine_table())"``
    prints it.
    """
    columns = engines()
    names = [f"`{model.__name__}`" for model in columns]
    lines = [
        "| feedback | likelihood | " + " | ".join(names) + " |",
        "| --- " * (2 + len(columns)) + "|",
    ]
    explained = (k for cls in registered_likelihoods().values() for k in cls.explains)
    for kind in dict.fromkeys((*DEFAULT_LIKELIHOODS, *explained)):
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
