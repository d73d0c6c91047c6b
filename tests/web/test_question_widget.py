"""The widget, by the messages that its script sends and hears."""

import warnings
from collections.abc import Iterator
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
from tea import OWN, create, log, stored

import botorch_pref
from botorch_pref.ax import PreferenceExperiment
from botorch_pref.errors import InferenceWarning, StorageError
from botorch_pref.web import QuestionWidget

STATIC = Path(botorch_pref.__file__).parent / "web" / "static"


class Script:
    """Script that acts in a notebook's page."""

    def __init__(self, widget: QuestionWidget, patch: pytest.MonkeyPatch) -> None:
        self._widget = widget
        self._heard: Queue[dict[str, Any]] = Queue()
        patch.setattr(widget, "send", self._heard.put)

    def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        message = {"id": name, "call": name, "given": {"rater": None, **arguments}}
        self._widget._handle_custom_msg(message, [])
        reply = self._heard.get(timeout=60)
        assert reply.pop("id") == name
        return reply


@pytest.fixture
def widget(experiment: PreferenceExperiment) -> Iterator[QuestionWidget]:
    widget = QuestionWidget(experiment, show=lambda option: b"GIF89a;", size=2)
    yield widget
    widget.close()


def test_questions_are_asked_answered_and_undone(
    widget: QuestionWidget, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = Script(widget, monkeypatch)
    first = script.call("question")["found"]
    assert first["shown"][0][0]["src"] == "data:image/gif;base64,R0lGODlhOw=="
    script.call("answer", question=first["question"], winner=1)
    # Sent twice, as from two views of it.
    for _ in range(2):
        assert script.call("undo", question=first["question"])["found"] == first
    script.call("answer", question=first["question"], winner=0)
    own_question = script.call("own", options=OWN)["found"]
    assert own_question["options"] == OWN
    assert [kind for kind, *_ in log(stored(tmp_path / "tea.db"))] == [
        "told",
        "undone",
        "told",
    ]


def test_a_script_hears_whether_an_answer_can_be_sent_again(
    widget: QuestionWidget, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Script(widget, monkeypatch)
    number = script.call("question")["found"]["question"]
    assert script.call("answer", question=number, winner=7)["status"] == 400

    def full(*_: Any, **__: Any) -> None:
        raise StorageError("the disk is full")

    monkeypatch.setattr(widget._service.experiment, "tell", full)
    reply = script.call("answer", question=number, winner=0)
    assert reply["status"] == 503
    assert reply["error"] == "the disk is full"


def test_a_widget_shows_four_options(
    experiment: PreferenceExperiment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    widget = QuestionWidget(experiment)
    script = Script(widget, monkeypatch)
    reply = script.call("question")["found"]
    assert len(reply["options"]) == 4
    script.call("answer", question=reply["question"], best=3)
    widget.close()
    assert [answer for *_, answer in log(stored(tmp_path / "tea.db"))] == [
        {"best": 3, "rater": None}
    ]


def test_a_wrong_call_gets_a_reason(
    widget: QuestionWidget, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Script(widget, monkeypatch)
    script.call("question")
    wrong: list[tuple[str, dict[str, Any], str]] = [
        ("answer", {"question": 0, "winner": 7}, "winner"),
        ("answer", {"winner": 0}, "question"),
        ("erase", {}, "no call"),
        ("close", {}, "no call"),
        ("question", {"patience": 10**400}, "patience"),
        ("own", {"options": [OWN[0], {**OWN[1], "cups": 10**400}]}, "cups"),
        ("own", {"options": [OWN[0], {**OWN[1], "leaf (g)": -(10**400)}]}, "leaf"),
    ]
    for call, keywords, message in wrong:
        assert message in script.call(call, **keywords)["error"]


def test_the_script_and_the_style_are_those_of_the_page(
    widget: QuestionWidget,
) -> None:
    for name, content in (("question.js", widget._esm), ("question.css", widget._css)):
        assert str(content) == (STATIC / name).read_text(encoding="utf-8")


def test_a_widget_fits_its_models_in_the_notebook_and_hides_no_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process would stay with every cell that is run again."""
    monkeypatch.setattr("sys.executable", "/bin/false")
    experiment = create(tmp_path / "tea.db", initial=1)
    experiment.record(OWN, winner=0)

    def ask(*args: Any, **options: Any) -> Any:
        warnings.warn("did not converge", InferenceWarning, stacklevel=1)

    monkeypatch.setattr(experiment, "ask", ask)
    widget = QuestionWidget(experiment, size=2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        widget._service._worker.ask([None], num_raters=2)
    assert [str(warning.message) for warning in caught] == ["did not converge"]
    assert widget._service._worker._process is None
    widget.close()
