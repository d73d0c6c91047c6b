"""Questions and answers over HTTP, and what is stored of them."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pandas
import pytest
from ax.api.configs import RangeParameterConfig
from calling import ask, post
from starlette.testclient import TestClient
from tea import OWN, create, log, stored

from botorch_pref.ax import PreferenceExperiment
from botorch_pref.ax.projection import events
from botorch_pref.errors import ExperimentError
from botorch_pref.web import desk as rater_places
from botorch_pref.web.worker import ModelWorker

Serve = Callable[..., TestClient]


def test_twelve_answers_are_stored_as_they_were_given(
    experiment: PreferenceExperiment, served: Serve, tmp_path: Path
) -> None:
    client, given = served(experiment), []
    said = [
        *({"winner": i % 2} for i in range(6)),
        {"tie": True},
        {"cannot_compare": True},
        {"invalid": [1]},
        {"winner": 1, "levels": [0, 4]},
        {"winner": 0, "ratings": [0.75, None]},
        {"strength": 0.2},
    ]
    for answer in said:
        question = ask(client)
        assert question["options"] == list(experiment.pending[0].options)
        post(client, "answer", question=question["question"], **answer)
        given.append(("told", question["question"], {**answer, "rater": None}))
    assert log(stored(tmp_path / "tea.db")) == given
    assert len({index for _, index, _ in given}) == 12


def test_a_question_stays_until_it_is_answered(
    experiment: PreferenceExperiment, served: Serve
) -> None:
    client = served(experiment)
    first = ask(client)
    assert ask(client) == first
    reply = post(client, "answer", question=first["question"], winner=0)
    following = reply["next"] or ask(client)
    assert following["question"] != first["question"]
    assert ask(client) == following


def test_the_same_answer_at_once_and_again_is_stored_once(
    experiment: PreferenceExperiment, served: Serve
) -> None:
    client = served(experiment)
    index = ask(client)["question"]
    with ThreadPoolExecutor(8) as threads:
        tapped = [
            threads.submit(post, client, "answer", question=index, winner=1)
            for _ in range(8)
        ]
        assert {one.result()["stored"] for one in tapped} == {index}
    post(client, "answer", question=index, winner=1)
    assert log(experiment) == [("told", index, {"winner": 1, "rater": None})]


def test_another_answer_to_the_same_question_is_refused_and_not_stored(
    experiment: PreferenceExperiment, served: Serve
) -> None:
    client = served(experiment)
    index = ask(client)["question"]
    post(client, "answer", question=index, winner=1)
    reply = post(client, "answer", 409, question=index, winner=0)
    assert reply["error"] == "This question has an answer already, which is kept."
    assert log(experiment) == [("told", index, {"winner": 1, "rater": None})]


def test_raters_have_questions_of_their_own(
    experiment: PreferenceExperiment, served: Serve, tmp_path: Path
) -> None:
    client = served(experiment)
    ann, bob = ask(client, "ann"), ask(client, "bob")
    assert ann["question"] != bob["question"]
    reply = post(client, "answer", 409, question=ann["question"], rater="bob", winner=0)
    assert "somebody else" in reply["error"]
    post(client, "answer", question=bob["question"], rater="bob", winner=1)
    post(client, "answer", question=ann["question"], rater="ann", winner=0)
    assert log(stored(tmp_path / "tea.db")) == [
        ("told", bob["question"], {"winner": 1, "rater": "bob"}),
        ("told", ann["question"], {"winner": 0, "rater": "ann"}),
    ]
    assert client.get("/api/progress?rater=ann").json()["yours"] == 1
    assert client.get("/api/progress").json()["raters"] == ["ann", "bob"]


def test_names_that_are_made_up_are_not_asked_for_ever(
    experiment: PreferenceExperiment, served: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rater_places, "MAX_RATERS", 2)
    client = served(experiment)
    first = ask(client, "ann")
    ask(client, "bob")
    reply = client.get("/api/question?rater=cid")
    assert (reply.status_code, "2 people" in reply.text) == (400, True)
    assert ask(client, "ann") == first


def test_a_restart_goes_on_with_the_same_questions(
    experiment: PreferenceExperiment, served: Serve, tmp_path: Path
) -> None:
    before = [ask(served(experiment), rater) for rater in ("ann", None)]
    again = served(stored(tmp_path / "tea.db"))
    assert [ask(again, rater) for rater in ("ann", None)] == before


def test_an_answer_that_comes_first_after_a_restart_is_asked_for_no_more(
    experiment: PreferenceExperiment, served: Serve, tmp_path: Path
) -> None:
    index = ask(served(experiment))["question"]
    client = served(stored(tmp_path / "tea.db"))
    post(client, "answer", question=index, winner=0)
    assert ask(client)["question"] != index


def test_a_question_that_was_answered_elsewhere_is_asked_for_no_more(
    experiment: PreferenceExperiment, served: Serve
) -> None:
    client = served(experiment)
    index = ask(client)["question"]
    experiment.tell(index, winner=0)
    post(client, "answer", 409, question=index, winner=1)
    assert ask(client)["question"] != index


def test_undo_brings_the_last_question_back(
    experiment: PreferenceExperiment, served: Serve
) -> None:
    client = served(experiment)
    first = ask(client, "ann")
    post(client, "answer", question=first["question"], rater="ann", winner=0)
    second = ask(client, "ann")
    other = ask(client, "bob")
    post(client, "answer", question=other["question"], rater="bob", winner=0)
    assert post(client, "undo", rater="ann") == first
    assert ask(client, "ann") == first
    post(client, "answer", question=first["question"], rater="ann", winner=1)
    assert ask(client, "ann") == second
    assert log(experiment) == [
        ("told", first["question"], {"winner": 0, "rater": "ann"}),
        ("told", other["question"], {"winner": 0, "rater": "bob"}),
        ("undone", first["question"], {"rater": None}),
        ("told", first["question"], {"winner": 1, "rater": "ann"}),
    ]


def answered(client: TestClient, rater: str | None = None) -> int:
    """The number of a question that was answered."""
    index = ask(client, rater)["question"]
    post(client, "answer", question=index, rater=rater, winner=0)
    return index


@pytest.mark.parametrize("rater", ["ann", None])
def test_the_same_undo_at_once_and_again_undoes_one_answer(
    experiment: PreferenceExperiment, served: Serve, tmp_path: Path, rater: str | None
) -> None:
    """As a phone does that has not heard the reply, over a restart too."""
    client = served(experiment)
    answered(client, rater)
    last = answered(client, rater)
    given = {"rater": rater, "question": ask(client, rater)["last"]}
    with ThreadPoolExecutor(8) as threads:
        sent = [threads.submit(post, client, "undo", **given) for _ in range(8)]
        replies = [one.result() for one in sent]
    assert given["question"] == replies[0]["question"] == last
    again = served(stored(tmp_path / "tea.db"))
    for other in (client, again):
        assert [post(other, "undo", **given), ask(other, rater)] == [replies[0]] * 2
    assert replies == [replies[0]] * 8
    assert [kind for kind, *_ in log(experiment)] == ["told", "told", "undone"]
    # Whoever comes next is asked something else.
    assert ask(again, "bob")["question"] != last


def test_two_undos_take_back_two_answers(
    experiment: PreferenceExperiment, served: Serve
) -> None:
    client = served(experiment)
    given = [answered(client) for _ in range(2)]
    for index in reversed(given):
        assert ask(client)["last"] == index
        assert post(client, "undo", question=index)["question"] == index
    assert ask(client)["last"] is None


def test_the_undo_of_a_skip_undoes_no_answer_when_it_is_sent_again(
    experiment: PreferenceExperiment, served: Serve, tmp_path: Path
) -> None:
    client = served(experiment)
    first, skipped = answered(client), ask(client)["question"]
    post(client, "skip", question=skipped)
    assert ask(client)["last"] == skipped
    for other in (client, client, served(stored(tmp_path / "tea.db"))):
        undone = post(other, "undo", question=skipped)
        assert (undone["question"], undone["last"]) == (skipped, first)
        assert ask(other) == undone
    assert [kind for kind, *_ in log(experiment)] == ["told", "withdrawn"]


def test_an_undo_of_what_is_not_the_last_is_refused(
    experiment: PreferenceExperiment, served: Serve
) -> None:
    """As of a page that has not heard of another one's answer."""
    client = served(experiment)
    first, last = answered(client, "ann"), answered(client, "ann")
    pending = ask(client, "ann")["question"]
    for question, rater in ((first, "ann"), (pending, "ann"), (last, "bob")):
        reply = post(client, "undo", 409, question=question, rater=rater)
        assert "another question after this one" in reply["error"]
    for nonsense in ("1", True, 10**400):
        assert "question" in post(client, "undo", 400, question=nonsense)["error"]
    assert [kind for kind, *_ in log(experiment)] == ["told", "told"]


