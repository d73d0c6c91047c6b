"""Names say what they hold: hardly one is a function word, which could hold anything.

Counted are assigned names, loop variables and arguments. What BoTorch calls `posterior`
or `incumbent` is not called `found`, `given` or `other` here.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from layers import PACKAGE

FUNCTION_WORDS = """
all any as asked at both by each few found given heard here how it its kept known least
left less made many meant more most of one ones other others own rest said same seen
shown so some such taken that them there these they thing things this those to told way
what when where which who whole whose with
"""
LIMIT = 0.01
"""The share of names that may be function words."""
UNFINISHED: dict[str, float] = {}
"""Parts of the package above the limit, with the share that they may not exceed."""

TESTS = Path(__file__).parent
FOLDERS = sorted(
    path
    for parent in (PACKAGE, TESTS)
    for path in parent.iterdir()
    if path.is_dir() and any(path.rglob("*.py"))
)


def assigned_names(file: Path) -> Iterator[tuple[str, int]]:
    """Names to which a file assigns, and their lines."""
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno


@pytest.mark.parametrize(
    "folder", FOLDERS, ids=lambda path: f"{path.parent.name}/{path.name}"
)
def test_hardly_a_name_is_a_function_word(folder: Path) -> None:
    names = [
        (name, f"{file.relative_to(folder)}:{line}")
        for file in sorted(folder.rglob("*.py"))
        for name, line in assigned_names(file)
    ]
    banned = set(FUNCTION_WORDS.split())
    words = [f"{name} ({place})" for name, place in names if name.strip("_") in banned]
    limit = UNFINISHED.get(folder.name, LIMIT) if folder.parent == PACKAGE else LIMIT
    # A folder of few names may have one.
    allowed = max(1, limit * len(names))
    assert len(words) <= allowed, (
        f"{len(words)} of {len(names)} names are function words, {allowed:.0f} may be; "
        f"say what they hold: {', '.join(words)}"
    )
