"""Texts of the page: those of whoever runs the experiment, and those of a language."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from string import Formatter
from typing import Any

from botorch_pref.ax.user_values import argument_error, is_text
from botorch_pref.errors import ExperimentError

STATIC = Path(__file__).parent / "static"
"""Folder of the page, and of the script and the style that the widget has too."""

LANGUAGES = tuple(sorted(path.stem for path in (STATIC / "texts").iterdir()))
"""Languages whose tables of texts come with the package."""

_MAX_TEXT = 2000
_LANGUAGE_TAG = re.compile("[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*")
_PLURALS = ("zero", "one", "two", "few", "many", "other")
"""Numbers that languages tell apart, as ``Intl.PluralRules`` calls them."""


@dataclass(frozen=True)
class PageTexts:
    """Texts of a page; see `make_app`. ``table`` has those of its language."""

    title: str | None = None
    question: str | None = None
    introduction: str | None = None
    language: str | Mapping[str, str] = "en"
    table: Mapping[str, str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Refuses what is no text to be read, and tables that lack some."""
        for name in ("title", "question", "introduction"):
            text = getattr(self, name)
            if text is not None and not _is_readable(text):
                short = f"a text of at most {_MAX_TEXT} characters, or leave it out"
                raise argument_error(name, text, short)
        object.__setattr__(self, "table", language_table(self.language))


def language_table(language: str | Mapping[str, str]) -> Mapping[str, str]:
    """Returns the texts of the page by their names, with ``lang`` and ``dir``."""
    if isinstance(language, Mapping):
        return _checked(dict(language))
    if language not in LANGUAGES:
        raise argument_error(
            "language",
            language,
            f"one of {', '.join(LANGUAGES)}, or a table of all texts as "
            f"{STATIC / 'texts' / 'en.json'} has them",
        )
    return _texts_of(language)


def _is_readable(text: object) -> bool:
    return is_text(text) and 0 < len(str(text).strip()) <= len(str(text)) <= _MAX_TEXT


def _texts_of(language: str) -> dict[str, str]:
    file = STATIC / "texts" / f"{language}.json"
    texts: dict[str, str] = json.loads(file.read_text(encoding="utf-8"))
    return texts


def _checked(table: dict[str, Any]) -> dict[str, str]:
    """Returns a user's table of texts, if it has what the page needs in a language.

    Names and fields in braces are those of the English table, plurals those of any
    language.
    """
    english = _texts_of("en")
    plurals = {name.partition(".")[0] for name in english if "." in name}
    allowed = {*english, *(f"{name}.{kind}" for name in plurals for kind in _PLURALS)}
    # Some languages have no form of their own for one thing, as Chinese.
    needed = {name for name in english if not name.endswith(".one")}
    for names, fault in ((needed - {*table}, "lacks"), ({*table} - allowed, "has")):
        if names:
            raise ExperimentError(
                f"language {fault} {', '.join(map(repr, sorted(map(str, names))))}; "
                f"give the names of {STATIC / 'texts' / 'en.json'}."
            )
    for name, text in table.items():
        key = name if name in english else f"{name.partition('.')[0]}.other"
        if not _is_readable(text) or _fields(text) != _fields(english[key]):
            raise argument_error(
                f"language[{name!r}]", text, f"a text like {english[key]!r}"
            )
    if _LANGUAGE_TAG.fullmatch(table["lang"]) is None:
        raise argument_error(
            "language['lang']", table["lang"], "a tag such as 'en' or 'pt-BR'"
        )
    if table["dir"] not in ("ltr", "rtl"):
        raise argument_error("language['dir']", table["dir"], "'ltr' or 'rtl'")
    return table


def _fields(text: str) -> set[str]:
    """Returns the names in braces, in whose place the page writes values."""
    try:
        return {field for _, field, _, _ in Formatter().parse(text) if field}
    # A brace is alone: what is returned equals the fields of no English text.
    except ValueError:
        return {text}


def page_html(table: Mapping[str, str]) -> str:
    """Makes the HTML of the page, which holds a table of texts for its script."""
    page = (STATIC / "page.html").read_text(encoding="utf-8")
    # No text can end the element of the data, or begin another one.
    data = json.dumps(table, ensure_ascii=False).replace("<", "\\u003c")
    values = {
        "lang": html.escape(table["lang"]),
        "dir": html.escape(table["dir"]),
        "title": html.escape(table["whichIsPreferred"]),
        "texts": data,
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: values[match[1]], page)
