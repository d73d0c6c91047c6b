"""Files of the page and the widget, as they are in the package."""

from pathlib import Path

STATIC = Path(__file__).parent / "static"
"""Folder of all of them."""

SCRIPT, STYLE = STATIC / "question.js", STATIC / "question.css"
PAGE = STATIC / "page.html"
