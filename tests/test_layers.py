"""The layering of the package, read from its import statements."""

import ast
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from layers import PARTS, REQUIRED, Part

PACKAGE = "botorch_pref"
ROOT = Path(__file__).resolve().parents[1] / PACKAGE
SOURCES = {path: path.read_text("utf-8") for path in sorted(ROOT.rglob("*.py"))}
TABLE = {part.name: part for part in PARTS}
EXTRAS = frozenset().union(*(part.extras for part in PARTS))

Node = tuple[str, ...]
"""A root module of a part, or a folder below it with all that is in it."""


def imported_modules(source: str) -> set[str]:
    """Lists dotted names of every module that a source imports, at any depth."""
    return {module for module, _ in import_statements(source)}


@cache
def import_statements(source: str) -> tuple[tuple[str, str | None], ...]:
    """Lists each module that a source imports, and each name that it takes from one."""
    return tuple(_imports(source))


def _imports(source: str) -> Iterator[tuple[str, str | None]]:
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
    """Names the part that a source file belongs to."""
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def module_of(path: Path) -> str:
    """Names the module of a source file, with dots."""
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def node_of(path: Path) -> Node:
    """Returns the node that a source file belongs to."""
    return path.relative_to(ROOT).with_suffix("").parts[:2]


def import_graph(sources: dict[Path, str]) -> dict[Node, set[Node]]:
    """Finds the nodes that each node imports."""
    nodes = {module_of(path): node_of(path) for path in sources}
    graph: dict[Node, set[Node]] = {node: set() for node in nodes.values()}
    for path, source in sources.items():
        for module, name in import_statements(source):
            # A name may be a module of the folder, which is then what is imported.
            imported = nodes.get(f"{module}.{name}", nodes.get(module))
            if imported is not None and imported != node_of(path):
                graph[node_of(path)].add(imported)
    return graph


def cycle_of(graph: dict[Node, set[Node]]) -> str | None:
    """Names a cycle in words, if there is one."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return " <- ".join("/".join(node) for node in error.args[1])
    return None


def test_every_part_stands_in_the_table() -> None:
    assert {part_of(path) for path in SOURCES} == set(TABLE)


def test_imports_go_leftwards_only() -> None:
    assert [
        f"{module_of(path)} imports {module}"
        for path, source in SOURCES.items()
        for module in imported_modules(source)
        if not may_import(TABLE[part_of(path)], module)
    ] == []


def may_import(part: Part, module: str) -> bool:
    """Tells whether the table allows it, and pyproject.toml requires it."""
    root, *parts = module.split(".")
    if root == PACKAGE:
        # `from botorch_pref import X` counts as a layer through X.
        return not parts or parts[0] in {part.name, "errors", *part.uses}
    if root in EXTRAS:
        return root in part.extras
    return root in REQUIRED or root in sys.stdlib_module_names


def test_the_table_is_ordered() -> None:
    """A part only uses parts that stand before it: there is no cycle between parts."""
    order = list(TABLE)
    for name, part in TABLE.items():
        later = [used for used in part.uses if order.index(used) >= order.index(name)]
        assert not later, f"{name} uses {later}, which stand behind it"


def test_folders_and_root_modules_import_each_other_in_one_direction() -> None:
    graph = import_graph(SOURCES)
    assert len(graph) > 50
    assert cycle_of(graph) is None


def test_every_use_that_the_table_allows_exists() -> None:
    used = {part: set() for part in TABLE}
    for path, source in SOURCES.items():
        for module, name in import_statements(source):
            parts = module.split(".")
            if parts[0] == PACKAGE:
                used[part_of(path)].add(parts[1] if len(parts) > 1 else name)
    for part in PARTS:
        unused = set(part.uses) - used[part.name]
        assert not unused, f"{part.name} may use {unused}, and does not"


def test_the_widget_needs_no_server() -> None:
    """Its extra brings none, so that none of the modules that it imports may."""
    web = {module_of(path): imported_modules(s) for path, s in SOURCES.items()}
    reached = [f"{PACKAGE}.web.widget"]
    for module in reached:
        imports = web[module]
        assert not [
            module_name
            for module_name in imports
            if module_name.startswith("starlette")
        ], module
        folder = [
            module_name
            for module_name in imports
            if module_name.startswith(f"{PACKAGE}.web.")
        ]
        reached += [
            module_name
            for module_name in folder
            if module_name in web and module_name not in reached
        ]
    assert len(reached) > 3