def test_there_is_nothing_to_undo_of_somebody_else(
    experiment: PreferenceExperiment, served: Serve
) -> None:
    client = served(experiment)
    index = ask(client, "ann")["question"]
    post(client, "answer", question=index, rater="ann", winner=0)
    for rater in (None, "bob"):
        assert "error" in post(client, "undo", 400, rater=rater)
    assert [kind for kind, *_ in log(experiment)] == ["told"]


def test_a_skipped_question_is_withdrawn_and_comes_back_by_undo(
    experiment: PreferenceExperiment, served: Serve
) -> None:
    client = served(experiment)
    first = ask(client)
    post(client, "skip", question=first["question"])
    second = ask(client)
    assert second["question"] != first["question"]
    assert post(client, "undo") == first
    post(client, "answer", question=first["question"], winner=0)
    assert ask(client) == second
    assert log(experiment) == [
        ("withdrawn", first["question"], {"rater": None}),
        ("told", first["question"], {"winner": 0, "rater": None}),
    ]


def test_own_designs_are_asked_at_once_and_kept_as_such(
    experiment: PreferenceExperiment, served: Serve
) -> None:
    client = served(experiment)
    waiting = ask(client)
    own = post(client, "own", options=OWN)
    assert own["options"] == OWN
    assert ask(client) == own
    post(client, "answer", question=own["question"], winner=1)
    assert ask(client) == {**waiting, "last": own["question"]}
    (asked, _) = [
        e for e in events(experiment.experiment) if e.question == own["question"]
    ]
    assert asked.what["chosen_by"] == "person"


