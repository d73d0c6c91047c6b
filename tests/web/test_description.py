"""The calls as OpenAPI describes them, and clients of a few lines."""

import re
import subprocess
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from shutil import which
from threading import Thread
from typing import Any

import jsonschema
import pytest
import uvicorn
from calling import Page
from tea import OWN, log

from botorch_pref.ax import Answer, PreferenceExperiment
from botorch_pref.web import make_app
from botorch_pref.web.service import READS, WRITES

TOKEN = "a secret"
DOCS = Path(__file__).parents[2] / "docs" / "calls.md"


def described(page: Page) -> dict[str, Any]:
    reply = page.client.get("/openapi.json")
    assert reply.status_code == 200
    return reply.json()


def check_against(whole: dict[str, Any], schema: Any, value: Any) -> None:
    """Checks by another library, which knows the references of the whole."""
    jsonschema.validate(value, {**whole, **schema}, jsonschema.Draft202012Validator)


def reply_schema(whole: dict[str, Any], method: str, name: str, status: str) -> Any:
    responses = whole["paths"][f"/api/{name}"][method]["responses"]
    return responses[status]["content"]["application/json"]["schema"]


def test_every_call_is_described_and_nothing_else(page: Page) -> None:
    whole = described(page)
    assert whole["openapi"].startswith("3.1")
    assert whole["info"]["title"] == "tea"
    methods = {path: [*told] for path, told in whole["paths"].items()}
    reads = {f"/api/{name}": ["get"] for name in READS}
    assert methods == reads | {f"/api/{name}": ["post"] for name in WRITES}
    answer = whole["paths"]["/api/answer"]["post"]["requestBody"]["content"]
    sent = answer["application/json"]["schema"]
    jsonschema.Draft202012Validator.check_schema(sent)
    kinds = {part.name for part in fields(Answer)}
    others = {"question", "rater", "experiment", "seconds", "note"}
    assert kinds | others == {*sent["properties"]}
    # As the class says it, and in one line.
    assert sent["properties"]["ranking"]["description"] == (
        "All valid options, best first; those that share a place together, as in "
        "``[0, [1, 2], 3]``."
    )


def test_what_is_sent_and_got_is_as_described(page: Page) -> None:
    whole = described(page)
    question = page.ask("ann")
    check_against(whole, reply_schema(whole, "get", "question", "200"), question)
    body = whole["paths"]["/api/answer"]["post"]["requestBody"]["content"]
    sent = body["application/json"]["schema"]
    said = {"question": question["question"], "rater": "ann", "winner": 1}
    check_against(whole, sent, said)
    check_against(whole, sent, {**said, "ranking": [0, [1, 2], 3]})
    for wrong in ({**said, "winner": "first"}, {"winner": 0}, {**said, "ratings": 1}):
        with pytest.raises(jsonschema.ValidationError):
            check_against(whole, sent, wrong)
    stored = page.post("answer", **said)
    check_against(whole, reply_schema(whole, "post", "answer", "200"), stored)
    again = page.post("undo", rater="ann", question=question["question"])
    check_against(whole, reply_schema(whole, "post", "undo", "200"), again)
    own = page.post("own", options=OWN, rater="ann")
    check_against(whole, reply_schema(whole, "post", "own", "200"), own)
    refused = page.post("answer", 400, question=own["question"], shout=1)
    check_against(whole, reply_schema(whole, "post", "answer", "default"), refused)


def test_what_is_read_is_described_to_the_last_key(page: Page) -> None:
    whole = described(page)
    page.answer("ann", winner=0)
    page.answer("ben", tie=True, note="alike", seconds=3.5)
    components = whole["components"]["schemas"]
    assert {*page.ask("ann")} <= {*components["Question"]["properties"]}
    for name in ("progress", "history", "form", "findings"):
        schema = reply_schema(whole, "get", name, "200")
        reply = page.get(
            name, **({} if name in ("form", "findings") else {"rater": "ben"})
        )
        check_against(whole, schema, reply)
        assert {*reply} == {*schema["properties"]}
    (answer,) = page.get("history", rater="ben")["answers"]
    entry = reply_schema(whole, "get", "history", "200")["properties"]["answers"]
    assert {*answer} == {*entry["items"]["properties"]}
    refused = page.get("question", 400, rater="x" * 200)
    assert refused["needs"] == "name"
    assert {*refused} <= {*components["Error"]["properties"]}


@pytest.fixture
def address(experiment: PreferenceExperiment) -> Iterator[str]:
    """The address of a server of the experiment, which is asked for a token."""
    app = make_app(experiment, token=TOKEN, size=2)
    config = uvicorn.Config(app, "127.0.0.1", port=0, log_level="error")
    server = uvicorn.Server(config)
    thread = Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()


def client_of_docs(language: str) -> str:
    pattern = rf"<!-- {language} client -->\n```{language}\n(.*?)^```"
    (block,) = re.findall(pattern, DOCS.read_text("utf-8"), re.S | re.M)
    return block


def stored_answers(experiment: PreferenceExperiment) -> list[Any]:
    return [(kind, said) for kind, _, said in log(experiment)]


def test_ten_lines_of_python_answer(
    experiment: PreferenceExperiment, address: str
) -> None:
    def prefer(first: Any, second: Any) -> int:
        return int(second["leaf (g)"] > first["leaf (g)"])

    names: dict[str, Any] = {"ADDRESS": address, "TOKEN": TOKEN, "prefer": prefer}
    exec(client_of_docs("python"), names)
    (answer,) = stored_answers(experiment)
    assert answer == ("told", {"winner": names["winner"], "rater": "robot"})


@pytest.mark.skipif(which("node") is None, reason="Node is not installed")
def test_ten_lines_of_javascript_answer(
    experiment: PreferenceExperiment, address: str, tmp_path: Path
) -> None:
    script = tmp_path / "client.mjs"
    start = f"const ADDRESS = {address!r}, TOKEN = {TOKEN!r};\n"
    script.write_text(
        start + "const prefer = (first, second) => 1;\n" + client_of_docs("javascript")
    )
    done = subprocess.run(
        ["node", str(script)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    (answer,) = stored_answers(experiment)
    assert answer == ("told", {"winner": 1, "rater": "robot"})
