"""Refusals of the server, of which nothing is stored."""

import json
import socket
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest
from browsing import serving
from calling import Page

from botorch_pref.ax import PreferenceExperiment
from botorch_pref.errors import ExperimentError
from botorch_pref.web import app as guard
from botorch_pref.web import make_app

Serve = Callable[..., Page]


def test_nothing_is_served_or_stored_without_the_token(
    experiment: PreferenceExperiment, served: Serve
) -> None:
    experiment.ask(2)
    page = served(experiment, token="right")
    right, bearer = {"token": "right"}, {"Authorization": "Bearer right"}
    wrong = {"Authorization": "Bearer wrong"}

    def status(**keywords: Any) -> int:
        return page.client.get(path, **keywords).status_code

    for path in ("/", "/report", "/api/question", "/api/progress"):
        for token in ({}, {"token": "wrong"}, {"token": ""}, {"token": "right2"}):
            assert status(params=token) == 403, f"{path} is served with {token}"
        assert status(headers=bearer) == status(params=right) == 200
        assert status(params=right, headers=wrong) == 403
    for call in ("answer", "skip", "undo", "own", "claim"):
        assert "token" in page.post(call, 403, question=0, winner=0)["error"]
    assert page.log == []


@pytest.mark.parametrize("token", ["", " ", "secret ", "пароль", "a\nb", 5, b"secret"])
def test_a_token_that_no_request_can_bring_is_refused(
    token: Any, experiment: PreferenceExperiment
) -> None:
    """An empty one let everybody in."""
    with pytest.raises(ExperimentError, match="token is empty or has characters"):
        make_app(experiment, token=token)
    for hosts in (5, [5], None):
        with pytest.raises(ExperimentError, match="hosts is"):
            make_app(experiment, token="a long secret", hosts=hosts)


WRONG: list[tuple[int, Any, str]] = [
    (400, {"winner": 0}, "question"),
    (400, {"question": "0", "winner": 0}, "question"),
    (400, {"question": False, "winner": 0}, "question"),
    (400, {"question": 7, "winner": 0}, "no question with the index 7"),
    (400, {"question": 0}, "says nothing"),
    (400, {"question": 0, "winner": 2}, "winner"),
    (400, {"question": 0, "winer": 0}, "winer"),
    (400, {"question": 0, "order": [1, 0], "winner": 0}, "order"),
    (400, {"question": 0, "winner": 0, "rater": 3}, "rater"),
    (400, {"question": 0, "winner": 0, "seconds": -1}, "seconds"),
    (400, {"question": 0, "winner": 0, "note": "x" * 2001}, "note"),
    (400, {"question": 0, "winner": 0, "note": "half \ud800"}, "note"),
    (400, {"question": 0, "winner": 0, "note": "null \0"}, "note"),
    (400, {"question": 0, "winner": 0, "rater": "null \0"}, "rater"),
    (404, {"question": 0, "winner": 0, "experiment": "half \ud800"}, "half ?"),
    (400, {"question": 0, "winner": 0, "half \ud800": 1}, "half ?"),
    (400, {"question": 0, "winner": 0, "seconds": 10**400}, "seconds"),
    (400, {"question": 0, "strength": 10**400}, "strength"),
    (400, {"question": 0, "ratings": [0.5, -(10**400)]}, "ratings"),
    (400, [0, 1], "object"),
    (413, {"question": 0, "winner": 0, "note": "x" * guard.MAX_BYTES}, "bytes"),
]
BODIES = [b"", b"{", b"\xff\xfe", b"[" * 50_000, b"NaN"]


def test_wrong_answers_get_a_reason_and_store_nothing(page: Page) -> None:
    page.experiment.ask(2)
    for status, keywords, message in WRONG:
        assert message in page.send("answer", json.dumps(keywords), status)["error"], (
            f"sent {keywords}"
        )
    for body in BODIES:
        assert "body" in page.send("answer", body, 400)["error"], f"sent {body[:9]}"
    # A form of another site.
    for kind in ("text/plain", "application/x-www-form-urlencoded"):
        reply = page.client.post(
            "/api/answer",
            content='{"question": 0, "winner": 0}',
            headers={"Content-Type": kind},
        )
        assert reply.status_code == 415
    assert page.log == []


def test_numbers_that_are_not_finite_are_refused(page: Page) -> None:
    question = page.experiment.ask(2)
    first, second = ({**option} for option in question.options)
    second["leaf (g)"] = 12345.5
    keywords = {"question": 0, "strength": 12345.5, "options": [first, second]}
    for number in ("NaN", "Infinity", "-Infinity", "1e999"):
        body = json.dumps(keywords).replace("12345.5", number)
        for call in ("own", "answer"):
            reply = page.send(call, body, 400)
            assert f"the number {number} is not finite" in reply["error"]
    assert page.experiment.pending == [question]
    assert page.log == []


