"""What the server refuses, of which nothing is stored."""

import json
import socket
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest
from browsing import serving
from starlette.testclient import TestClient
from tea import log

from botorch_pref.ax import PreferenceExperiment
from botorch_pref.errors import ExperimentError
from botorch_pref.web import app as guard
from botorch_pref.web import make_app

Serve = Callable[..., TestClient]


@pytest.mark.parametrize("path", ["/", "/report", "/api/question", "/api/progress"])
def test_nothing_is_served_without_the_token(
    experiment: PreferenceExperiment, served: Serve, path: str
) -> None:
    client = served(experiment, token="right")
    for given in ({}, {"token": "wrong"}, {"token": ""}, {"token": "right2"}):
        assert client.get(path, params=given).status_code == 403
    bearer = {"Authorization": "Bearer right"}
    assert client.get(path, headers=bearer).status_code == 200
    assert client.get(path, params={"token": "right"}).status_code == 200
    wrong = {"Authorization": "Bearer wrong"}
    assert client.get(path, params={"token": "right"}, headers=wrong).status_code == 403


def test_nothing_is_stored_without_the_token(
    experiment: PreferenceExperiment, served: Serve
) -> None:
    client = served(experiment, token="right")
    experiment.ask()
    for call in ("answer", "skip", "undo", "own"):
        reply = client.post(f"/api/{call}", json={"question": 0, "winner": 0})
        assert reply.status_code == 403
        assert "token" in reply.json()["error"]
    assert log(experiment) == []


WRONG: list[tuple[int, Any, str]] = [
    (400, {"winner": 0}, "question"),
    (400, {"question": "0", "winner": 0}, "question"),
    (400, {"question": True, "winner": 0}, "question"),
    (400, {"question": 7, "winner": 0}, "no question 7"),
    (400, {"question": 0}, "says nothing"),
    (400, {"question": 0, "winner": 2}, "winner"),
    (400, {"question": 0, "winner": "0"}, "winner"),
    (400, {"question": 0, "winner": 0, "tie": True}, "give one of them"),
    (400, {"question": 0, "winer": 0}, "winer"),
    (400, {"question": 0, "order": [1, 0], "winner": 0}, "order"),
    (400, {"question": 0, "winner": 0, "rater": 3}, "rater"),
    (400, {"question": 0, "winner": 0, "rater": "x" * 101}, "rater"),
    (400, {"question": 0, "winner": 0, "rater": "a\nb"}, "rater"),
    (400, {"question": 0, "winner": 0, "seconds": -1}, "seconds"),
    (400, {"question": 0, "winner": 0, "note": "x" * 2001}, "note"),
    (400, {"question": 0, "winner": 0, "seconds": 10**400}, "seconds"),
    (400, {"question": 0, "strength": 1.5}, "strength"),
    (400, {"question": 0, "strength": 10**400}, "strength"),
    (400, {"question": 0, "ratings": [0.5, -(10**400)]}, "ratings"),
    (400, {"question": 0, "levels": [0, 5]}, "levels"),
    (400, {"question": 0, "ratings": "good"}, "ratings"),
    (400, [0, 1], "object"),
    (413, {"question": 0, "winner": 0, "note": "x" * guard.MAX_BYTES}, "bytes"),
]


@pytest.mark.parametrize(("status", "given", "said"), WRONG)
def test_wrong_answers_get_a_reason_and_store_nothing(
    experiment: PreferenceExperiment, served: Serve, status: int, given: Any, said: str
) -> None:
    client = served(experiment)
    experiment.ask()
    reply = client.post("/api/answer", json=given)
    assert reply.status_code == status
    assert said in reply.json()["error"]
    assert log(experiment) == []


@pytest.mark.parametrize("body", [b"", b"{", b"\xff\xfe", b"[" * 50_000, b"NaN"])
def test_bodies_that_are_no_json_objects_are_refused(
    experiment: PreferenceExperiment, served: Serve, body: bytes
) -> None:
    kind = {"Content-Type": "application/json"}
    reply = served(experiment).post("/api/answer", content=body, headers=kind)
    assert reply.status_code == 400
    assert "body" in reply.json()["error"]


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
@pytest.mark.parametrize("call", ["own", "answer"])
def test_numbers_that_are_not_finite_are_refused(
    experiment: PreferenceExperiment, served: Serve, call: str, number: str
) -> None:
    client, asked = served(experiment), experiment.ask()
    first, second = ({**option} for option in asked.options)
    second["leaf (g)"] = 12345.5
    given = {"question": 0, "strength": 12345.5, "options": [first, second]}
    body = json.dumps(given).replace("12345.5", number)
    kind = {"Content-Type": "application/json"}
    reply = client.post(f"/api/{call}", content=body, headers=kind)
    assert reply.status_code == 400
    assert f"the number {number} is not finite" in reply.json()["error"]
    assert experiment.pending == [asked]
    assert log(experiment) == []