ALIKE = "Two of these designs look the same. Change a value of one"
WRONG_DESIGNS: list[tuple[dict[str, Any], str]] = [
    ({}, ALIKE),
    # Of 1 to 9 g hundredths are shown, and of 3 minutes too.
    ({"leaf (g)": 4.004, "minutes": 2.996}, ALIKE),
    ({"cups": 5}, "The value of cups has to be a number from 1 to 4."),
    ({"cups": 1.5}, "The value of cups has to be a whole number."),
    ({"cups": True}, "The value of cups has to be a number from 1 to 4."),
    ({"leaf (g)": 9.5}, "The value of leaf has to be a number from 1 to 9."),
    ({"leaf (g)": None}, "The value of leaf has to be a number from 1 to 9."),
    ({"leaf (g)": "4"}, "The value of leaf has to be a number from 1 to 9."),
    ({"leaf (g)": 10**400}, "The value of leaf has to be a number from 1 to 9."),
    ({"kind": "black"}, "The value of kind has to be oolong or green."),
]


@pytest.mark.parametrize(("change", "said"), WRONG_DESIGNS)
def test_designs_that_cannot_be_compared_are_refused_in_a_sentence(
    experiment: PreferenceExperiment, served: Serve, change: dict[str, Any], said: str
) -> None:
    client = served(experiment)
    reply = post(client, "own", 400, options=[OWN[0], {**OWN[0], **change}])
    assert reply["error"].startswith(said)
    assert not list(events(experiment.experiment))


def test_lists_that_are_no_designs_are_refused(
    experiment: PreferenceExperiment, served: Serve
) -> None:
    client = served(experiment)
    missing = {name: value for name, value in OWN[1].items() if name != "kind"}
    for options in ([OWN[0]], OWN[0], [OWN[0], "green"], [OWN[0], missing]):
        assert "error" in post(client, "own", 400, options=options)
    assert not list(events(experiment.experiment))


@pytest.mark.parametrize(
    ("constraint", "said"),
    [
        ("x + 2*z <= 1", "x + 2 times z has to be at most 1."),
        ("x >= z", "z - x has to be at most 0."),
    ],
)
def test_designs_that_break_a_constraint_are_refused_in_a_sentence(
    served: Serve, tmp_path: Path, constraint: str, said: str
) -> None:
    experiment = PreferenceExperiment.create(
        "two",
        parameters=[
            RangeParameterConfig(name=name, parameter_type="float", bounds=(0, 1))
            for name in ("x", "z")
        ],
        parameter_constraints=[constraint],
        storage=tmp_path / "two.db",
    )
    client = served(experiment)
    options = [{"x": 0.1, "z": 0.1}, {"x": 0.2, "z": 0.9}]
    reply = post(client, "own", 400, options=options)
    assert reply["error"] == f"These values do not go together: {said}"
    assert not list(events(experiment.experiment))
    options[1]["z"] = 0.2
    assert post(client, "own", options=options)["options"] == options


def test_designs_that_no_catalogue_has_are_refused_in_a_sentence(
    served: Serve, tmp_path: Path
) -> None:
    table = pandas.DataFrame({"x": [0.0, 0.5, 1.0], "z": [1, 2, 3]}, index=[*"abc"])
    experiment = PreferenceExperiment.create(
        "rows", catalogue=table, storage=tmp_path / "rows.db", initial=10_000
    )
    client, first = served(experiment), {"x": 0.0, "z": 1}
    reply = post(client, "own", 400, options=[first, {"x": 0.5, "z": 3}])
    assert "is not in the catalogue" in reply["error"]
    assert not list(events(experiment.experiment))
    own = post(client, "own", options=[first, {"x": 0.5, "z": 2}])
    assert [one["z"] for one in own["options"]] == [1, 2]


