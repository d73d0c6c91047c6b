"""Names that are entered late, that are needed, and that are written in odd ways."""

from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from calling import Page
from tea import create, log, stored

from botorch_pref.ax import PreferenceExperiment
from botorch_pref.web import question_queue
from botorch_pref.web.service import PreferenceService


def test_a_name_that_comes_late_takes_over_what_nobody_in_particular_was_asked(
    page: Page, tmp_path: Path
) -> None:
    waiting, nameless = page.ask("bob"), page.ask()
    while page.get("progress")["pending"] < 4:
        pass
    # What was chosen last is in the log a moment before it is in line.
    assert page.ask() == nameless
    assert page.post("claim", rater="bob") == {**nameless, "rater": "bob"}
    answered = [page.answer("bob") for _ in range(4)]
    # Those of nobody in particular come first, and none of them is left.
    assert answered[0] == nameless["question"]
    assert answered[2] == waiting["question"]
    assert set(answered) == {0, 1, 2, 3}
    pending = stored(tmp_path / "tea.db").pending
    assert [question.rater for question in pending] == ["bob"] * len(pending)


def test_a_question_in_the_making_is_for_the_name_that_is_entered_meanwhile(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking, free, ask_one = Event(), Event(), page.experiment.ask

    def slow(*args: Any, **options: Any) -> Any:
        asking.set()
        free.wait(60)
        return ask_one(*args, **options)

    monkeypatch.setattr(page.experiment, "ask", slow)
    page.get("question", 202, patience=0)
    assert asking.wait(60)
    assert page.post("claim", 202, rater="bob")["question"] is None
    free.set()
    assert page.ask("bob")["question"] == 0
    assert page.experiment.pending[0].rater is None


def test_what_is_skipped_while_the_name_is_entered_can_be_undone_under_it(
    experiment: PreferenceExperiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = PreferenceService(experiment, lambda *part: "", separate_process=False)
    withdraw = question_queue.withdraw_unanswered

    def slow(*args: Any) -> bool:
        service.claim({"rater": "bob"})
        return withdraw(*args)

    monkeypatch.setattr(question_queue, "withdraw_unanswered", slow)
    question = service.question({})["question"]
    service.skip({"question": question})
    assert service.undo({"rater": "bob"})["question"] == question
    service.close()


def test_what_was_skipped_before_the_name_can_be_undone_under_it(
    experiment: PreferenceExperiment,
) -> None:
    service = PreferenceService(experiment, lambda *part: "", separate_process=False)
    question = service.question({})["question"]
    service.skip({"question": question})
    service.claim({"rater": "bob"})
    assert service.undo({"rater": "bob"})["question"] == question
    service.close()


def test_a_page_that_still_has_the_question_may_answer_it_and_the_first_counts(
    page: Page,
) -> None:
    index = page.ask()["question"]
    page.post("claim", rater="bob")
    page.post("answer", question=index, winner=1)
    assert page.ask("bob")["question"] != index
    page.post("answer", 409, question=index, rater="bob", winner=0)
    assert page.log == [("told", index, {"winner": 1, "rater": None})]


def test_where_everybody_has_a_utility_a_name_is_asked_for(
    tmp_path: Path, served: Callable[..., Page]
) -> None:
    page = served(create(tmp_path / "tea.db", raters="share", num_levels=None))
    assert page.get("question", 400)["needs"] == "name"
    assert page.experiment.pending == []
    assert page.ask("ann")["question"] == 0


SPELLINGS = {
    "e\u0301va": "\u00e9va",
    "山田\u3000太郎": "山田 太郎",
    " Ann\u00a0 B. ": "Ann B.",
    "\u0645\u06cc\u200c\u0646\u0627": "\u0645\u06cc\u200c\u0646\u0627",
    "👩\u200d🔬": "👩\u200d🔬",
    "Robert'); DROP TABLE answers;--": "Robert'); DROP TABLE answers;--",
    "<b>&amp;": "<b>&amp;",
}


def test_a_name_is_the_same_however_it_is_written(page: Page, tmp_path: Path) -> None:
    events = []
    for spelling, name in SPELLINGS.items():
        index = page.answer(spelling)
        events.append(("told", index, {"winner": 0, "rater": name}))
        assert page.get("progress", rater=name)["yours"] == 1
    assert log(stored(tmp_path / "tea.db")) == events


def test_what_is_no_name_is_refused_and_takes_nothing_over(page: Page) -> None:
    before = page.ask()
    for name in ("a\nb", "a\x00", "\ud800", "a\u2028b", "x" * 101, 3):
        reply = page.post("claim", 400, rater=name)
        assert "rater" in reply["error"]
        assert reply["needs"] == "name"
    for nobody in (None, "", "  "):
        assert "rater" in page.post("claim", 400, rater=nobody)["error"]
    assert page.ask() == before
