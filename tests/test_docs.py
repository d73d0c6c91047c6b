"""What the documentation says of the code."""

import importlib
import importlib.util
import re
import warnings
from pathlib import Path

import pytest

from botorch_pref.models import engine_table

DOCS = Path(__file__).parents[1] / "docs"


def test_the_table_of_engines_is_the_one_that_the_code_prints() -> None:
    assert engine_table() in (DOCS / "feedback.md").read_text(encoding="utf-8")


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
