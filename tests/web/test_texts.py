"""The page in the language of those who answer."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from calling import Page

from botorch_pref.ax import PreferenceExperiment
from botorch_pref.errors import ExperimentError
from botorch_pref.web import service
from botorch_pref.web.texts import LANGUAGES, STATIC, language_table

SCRIPT = (STATIC / "question.js").read_text(encoding="utf-8")


def test_every_language_has_all_texts_that_the_page_says() -> None:
    assert LANGUAGES == ("de", "en")
    keys = {*re.findall(r'\bsay\("(\w+)"', SCRIPT)}
    assert len(keys) > 60
    for language in LANGUAGES:
        table = language_table(language)
        assert table["lang"] == language
        assert keys <= table.keys()
        # A user's table may be a copy of it.
        assert language_table(dict(table)) == table
        # Each text is said somewhere.
        names = {name.partition(".")[0] for name in table}
        assert {name for name in names if f'"{name}"' not in SCRIPT} == {"lang", "dir"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"undo": None}, "lacks 'undo'"),
        ({"undo": ""}, r"language\['undo'\] is ''"),
        ({"undone": "{count}"}, r"language\['undone'\] is '{count}'; give a text like"),
        ({"isBest": "{option"}, r"language\['isBest'\]"),
        ({"unknown": "x"}, "has 'unknown'"),
        ({"answers.few": "few"}, r"a text like '{count} answers'"),
        ({"lang": "<b>"}, "give a tag such as"),
        ({"dir": "up"}, "'ltr' or 'rtl'"),
    ],
)
def test_a_table_that_the_page_cannot_speak_by_is_refused(
    change: dict[str, Any], message: str
) -> None:
    table = {**language_table("en"), **change}
    with pytest.raises(ExperimentError, match=message):
        language_table({k: v for k, v in table.items() if v is not None})


def test_languages_that_count_otherwise_say_so() -> None:
    """Arabic has no one, but few and many."""
    table = dict(language_table("en")) | {"lang": "ar", "dir": "rtl"}
    del table["answers.one"]
    texts = {"answers.few": "{count} few", "answers.many": "{count} many"}
    assert language_table(table | texts)["answers.few"] == "{count} few"


def test_the_page_says_its_language_and_holds_its_texts(
    experiment: PreferenceExperiment, served: Callable[..., Page]
) -> None:
    table = dict(language_table("de")) | {"undo": "</script><script>alert(1)"}
    page = served(experiment, language=table)
    text = page.client.get("/").text
    assert '<html lang="de" dir="ltr">' in text
    assert "<title>Was ist Ihnen lieber?</title>" in text
    (data,) = re.findall(
        r'<script type="application/json" id=".*?">(.*?)</script>', text
    )
    assert json.loads(data) == table
    assert '<html lang="en" dir="ltr">' in page.client.get("/report").text
    with pytest.raises(ExperimentError, match="language is 'xx'; give one of de, en"):
        served(experiment, language="xx")


def test_truths_in_a_table_are_in_the_language_of_the_page(tmp_path: Path) -> None:
    parameters = [
        RangeParameterConfig(name="dose", parameter_type="float", bounds=(1, 9)),
        ChoiceParameterConfig(
            name="milk", parameter_type="bool", values=[True, False], is_ordered=False
        ),
    ]
    experiment = PreferenceExperiment.create(
        "tea", parameters=parameters, storage=tmp_path / "tea.db", initial=10_000
    )
    texts = service.PageTexts(language="de")
    options: dict[str, Any] = {"size": 2, "texts": texts, "separate_process": False}
    german = service.PreferenceService(experiment, lambda *part: "", **options)
    contents = german.question({})["shown"]
    german.close()
    assert {table[0]["rows"][1]["value"] for table in contents} <= {"ja", "nein"}