def test_history_and_form_say_what_there_is(
    experiment: PreferenceExperiment, served: Serve
) -> None:
    client = served(experiment)
    asked = [ask(client), None]
    post(client, "answer", question=asked[0]["question"], winner=1)
    asked[1] = ask(client)
    post(client, "answer", question=asked[1]["question"], tie=True, seconds=2.5)
    (last, first) = client.get("/api/history").json()["answers"]
    assert (last["question"], last["said"]) == (asked[1]["question"], {"tie": True})
    assert (first["options"], first["said"]) == (asked[0]["options"], {"winner": 1})
    fields = {f["name"]: f for f in client.get("/api/form").json()["fields"]}
    assert list(fields) == ["leaf (g)", "minutes", "cups", "kind"]
    assert (fields["leaf (g)"]["label"], fields["leaf (g)"]["unit"]) == ("leaf", "g")
    assert (fields["cups"]["lower"], fields["cups"]["upper"]) == (1, 4)
    assert set(fields["kind"]["values"]) == {"oolong", "green"}
    told = [e for e in events(experiment.experiment) if e.kind == "told"]
    assert [event.what.get("seconds") for event in told] == [None, 2.5]


def test_findings_are_those_of_the_report(
    tmp_path: Path, served: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Another process finds the same, in seconds more.
    monkeypatch.setattr(ModelWorker, "start", lambda worker: None)
    experiment = create(tmp_path / "tea.db")
    client = served(experiment)
    assert client.get("/api/findings").status_code == 400
    for option in (OWN[1], {**OWN[1], "cups": 3}):
        experiment.record([OWN[0], option], winner=0)
    found = client.get("/api/findings").json()
    report = experiment.report()
    assert dict(found["summary"])["questions"] == 2
    assert [row["name"] for row in found["options"]] == list(report.options.index)
    assert [row["mean"] for row in found["options"]] == list(report.options["mean"])
    best = found["options"][0]["name"]
    assert [(duel["better"], duel["times"]) for duel in found["duels"]] == [
        (best, 1),
        (best, 1),
    ]


def test_a_question_is_asked_ahead(
    experiment: PreferenceExperiment, served: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the first is on display, the second is asked: no answer is needed."""
    asked, ask_one = [Event(), Event(), Event()], experiment.ask
    count = iter(asked)

    def noted(*args: Any, **options: Any) -> Any:
        question = ask_one(*args, **options)
        next(count).set()
        return question

    monkeypatch.setattr(experiment, "ask", noted)
    client = served(experiment)
    ask(client)
    assert asked[1].wait(60)
    assert len(experiment.pending) == 2
    assert not asked[2].is_set()


def test_an_ask_that_takes_long_says_so(
    experiment: PreferenceExperiment, served: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    free, ask_one = Event(), experiment.ask

    def slow(*args: Any, **options: Any) -> Any:
        free.wait(60)
        return ask_one(*args, **options)

    monkeypatch.setattr(experiment, "ask", slow)
    client = served(experiment)
    replies = [client.get("/api/question?patience=0.01") for _ in range(2)]
    assert [reply.status_code for reply in replies] == [202, 202]
    first, second = (reply.json() for reply in replies)
    assert first["question"] is second["question"] is None
    assert second["waited"] >= first["waited"] >= 0
    refused = client.get("/api/question?patience=long")
    assert (refused.status_code, "patience" in refused.text) == (400, True)
    free.set()
    assert ask(client)["question"] == 0


def fail_once(
    experiment: PreferenceExperiment,
    monkeypatch: pytest.MonkeyPatch,
    failure: BaseException,
) -> None:
    """The next ask fails; those after it do not."""
    failures, ask_one = iter([failure]), experiment.ask

    def failing(*args: Any, **options: Any) -> Any:
        for each in failures:
            raise each
        return ask_one(*args, **options)

    monkeypatch.setattr(experiment, "ask", failing)


def test_an_ask_that_fails_says_why_and_is_tried_again(
    experiment: PreferenceExperiment, served: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_once(experiment, monkeypatch, ExperimentError("no more options"))
    client = served(experiment)
    reply = client.get("/api/question")
    assert (reply.status_code, reply.json()) == (400, {"error": "no more options"})
    assert ask(client)["question"] == 0


def test_a_model_that_ends_scripts_ends_no_asking(
    experiment: PreferenceExperiment, served: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_once(experiment, monkeypatch, SystemExit("of a script"))
    client = served(experiment)
    with pytest.raises(RuntimeError, match="SystemExit: of a script"):
        client.get("/api/question?patience=1")
    assert ask(client)["question"] == 0


def test_what_another_process_wrote_loses_no_answer(
    experiment: PreferenceExperiment, served: Serve, tmp_path: Path
) -> None:
    client = served(experiment)
    first = ask(client)["question"]
    elsewhere = stored(tmp_path / "tea.db")
    elsewhere.record(OWN, winner=0)
    post(client, "answer", question=first, winner=1)
    told = [(kind, index) for kind, index, _ in log(stored(tmp_path / "tea.db"))]
    assert ("told", first) in told
    assert len(told) == 2


def test_a_stored_answer_is_acknowledged_whatever_hinders_the_next_question(
    experiment: PreferenceExperiment, served: Serve
) -> None:
    def show(option: dict[str, Any]) -> str:
        if option not in first.options:
            raise ValueError("no picture")
        return "a cup"

    first = experiment.ask()
    client = served(experiment, show=show)
    reply = post(client, "answer", question=ask(client)["question"], winner=0)
    assert reply == {"stored": 0, "next": None}
    assert "no picture" in client.get("/api/question").json()["error"]


def test_a_question_that_was_answered_meanwhile_is_not_skipped(
    experiment: PreferenceExperiment, served: Serve
) -> None:
    """In another tab, after this one was displayed."""
    client = served(experiment)
    index = ask(client)["question"]
    experiment.tell(index, winner=0)
    reply = post(client, "skip", 409, question=index)
    assert "has an answer already" in reply["error"]
    assert log(experiment) == [("told", index, {"winner": 0, "rater": None})]
    assert ask(client)["question"] != index


@pytest.mark.parametrize("call", ["answer", "skip", "undo"])
def test_a_question_that_was_never_asked_is_refused(
    experiment: PreferenceExperiment, served: Serve, call: str
) -> None:
    client = served(experiment)
    asked = ask(client)
    for index in (99, -1, 10**400):
        reply = post(client, call, 400, question=index, winner=0)
        assert reply["error"] == f"There is no question {index} in this experiment."
    assert (ask(client), log(experiment)) == (asked, [])


def test_nobody_skips_what_somebody_else_is_asked(
    experiment: PreferenceExperiment, served: Serve
) -> None:
    client = served(experiment)
    asked = ask(client, "ann")
    reply = post(client, "skip", 409, question=asked["question"], rater="bob")
    assert "somebody else" in reply["error"]
    assert (ask(client, "ann"), log(experiment)) == (asked, [])


def test_a_page_that_was_open_before_a_restart_skips_its_question(
    served: Serve, tmp_path: Path
) -> None:
    index = ask(served(create(tmp_path / "tea.db")))["question"]
    client = served(stored(tmp_path / "tea.db"))
    post(client, "skip", question=index)
    assert ask(client)["question"] != index
    assert post(client, "undo")["question"] == index


def test_an_answer_about_another_experiment_is_refused(
    experiment: PreferenceExperiment, served: Serve
) -> None:
    """One that waited in a browser, at an address that serves another one now."""
    client = served(experiment)
    asked = ask(client)
    given = {"question": asked["question"], "winner": 0}
    assert (
        "coffee" in post(client, "answer", 400, experiment="coffee", **given)["error"]
    )
    assert log(experiment) == []
    post(client, "answer", experiment=asked["experiment"], **given)


def test_text_that_no_file_can_hold_is_refused(
    experiment: PreferenceExperiment, served: Serve
) -> None:
    client = served(experiment)
    index = ask(client)["question"]
    post(client, "answer", 400, question=index, winner=0, note="half \ud800")
    assert log(experiment) == []


def test_raters_of_a_single_pair_are_asked_about_it_again_and_again(
    served: Serve, tmp_path: Path
) -> None:
    """Nothing can be asked ahead there, which is no reason to refuse the next one."""
    cups = RangeParameterConfig(name="cups", parameter_type="int", bounds=(1, 2))
    experiment = PreferenceExperiment.create(
        "two", parameters=[cups], storage=tmp_path / "two.db", initial=10_000
    )
    client = served(experiment)
    for rater in ("ann", None, "ann"):
        question = ask(client, rater)
        assert {option["cups"] for option in question["options"]} == {1, 2}
        post(client, "answer", question=question["question"], rater=rater, winner=0)
    assert len(log(experiment)) == 3