KNOWN = ["localhost", "LOCALHOST:80", "127.0.0.1:8000", "192.168.0.7", "[::1]:8000"]
FOREIGN = [
    *("evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.evil"),
    *("tea.example.evil", "notlocalhost", "2130706433", "", ":8000", "[::1", "[evil]"),
]


def test_a_name_that_leads_here_from_another_site_is_refused(
    experiment: PreferenceExperiment, served: Serve
) -> None:
    """As by DNS rebinding: its scripts would read the page as their own."""
    client = served(experiment, hosts=["Tea.example"])
    for host in (*KNOWN, "tea.example", "TEA.example.:443"):
        for path in ("/", "/api/question", "/static/question.js"):
            assert client.get(path, headers={"Host": host}).status_code == 200
    for host in FOREIGN:
        for path in ("/", "/static/question.js"):
            assert client.get(path, headers={"Host": host}).status_code == 421
        reply = client.get("/api/question", headers={"Host": host})
        assert (reply.status_code, "not served" in reply.json()["error"]) == (421, True)
    with pytest.raises(ExperimentError, match="list of names"):
        served(experiment, hosts="tea.example")


def test_who_leaves_while_sending_leaves_no_traceback(
    experiment: PreferenceExperiment, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a phone does that has lost its network."""
    index = experiment.ask().index
    with serving(make_app(experiment)) as address:
        place = urlsplit(address)
        head = (
            f"POST /api/answer HTTP/1.1\r\nHost: {place.netloc}\r\n"
            "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n"
        )
        with socket.create_connection((place.hostname, place.port)) as phone:
            phone.sendall(f'{head}{{"question": {index}, '.encode())
        # What comes after it is answered after it.
        with urlopen(f"{address}/api/progress") as reply:
            assert json.load(reply)["answered"] == 0
    assert capsys.readouterr().err == ""


def test_a_form_of_another_site_is_refused(
    experiment: PreferenceExperiment, served: Serve
) -> None:
    client = served(experiment)
    experiment.ask()
    body = '{"question": 0, "winner": 0}'
    for kind in ("text/plain", "application/x-www-form-urlencoded"):
        reply = client.post("/api/answer", content=body, headers={"Content-Type": kind})
        assert reply.status_code == 415
    assert log(experiment) == []


def test_a_body_of_unknown_length_is_cut_off(
    experiment: PreferenceExperiment, served: Serve
) -> None:
    def endless() -> Iterator[bytes]:
        for _ in range(2 + guard.MAX_BYTES // 1024):
            yield b" " * 1024

    kind = {"Content-Type": "application/json"}
    reply = served(experiment).post("/api/answer", content=endless(), headers=kind)
    assert reply.status_code == 413


def test_too_many_requests_are_turned_away_until_time_has_passed(
    experiment: PreferenceExperiment, served: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(guard.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(guard, "BURST", 3.0)
    client = served(experiment)

    def statuses(count: int) -> list[int]:
        return [client.get("/api/progress").status_code for _ in range(count)]

    assert statuses(4) == [200, 200, 200, 429]
    now[0] += 2.0 / guard.RATE + 1e-9
    assert statuses(3) == [200, 200, 429]
    assert client.get("/static/question.js").status_code == 200


def test_every_reply_forbids_scripts_and_styles_in_the_text_and_other_hosts(
    experiment: PreferenceExperiment, served: Serve
) -> None:
    client = served(experiment, token="right")
    for path in ("/", "/?token=right", "/static/question.js", "/api/none?token=right"):
        headers = client.get(path).headers
        policy = dict(
            part.split(" ", 1)
            for part in headers["content-security-policy"].split("; ")
        )
        assert policy["default-src"] == "'none'"
        sources = {source for value in policy.values() for source in value.split()}
        assert sources == {"'none'", "'self'", "data:", "blob:"}
        assert policy["script-src"] == policy["style-src"] == "'self'"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize("name", ["page.html", "question.js", "question.css"])
def test_no_file_of_the_page_names_another_host(
    experiment: PreferenceExperiment, served: Serve, name: str
) -> None:
    text = served(experiment).get(f"/static/{name}").text
    assert len(text) > 500
    named = [line for line in text.splitlines() if "://" in line]
    # The name of SVG's elements is no address.
    assert [line for line in named if "http://www.w3.org/2000/svg" not in line] == []
