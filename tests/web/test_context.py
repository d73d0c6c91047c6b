"""Contexts, measured and not chosen: each person is asked where she is."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from browsing import Visitor, browser, missing, serving, until
from calling import Page
from selenium.webdriver.support.select import Select
from starlette.testclient import TestClient

from botorch_pref.ax import PreferenceExperiment
from botorch_pref.web import make_app
from botorch_pref.web.rater_places import RaterPlaces
from botorch_pref.web.service import PreferenceService

HERE = "http://127.0.0.1"
A, B = ({"room": room} for room in ("Aula", "Bar"))


def create(place: Path, **settings: Any) -> PreferenceExperiment:
    dose = RangeParameterConfig(name="dose", parameter_type="float", bounds=(14, 22))
    room = ChoiceParameterConfig(
        name="room",
        parameter_type="str",
        values=["Aula", "Bar", "Cellar"],
        is_ordered=False,
    )
    return PreferenceExperiment.create(
        "rooms", parameters=[dose, room], context=["room"], storage=place, **settings
    )


@pytest.fixture
def page(tmp_path) -> Iterator[Page]:
    experiment = create(tmp_path / "rooms.db", repeat_rate=0)
    with TestClient(make_app(experiment, size=2), base_url=HERE) as client:
        yield Page(client, experiment)


def asked(page: Page, context: dict[str, str] | None, rater: str = "ann") -> Any:
    """Gets the question that somebody is asked in a context."""
    stated = {} if context is None else {"context": json.dumps(context)}
    replies = (
        page.client.get("/api/question", params={"rater": rater, **stated})
        for _ in range(20)
    )
    reply = next(reply for reply in replies if reply.status_code != 202)
    assert reply.status_code == 200, reply.text
    return reply.json()


def rooms(question: dict[str, Any]) -> set[str]:
    return {option["room"] for option in question["options"]}


def test_nobody_is_asked_before_the_context_is_known(page) -> None:
    error = page.get("question", 400, rater="ann")
    assert error["needs"] == "context"
    assert "room" in error["error"]
    wrong = page.get("question", 400, rater="ann", context='{"room": "attic"}')
    assert wrong["needs"] == "context"
    assert "'Aula' or 'Bar'" in wrong["error"]
    assert page.get("question", 400, rater="ann", context="[1]")["error"]
    assert page.log == []


def test_the_context_holds_until_another_one_is_said(page) -> None:
    first = asked(page, A)
    assert first["context"] == A
    assert rooms(first) == {"Aula"}
    page.post("answer", question=first["question"], rater="ann", winner=0)
    second = asked(page, None)
    assert rooms(second) == {"Aula"}, "it was said once"
    third = asked(page, B)
    assert third["context"] == B
    assert rooms(third) == {"Bar"}
    # Nobody can answer what was to be asked in the other room.
    log = page.experiment.log
    elsewhere = [q for q in log.questions if log.context_of(q) == A]
    assert [q.pending for q in elsewhere] == [False] * len(elsewhere)
    assert log.questions[second["question"]].withdrawn


def test_a_question_of_a_room_that_was_left_is_nobodys(tmp_path) -> None:
    """Somebody goes to another room while the page chooses what to ask her."""
    experiment = create(tmp_path / "rooms.db", repeat_rate=0)
    places = RaterPlaces([])
    place = places.of("ann")
    place.context = dict(B)
    late, here = (experiment.ask(size=2, context=context) for context in (A, B))
    assert not places.give(place, late)
    assert places.give(place, here)
    assert list(place.questions) == [here]


def test_what_was_chosen_for_a_room_that_was_left_is_withdrawn(
    tmp_path, monkeypatch
) -> None:
    experiment = create(tmp_path / "rooms.db", repeat_rate=0)
    service = PreferenceService(experiment, str, size=2, separate_process=False)
    place = service._queue.place("ann")
    place.context, place.waiting_since = dict(A), 0.0
    choose = service._worker.ask

    def chosen_as_she_leaves(*args: Any) -> Any:
        questions = choose(*args)
        place.context = dict(B)
        return questions

    monkeypatch.setattr(service._worker, "ask", chosen_as_she_leaves)
    service._queue._ask_needy([("ann", place)], num_raters=1, num_removed=0)
    assert not place.questions
    assert [q.withdrawn for q in experiment.log.questions] == [True]
    service.close()


def test_each_person_has_a_context(page) -> None:
    for rater, context in (("ann", A), ("bob", B), ("ann", None), ("bob", None)):
        question = asked(page, context, rater)
        assert rooms(question) == ({"Aula"} if rater == "ann" else {"Bar"}), (
            f"{rater} is asked of another room"
        )
        page.post("answer", question=question["question"], rater=rater, winner=1)


def test_an_own_design_is_in_the_context(page) -> None:
    asked(page, B)
    designs = [{"dose": 15.0}, {"dose": 18.0}]
    question = page.post("own", rater="ann", options=designs)
    assert rooms(question) == {"Bar"}
    form = page.get("form")
    assert [field["name"] for field in form["fields"]] == ["dose"]
    assert [field["name"] for field in form["context"]] == ["room"]
    # All options are alike in it, and it stands above them.
    names = {row["name"] for part in question["shown"][0] for row in part["rows"]}
    assert names == {"dose"}


def test_findings_are_of_a_context(page) -> None:
    for context, best in ((A, 15.0), (B, 21.0)):
        for dose in (14.0, 16.5, 18.0, 19.5, 22.0):
            closer = sorted([dose, best], key=lambda x, best=best: abs(x - best))
            designs = [{"dose": x, **context} for x in closer]
            page.experiment.record(designs, winner=0)
    findings = page.get("findings", context=json.dumps(A))
    assert findings["context"] == A
    assert findings["options"][0]["dose"] == 15.0
    assert page.get("findings")["context"] == B, "that of the last answer"


def test_a_restart_goes_on_in_the_context(page) -> None:
    question = asked(page, B)
    app = make_app(
        PreferenceExperiment.resume("rooms", storage=page.experiment._stored.place)
    )
    with TestClient(app, base_url=HERE) as client:
        again = Page(client, page.experiment)
        assert asked(again, None)["question"] == question["question"]


@pytest.mark.slow
@pytest.mark.skipif(missing() is not None, reason=f"{missing()}")
def test_a_person_says_where_she_is(tmp_path) -> None:
    """On a phone: once before the first question, and again as it changes."""
    experiment = create(tmp_path / "rooms.db", repeat_rate=0)
    with browser() as driver, serving(make_app(experiment, size=2)) as address:
        visitor = Visitor(driver, 390)
        driver.get(f"{address}/?rater=ann")
        choice = until(lambda: visitor.all("#bp-field-room"))[0]
        visitor.is_usable()
        Select(choice).select_by_visible_text("Bar")
        visitor.click("Save")
        visitor.settled()
        visitor.answer("A is better")
        assert experiment.question(0).context == B
        assert visitor.button("room: Bar").is_displayed()
        visitor.is_usable()
        # A code that hangs in the next room.
        visitor.visit(f"{address}/?rater=ann&context=%7B%22room%22%3A%22Aula%22%7D")
        index = visitor.index()
        assert experiment.question(index).context == A
        visitor.click("room: Aula")
        # It is read from the server as it is opened.
        (field,) = until(lambda: visitor.all("dialog #bp-field-room"))
        Select(field).select_by_visible_text("Cellar")
        visitor.click("Save", within="dialog")
        until(lambda: visitor.all("button[aria-label^='room: Cellar']"))
        index = visitor.index()
        assert experiment.question(index).context == {"room": "Cellar"}
        refused = [line for line in visitor.complaints() if "400" not in line]
        assert refused == [], "but for the first call, which had no context"