def test_a_body_of_unknown_length_is_cut_off(page: Page) -> None:
    def endless() -> Iterator[bytes]:
        for _ in range(2 + guard.MAX_BYTES // 1024):
            yield b" " * 1024

    page.send("answer", endless(), 413)


def test_a_body_that_stalls_is_waited_for_no_longer_than_its_time(
    experiment: PreferenceExperiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "BODY_SECONDS", 0.1)
    with serving(make_app(experiment)) as address:
        place = urlsplit(address)
        head = (
            f"POST /api/answer HTTP/1.1\r\nHost: {place.netloc}\r\n"
            "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n"
        )
        with socket.create_connection((place.hostname, place.port), 60) as phone:
            phone.sendall(f'{head}{{"question": '.encode())
            reply = b"".join(iter(lambda: phone.recv(4096), b""))
    assert reply.startswith(b"HTTP/1.1 408 ")
    assert b"The body did not come within 0.1 seconds" in reply


KNOWN = [
    *("localhost", "LOCALHOST:80", "localhost.", "127.0.0.1:8000", "192.168.0.7"),
    *("[::1]:8000", "[::ffff:127.0.0.1]", "tea.example", "TEA.example.:443"),
]
FOREIGN: list[str | bytes] = [
    *("evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.evil"),
    *("tea.example.evil", "notlocalhost", "2130706433", "", ":8000", "[::1", "[evil]"),
    # As urlsplit reads them, these are of 127.0.0.1 or of localhost.
    *("127.0.0.1#evil.com", "127.0.0.1@evil.com", "evil.com@127.0.0.1"),
    *("127.0.0.1/evil.com", "127.0.0.1?evil.com", "127.0.0.1:80:80", "localhost:"),
    *("127.0.0.1:evil", "127.0.0.1:-80", "127.0.0.1 .evil.com", "127.0.0.1,evil.com"),
    *("localhost..", "::1", "[127.0.0.1", "tea.example\\evil.com", "tea_example"),
    # Letters that become those of a name, or digits, where Unicode is folded.
    *(
        "tea.e\u017fample".encode(),
        "127.0.0.\u0661".encode(),
        "local\u00adhost".encode(),
    ),
    *("127\u30020\u30020\u30021".encode(), b"\xb927.0.0.1", b"localhost\x00"),
]


def test_a_name_that_leads_here_from_another_site_is_refused(
    experiment: PreferenceExperiment, served: Serve
) -> None:
    """As by DNS rebinding: its scripts would read the page as their own."""
    page = served(experiment, hosts=["Tea.example"])

    def reply(path: str, *hosts: str | bytes) -> Any:
        headers = [("Host", host) for host in hosts]
        return page.client.get(path, headers=headers)

    for host in KNOWN:
        for path in ("/", "/api/question", "/static/question.js"):
            assert reply(path, host).status_code == 200, f"{path} is refused to {host}"
    for host in FOREIGN:
        for path in ("/", "/static/question.js"):
            assert reply(path, host).status_code == 421, f"{path} is served to {host}"
        refused = reply("/api/question", host)
        assert refused.status_code == 421, f"a question is shown to {host}"
        assert "not served" in refused.json()["error"]
    for hosts in (["localhost", "evil.com"], ["localhost", "localhost"]):
        assert reply("/", *hosts).status_code == 421
    with pytest.raises(ExperimentError, match="list of names"):
        make_app(experiment, hosts="tea.example")


def test_a_client_that_leaves_while_sending_leaves_no_traceback(
    experiment: PreferenceExperiment, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a phone does that has lost its network."""
    index = experiment.ask(2).index
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


def test_too_many_requests_are_turned_away_until_time_has_passed(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(guard.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(guard, "BURST", 3.0)

    def statuses(count: int) -> list[int]:
        responses = [page.client.get("/api/progress") for _ in range(count)]
        return [reply.status_code for reply in responses]

    assert statuses(4) == [200, 200, 200, 429]
    now[0] += 2.0 / guard.RATE + 1e-9
    assert statuses(3) == [200, 200, 429]
    assert page.client.get("/static/question.js").status_code == 200


def test_every_reply_forbids_scripts_and_styles_in_the_text_and_other_hosts(
    experiment: PreferenceExperiment, served: Serve
) -> None:
    page = served(experiment, token="right")
    for path in ("/", "/?token=right", "/static/question.js", "/api/none?token=right"):
        headers = page.client.get(path).headers
        parts = headers["content-security-policy"].split("; ")
        policy = dict(part.split(" ", 1) for part in parts)
        assert policy["default-src"] == "'none'"
        sources = {source for value in policy.values() for source in value.split()}
        assert sources == {"'none'", "'self'", "data:", "blob:"}
        assert policy["script-src"] == policy["style-src"] == "'self'"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"


def test_no_file_of_the_page_names_another_host(page: Page) -> None:
    for name in ("page.html", "question.js", "question.css"):
        text = page.client.get(f"/static/{name}").text
        assert len(text) > 500
        named = [line for line in text.splitlines() if "://" in line]
        # The name of SVG's elements is no address.
        assert all("http://www.w3.org/2000/svg" in line for line in named), (
            f"lines with other addresses: {named}"
        )
