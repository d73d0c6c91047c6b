"""Names say what they hold: hardly one is a function word, which could hold anything.

Docstrings of functions begin with a verb, and others with a noun.
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

TESTS = Path(__file__).parent
FOLDERS = [
    *(PACKAGE, TESTS),
    *sorted(
        path
        for parent in (PACKAGE, TESTS)
        for path in parent.iterdir()
        if path.is_dir() and any(path.rglob("*.py"))
    ),
]
"""Folders with all that is below them: the two whole ones, and each part."""


def assigned_names(file: Path) -> Iterator[tuple[str, int]]:
    """Yields names to which a file assigns, and their lines."""
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            if not node.id.startswith("__"):
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
    # A folder of few names may have one.
    allowed = max(1, LIMIT * len(names))
    assert len(words) <= allowed, (
        f"{len(words)} of {len(names)} names are function words, {allowed:.0f} may be; "
        f"say what they hold: {', '.join(words)}"
    )


NO_NOUNS = "As At Beyond By From How In Of On That Those Up What When Where Which Who"
"""Words with which no value is named, so that no docstring begins with them."""


def first_words(file: Path) -> Iterator[tuple[str, bool, int]]:
    """Yields first words of docstrings, whether they are of functions, and lines.

    Properties and fixtures are values, and docstrings of tests are about their cases.
    """
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if str(getattr(node, "name", "")).startswith("test_"):
            continue
        decorators = " ".join(map(ast.unparse, getattr(node, "decorator_list", ())))
        is_value = "property" in decorators or "fixture" in decorators
        body = getattr(node, "body", ())
        for statement in body if isinstance(body, list) else ():
            value = getattr(statement, "value", None)
            text = getattr(value, "value", None)
            if isinstance(statement, ast.Expr) and isinstance(text, str):
                is_function = isinstance(node, ast.FunctionDef) and not is_value
                yield text.split()[0], is_function, statement.lineno


def is_verb(word: str) -> bool:
    """Tells whether a word could be a verb in the third person, or refers elsewhere.

    "Computes" could, and so could "Values"; "Mean", "The" or a formula could not.
    """
    return word == "See" or (word.isalpha() and word.endswith("s"))


@pytest.mark.parametrize("folder", [PACKAGE, TESTS], ids=lambda path: path.name)
def test_docstrings_begin_with_a_verb_or_a_noun(folder: Path) -> None:
    no_nouns = NO_NOUNS.split()
    wrong = [
        f"{file.relative_to(folder)}:{line} ({word})"
        for file in sorted(folder.rglob("*.py"))
        for word, is_function, line in first_words(file)
        if word in no_nouns or (is_function and not is_verb(word))
    ]
    assert not wrong, (
        "docstrings of functions begin with a verb in the third person, others with a "
        f"noun; say so in {', '.join(wrong)}"
    )


def test_a_module_shares_its_name_with_no_other() -> None:
    """But those of lines: their answers, likelihoods and designs, in three layers."""
    stems = [path.stem for path in PACKAGE.rglob("*.py") if path.stem != "__init__"]
    assert {stem for stem in stems if stems.count(stem) > 1} <= {"lines"}
