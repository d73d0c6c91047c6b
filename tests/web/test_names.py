"""Names that are entered late, that are needed, and that are written in odd ways."""

from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from calling import ask, post
from starlette.testclient import TestClient
from tea import create, log, stored

from botorch_pref.ax import PreferenceExperiment
from botorch_pref.web import desk as question_desk
from botorch_pref.web import desk as rater_places
from botorch_pref.web.service import PreferenceService

Serve = Callable[..., TestClient]


def pending(client: TestClient) -> int:
    return client.get("/api/progress").json()["pending"]


def test_a_name_that_comes_late_takes_over_what_nobody_in_particular_was_asked(
    experiment: PreferenceExperiment, served: Serve, tmp_path: Path
) -> None:
    client = served(experiment)
    waiting = ask(client, "bob")
    nameless = ask(client)
    while pending(client) < 4:
        pass
    claimed = post(client, "claim", rater="bob")
    assert claimed == {**nameless, "rater": "bob"}
    answered = []
    for _ in range(4):
        question = ask(client, "bob")
        answered.append(question["question"])
        post(client, "answer", question=answered[-1], rater="bob", winner=0)
    # Those of nobody in particular come first, and none of them is left.
    assert answered[0] == nameless["question"]
    assert answered[2] == waiting["question"]
    assert set(answered) == {0, 1, 2, 3}
    left = stored(tmp_path / "tea.db").pending
    assert [question.rater for question in left] == ["bob"] * len(left)


def test_a_question_in_the_making_is_for_the_name_that_is_entered_meanwhile(
    experiment: PreferenceExperiment, served: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking, free, ask_one = Event(), Event(), experiment.ask

    def slow(*args: Any, **options: Any) -> Any:
        asking.set()
        free.wait(60)
        return ask_one(*args, **options)

    monkeypatch.setattr(experiment, "ask", slow)
    client = served(experiment)
    assert client.get("/api/question?patience=0").status_code == 202
    assert asking.wait(60)
    assert post(client, "claim", 202, rater="bob")["question"] is None
    free.set()
    assert ask(client, "bob")["question"] == 0
    assert experiment.pending[0].rater is None


def test_what_is_skipped_while_the_name_is_entered_can_be_undone_under_it(
    experiment: PreferenceExperiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = PreferenceService(experiment, lambda *part: "", apart=False)
    withdraw = question_desk.withdraw_unanswered

    def slow(*args: Any) -> bool:
        service.claim({"rater": "bob"})
        return withdraw(*args)

    monkeypatch.setattr(question_desk, "withdraw_unanswered", slow)
    asked = service.question({})["question"]
    service.skip({"question": asked})
    assert service.undo({"rater": "bob"})["question"] == asked
    service.close()


def test_who_still_has_the_question_on_display_may_answer_it_and_the_first_counts(
    experiment: PreferenceExperiment, served: Serve
) -> None:
    client = served(experiment)
    index = ask(client)["question"]
    post(client, "claim", rater="bob")
    post(client, "answer", question=index, winner=1)
    assert ask(client, "bob")["question"] != index
    post(client, "answer", 409, question=index, rater="bob", winner=0)
    assert log(experiment) == [("told", index, {"winner": 1, "rater": None})]


@pytest.mark.parametrize("rater", [None, "", "  ", 3, "x" * 101])
def test_only_a_name_takes_over(
    experiment: PreferenceExperiment, served: Serve, rater: Any
) -> None:
    client = served(experiment)
    before = ask(client)
    assert "rater" in post(client, "claim", 400, rater=rater)["error"]
    assert ask(client) == before


def test_no_call_makes_room_for_more_than_there_is(
    experiment: PreferenceExperiment, served: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rater_places, "MAX_RATERS", 1)
    client = served(experiment)
    index = ask(client, "ann")["question"]
    for call in ("skip", "claim", "answer", "undo"):
        given = {"question": index, "winner": 0, "rater": "bob"}
        assert "1 people" in post(client, call, 400, **given)["error"]
    assert log(experiment) == []


def test_where_everybody_has_a_utility_a_name_is_asked_for(
    tmp_path: Path, served: Serve
) -> None:
    experiment = create(tmp_path / "tea.db", raters="share", num_levels=None)
    client = served(experiment)
    reply = client.get("/api/question")
    assert (reply.status_code, reply.json()["needs"]) == (400, "name")
    assert experiment.pending == []
    assert ask(client, "ann")["question"] == 0


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("e\u0301va", "\u00e9va"),
        ("山田\u3000太郎", "山田 太郎"),
        (" Ann\u00a0 B. ", "Ann B."),
        ("\u0645\u06cc\u200c\u0646\u0627", "\u0645\u06cc\u200c\u0646\u0627"),
        ("👩\u200d🔬", "👩\u200d🔬"),
        ("Robert'); DROP TABLE answers;--", "Robert'); DROP TABLE answers;--"),
        ("<b>&amp;", "<b>&amp;"),
    ],
)
def test_a_name_is_the_same_however_it_is_written(
    experiment: PreferenceExperiment,
    served: Serve,
    tmp_path: Path,
    written: str,
    name: str,
) -> None:
    client = served(experiment)
    index = ask(client, written)["question"]
    post(client, "answer", question=index, rater=written, winner=0)
    assert log(stored(tmp_path / "tea.db")) == [
        ("told", index, {"winner": 0, "rater": name})
    ]
    assert client.get("/api/progress", params={"rater": name}).json()["yours"] == 1


@pytest.mark.parametrize("name", ["a\nb", "a\x00", "\ud800", "a\u2028b", "x" * 10_000])
def test_what_is_no_name_is_refused(
    experiment: PreferenceExperiment, served: Serve, name: str
) -> None:
    client = served(experiment)
    reply = post(client, "claim", 400, rater=name)
    assert ("rater" in reply["error"], reply["needs"]) == (True, "name")
    assert not experiment.pending
