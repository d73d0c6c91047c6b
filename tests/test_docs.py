"""What the documentation says of the code."""

import importlib
import importlib.util
import re
import warnings
from pathlib import Path

import pytest

from botorch_pref.likelihoods.registry import registered_likelihoods
from botorch_pref.models import engine_table
from botorch_pref.models.registry import registered_models

PACKAGE = "botorch_pref"
DOCS = Path(__file__).parents[1] / "docs"


def _cells(text: str) -> dict[tuple[str, str, str], str]:
    """Marks of a table of engines by kind of answer, likelihood and model."""
    lines = [line.strip("|").split("|") for line in text.splitlines()]
    rows = [[cell.strip(" `") for cell in line] for line in lines]
    (_, _, *models), _, *rest = rows
    return {
        (kind, likelihood, model): mark
        for kind, likelihood, *marks in rest
        for model, mark in zip(models, marks, strict=True)
    }


def test_the_table_of_engines_is_the_one_that_the_code_prints() -> None:
    """Of all classes of the package: other tests register some of their own."""
    page = (DOCS / "feedback.md").read_text(encoding="utf-8")
    (table,) = re.findall(r"^\| feedback \| likelihood .*\n(?:\|.*\n)+", page, re.M)
    told, printed = _cells(table), _cells(engine_table())
    registered = [
        *registered_likelihoods().values(),
        *(entry.model_class for entry in registered_models()),
    ]
    others = {c.__name__ for c in registered if c.__module__.split(".")[0] != PACKAGE}
    assert told == {
        key: mark for key, mark in printed.items() if not others & set(key[1:])
    }


def _names_in(text: str) -> list[str]:
    return sorted(set(re.findall(r"`(botorch_pref(?:\.\w+)+)`", text)))


def _exists(name: str) -> bool:
    """Whether a dotted name is a module or an attribute of one."""
    if importlib.util.find_spec(name.rpartition(".")[0]) is None:
        return False
    owner = importlib.import_module(name.rpartition(".")[0])
    return hasattr(owner, name.rpartition(".")[-1]) or bool(
        importlib.util.find_spec(name)
    )


@pytest.mark.parametrize(
    "name", _names_in((DOCS / "glossary.md").read_text(encoding="utf-8"))
)
def test_what_the_glossary_refers_to_exists(name: str) -> None:
    with warnings.catch_warnings():
        # Ax imports its own old names.
        warnings.filterwarnings("ignore", "ax.service", DeprecationWarning)
        assert _exists(name)


def test_names_that_do_not_exist_are_found() -> None:
    assert not _exists("botorch_pref.models.NoSuchModel")
    assert not _exists("botorch_pref.no_such_folder.module")
