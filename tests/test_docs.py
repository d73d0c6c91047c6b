"""What the documentation says of the code."""

from pathlib import Path

from botorch_pref.models import engine_table

DOCS = Path(__file__).parents[1] / "docs"


def test_the_table_of_engines_is_the_one_that_the_code_prints() -> None:
    assert engine_table() in (DOCS / "feedback.md").read_text(encoding="utf-8")
