"""The layering of the package, read from its import statements."""

import ast
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from layers import PARTS, REQUIRED, diagram

PACKAGE = "botorch_pref"
ROOT = Path(__file__).resolve().parents[1] / PACKAGE
SOURCES = sorted(ROOT.rglob("*.py"))
TABLE = {part.name: part for part in PARTS}
EXTRAS = frozenset().union(*(part.extras for part in PARTS))

Node = tuple[str, ...]
"""A root module of a part, or a folder below it with all that is in it."""


def imported_modules(source: str) -> set[str]:
    """Dotted names of every module that a source imports, at any depth."""
    return {module for module, _ in import_statements(source)}


def import_statements(source: str) -> Iterator[tuple[str, str | None]]:
    """Each module that a source imports, and each name that it takes from one."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide the layer"
            module = node.module or ""
            yield from ((module, alias.name) for alias in node.names)
            if module == PACKAGE:
                yield from ((f"{PACKAGE}.{alias.name}", None) for alias in node.names)


def part_of(path: Path) -> str:
    """Name of the part that a source file belongs to."""
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def module_of(path: Path) -> str:
    """Dotted name of a source file."""
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def node_of(path: Path) -> Node:
    """The node that a source file belongs to."""
    return path.relative_to(ROOT).with_suffix("").parts[:2]


def import_graph(sources: dict[Path, str]) -> dict[Node, set[Node]]:
    """For each node, the nodes that it imports."""
    nodes = {module_of(path): node_of(path) for path in sources}
    graph: dict[Node, set[Node]] = {node: set() for node in nodes.values()}
    for path, source in sources.items():
        for module, name in import_statements(source):
            # A name may be a module of the folder, which is then what is imported.
            found = nodes.get(f"{module}.{name}", nodes.get(module))
            if found is not None and found != node_of(path):
                graph[node_of(path)].add(found)
    return graph


def cycle_of(graph: dict[Node, set[Node]]) -> str | None:
    """A cycle in words, if there is one."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return " <- ".join("/".join(node) for node in error.args[1])
    return None


def test_every_part_stands_in_the_table() -> None:
    assert {part_of(path) for path in SOURCES} == set(TABLE)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_leftwards_only(path: Path) -> None:
    part = TABLE[part_of(path)]
    allowed = {part.name, "errors", *part.uses}
    for module in imported_modules(path.read_text(encoding="utf-8")):
        root, *rest = module.split(".")
        if root == PACKAGE and rest:
            assert rest[0] in allowed, f"{part.name} imports {module}"
        elif root == PACKAGE:
            # `from botorch_pref import X` counts as a layer through X above.
            continue
        elif root in EXTRAS:
            assert root in part.extras, f"{part.name} imports the optional {root}"
        else:
            assert root in REQUIRED or root in sys.stdlib_module_names, (
                f"{part.name} imports {root}, which pyproject.toml does not require"
            )


def test_the_table_is_ordered() -> None:
    """A part only uses parts that stand before it: there is no cycle between parts."""
    order = list(TABLE)
    for name, part in TABLE.items():
        assert all(order.index(used) < order.index(name) for used in part.uses), name


def test_folders_and_root_modules_import_each_other_in_one_direction() -> None:
    graph = import_graph({p: p.read_text(encoding="utf-8") for p in SOURCES})
    assert len(graph) > 100
    assert cycle_of(graph) is None


def test_cycles_between_folders_are_seen() -> None:
    sources = {
        ROOT / "models" / "data" / "rows.py": "from botorch_pref.models import gp",
        ROOT / "models" / "gp.py": "from botorch_pref.models.prediction import at",
        ROOT / "models" / "prediction.py": "import botorch_pref.models.data.rows",
    }
    found = cycle_of(import_graph(sources))
    assert found is not None
    assert all(name in found for name in ("models/data", "models/gp"))
    del sources[ROOT / "models" / "prediction.py"]
    assert cycle_of(import_graph(sources)) is None


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


def test_the_diagram_has_every_part() -> None:
    rows = diagram().splitlines()[2:]
    assert [row.split("`")[1] for row in rows] == [part.name for part in PARTS][::-1]


def test_every_use_that_the_table_allows_exists() -> None:
    used = {part: set() for part in TABLE}
    for path in SOURCES:
        for module, name in import_statements(path.read_text(encoding="utf-8")):
            parts = module.split(".")
            if parts[0] == PACKAGE:
                used[part_of(path)].add(parts[1] if len(parts) > 1 else name)
    for part in PARTS:
        assert set(part.uses) <= used[part.name], part.name
