"""The first lines of docstrings: a noun phrase for a thing, what a function does."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]

PREPOSITIONS = {
    *("about", "after", "against", "around", "as", "at", "before", "between", "beyond"),
    *("by", "for", "from", "in", "into", "of", "on", "over", "than", "to", "under"),
    *("until", "upon", "with", "without"),
}
REFERENCES = {
    *("its", "their", "theirs", "them", "these", "they", "this", "those", "that"),
    *("how", "what", "when", "where", "which", "who", "whose", "why"),
}
COPULAS = {"is", "are", "was", "were", "has", "have", "had", "does", "do"}
"""Verbs that make a sentence of what should name a thing."""

VERBS = {
    *("adds", "asks", "averages", "chooses", "continues", "cuts"),
    *("extrapolates", "fit", "fits", "gives", "holds", "keeps", "knows", "lets"),
    *("makes", "maximises", "optimises", "picks", "prefers", "prints", "raises"),
    *("runs", "says", "takes", "tells", "tries", "uses", "works"),
}
"""Verbs that began the description of a class or a module once."""

POINTERS = ("See base class", "See :")
"""Openings that send the reader to another docstring."""

# Parts of the package whose first lines are still to be rewritten.
UNMENDED: set[str] = set()


class FirstLine(NamedTuple):
    """The first line of a docstring and what it describes.

    Attributes:
        where: File, line and name.
        names_a_thing: Whether it is that of a module, a class or a property.
        text: The line.
    """

    where: str
    names_a_thing: bool
    text: str


def first_lines(source: str, path: str) -> Iterator[FirstLine]:
    """The first line of every docstring of a source."""
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, kinds) and (text := ast.get_docstring(node)):
            thing = isinstance(node, ast.Module | ast.ClassDef) or any(
                "property" in ast.unparse(decorator)
                for decorator in node.decorator_list
            )
            name = getattr(node, "name", "module")
            where = f"{path}:{getattr(node, 'lineno', 1)} {name}"
            yield FirstLine(where, thing, text.splitlines()[0])


def complaint(line: FirstLine) -> str | None:
    """What is wrong with a first line, if anything."""
    if line.text.startswith(POINTERS):
        return None
    words = [word.strip("\"'`.,:;!?()").lower() for word in line.text.split()]
    if len(words) < 3:
        return "shorter than three words"
    if words[0] in PREPOSITIONS | REFERENCES or words[:2] == ["see", "above"]:
        return f"begins with {words[0]!r}, which names nothing"
    if words[:2] == ["the", "way"]:
        return "begins with 'the way', which names nothing"
    if words[-1] in PREPOSITIONS and words[-2:] != ["so", "on"]:
        return f"ends in {words[-1]!r}"
    if line.names_a_thing and words[0] in VERBS | COPULAS:
        return f"begins with the verb {words[0]!r}, but describes a thing"
    subject = 2 if words[0] in {"a", "an", "the"} else 1
    if line.names_a_thing and words[subject] in COPULAS:
        return "is a sentence, but describes a thing"
    return None


MENDED = [
    path
    for folder in ("botorch_pref", "benchmarks")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if not UNMENDED & set(path.relative_to(ROOT).parts)
]


@pytest.mark.parametrize(
    "path",
    MENDED,
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_first_lines_name_the_object(path: Path) -> None:
    lines = first_lines(path.read_text(encoding="utf-8"), path.name)
    found = [(line.where, line.text, complaint(line)) for line in lines]
    assert not [entry for entry in found if entry[-1] is not None]


@pytest.mark.parametrize(
    "text",
    [
        "Theirs.",
        "``q``.",
        "Of the run so far.",
        "The way there, as far as it goes.",
        "See above.",
        "Its share of the total.",
        "What a model hands on.",
        "The point that a duel is about.",
        "Asks questions and is told answers.",
        "A trial is valid where its utility is positive.",
    ],
)
def test_cryptic_first_lines_are_found(text: str) -> None:
    (line,) = first_lines(f'"""{text}"""', "example.py")
    assert complaint(line)


@pytest.mark.parametrize(
    "text", ["Sites of expectation propagation.", "The mean, ``batch_shape x q``."]
)
def test_noun_phrases_pass(text: str) -> None:
    (line,) = first_lines(f'"""{text}"""', "example.py")
    assert complaint(line) is None
