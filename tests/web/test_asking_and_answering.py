"""Questions and answers over HTTP, and what is stored of them."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from ax.api.configs import RangeParameterConfig
from browsing import until
from calling import Page
from tea import OWN, create, log, stored

from botorch_pref.ax import PreferenceExperiment
from botorch_pref.errors import ExperimentError
from botorch_pref.web import rater_places, repeated_calls
from botorch_pref.web.worker import ModelWorker

Serve = Callable[..., Page]


def at_once(call: Callable[[], Any], times: int = 8) -> list[Any]:
    """Results of calls from as many threads."""
    with ThreadPoolExecutor(times) as threads:
        sent = [threads.submit(call) for _ in range(times)]
        return [future.result() for future in sent]


# --- Answers


def test_twelve_answers_are_stored_as_they_were_given(
    page: Page, tmp_path: Path
) -> None:
    expected_log = []
    answers = [
        *({"winner": i % 2} for i in range(6)),
        {"tie": True},
        {"cannot_compare": True},
        {"invalid": [1]},
        {"winner": 1, "levels": [0, 4]},
        {"winner": 0, "ratings": [0.75, None]},
        {"strength": 0.2},
    ]
    for answer in answers:
        assert page.ask()["options"] == list(page.experiment.pending[0].options)
        expected_log.append(("told", page.answer(**answer), {**answer, "rater": None}))
    assert log(stored(tmp_path / "tea.db")) == expected_log
    assert len({index for _, index, _ in expected_log}) == 12


def test_of_four_options_one_says_the_best_or_nothing(
    experiment: PreferenceExperiment, served: Serve, tmp_path: Path
) -> None:
    page = served(experiment, size=None)
    question = page.ask()
    assert len(question["options"]) == 4
    assert {"best", "ranking", "cannot_compare"} <= set(question["kinds"])
    assert not {"winner", "strength"} & set(question["kinds"])
    reply = page.post("answer", 400, question=question["question"], winner=0)
    assert "give best or ranking" in reply["error"]
    answers: list[dict[str, Any]] = [
        {"cannot_compare": True},
        {"best": 3},
        {"ranking": [2, 0, 3, 1]},
        {"tie": True},
    ]
    expected_log = [
        ("told", page.answer(**answer), {**answer, "rater": None}) for answer in answers
    ]
    skipped = page.ask()["question"]
    page.post("skip", question=skipped)
    assert page.ask()["question"] != skipped
    expected_log.append(("withdrawn", skipped, {"rater": None}))
    assert log(stored(tmp_path / "tea.db")) == expected_log
    assert page.post("undo", question=skipped)["question"] == skipped


@pytest.mark.parametrize(
    ("kinds", "size"),
    [
        (None, 4),
        (["best"], 4),
        (["ranking", "invalid"], 4),
        # Nobody says of four which of two is better.
        (["winner", "tie"], 2),
    ],
)
def test_a_page_shows_four_options_where_a_wanted_kind_is_of_four(
    experiment: PreferenceExperiment,
    served: Serve,
    kinds: list[str] | None,
    size: int,
) -> None:
    page = served(experiment, size=None, kinds=kinds)
    question = page.ask()
    assert len(question["options"]) == size
    assert kinds is None or question["kinds"] == kinds


def test_a_page_shows_two_options_where_the_model_takes_no_best_of_four(
    tmp_path: Path, served: Serve
) -> None:
    experiment = create(tmp_path / "tea.db", model="LaplacePreferenceGP")
    question = served(experiment, size=None).ask()
    assert len(question["options"]) == 2
    assert "winner" in question["kinds"]


@pytest.mark.parametrize(
    ("kinds", "size", "of_two", "of_three"),
    [
        (["ranking"], 4, ["winner"], ["ranking"]),
        (["best", "tie"], 4, ["winner", "tie"], ["best", "tie"]),
        (["strength", "invalid"], 2, ["strength", "invalid"], ["best", "invalid"]),
        (["levels"], 2, ["levels"], ["levels"]),
    ],
)
def test_kinds_that_are_not_wanted_are_neither_offered_nor_taken(
    experiment: PreferenceExperiment,
    served: Serve,
    kinds: list[str],
    size: int,
    of_two: list[str],
    of_three: list[str],
) -> None:
    page = served(experiment, size=None, kinds=kinds)
    says: dict[str, Any] = {
        "winner": 0,
        "tie": True,
        "strength": 0.75,
        "invalid": [0],
        "ratings": [0.25] * size,
        "cannot_compare": True,
        "levels": [1] * size,
        "best": 0,
        "ranking": [*range(size)],
    }
    question = page.ask()
    assert question["kinds"] == kinds
    assert len(question["options"]) == size
    other_kinds = says.keys() - {*kinds}
    for kind in other_kinds:
        keywords = {"question": question["question"], kind: says[kind]}
        error = page.post("answer", 400, **keywords)["error"]
        assert error.startswith(f"This question does not take {kind}; say one of ")
    assert page.log == []
    nothing = dict.fromkeys(other_kinds) | {"note": "sweet"}
    page.answer(**{kinds[0]: says[kinds[0]]}, **nothing)
    assert page.happened == ["told"]
    third = {**OWN[0], "cups": 3}
    assert page.post("own", options=OWN)["kinds"] == of_two
    assert page.post("own", options=[*OWN, third])["kinds"] == of_three


def test_calls_succeed_beside_another_process_that_writes(
    page: Page, tmp_path: Path
) -> None:
    """Of a skip, an undo and a design of one's own people were told to repeat it."""
    designs = [OWN[0], {**OWN[0], "cups": 3}]
    calls: dict[str, Callable[[int], dict[str, Any]]] = {
        "answer": lambda index: {"question": index, "winner": 0},
        "undo": lambda index: {},
        "skip": lambda index: {"question": index},
        "own": lambda index: {"options": OWN},
    }
    for call, keywords in calls.items():
        index = page.ask()["question"]
        # The next one is asked ahead before the other process writes.
        until(lambda: len(page.experiment.pending) > 1)
        stored(tmp_path / "tea.db").record(designs, winner=0, rater="other")
        page.post(call, **keywords(index))
    happened = [kind for kind, _, record in page.log if record["rater"] != "other"]
    assert happened == ["told", "undone", "withdrawn"]
    assert sum(record["rater"] == "other" for _, _, record in page.log) == 4


def test_a_question_stays_until_it_is_answered(page: Page) -> None:
    first = page.ask()
    assert page.ask() == first
    reply = page.post("answer", question=first["question"], winner=0)
    following = reply["next"] or page.ask()
    assert following["question"] != first["question"]
    assert page.ask() == following


def test_an_answer_is_stored_once_and_another_one_is_refused(page: Page) -> None:
    index = page.ask()["question"]
    tapped = at_once(lambda: page.post("answer", question=index, winner=1))
    assert {reply_to_tap["stored"] for reply_to_tap in tapped} == {index}
    page.post("answer", question=index, winner=1)
    reply = page.post("answer", 409, question=index, winner=0)
    assert reply["error"] == "This question has an answer already, which is kept."
    assert page.log == [("told", index, {"winner": 1, "rater": None})]


def test_raters_have_questions_of_their_own(page: Page, tmp_path: Path) -> None:
    ann, bob = page.ask("ann")["question"], page.ask("bob")["question"]
    assert ann != bob
    for call in ("answer", "skip"):
        reply = page.post(call, 409, question=ann, rater="bob", winner=0)
        assert "somebody else" in reply["error"]
    page.post("answer", question=bob, rater="bob", winner=1)
    page.post("answer", question=ann, rater="ann", winner=0)
    assert log(stored(tmp_path / "tea.db")) == [
        ("told", bob, {"winner": 1, "rater": "bob"}),
        ("told", ann, {"winner": 0, "rater": "ann"}),
    ]
    progress = page.get("progress", rater="ann")
    assert progress["yours"] == 1
    assert progress["raters"] == ["ann", "bob"]


def test_names_that_are_made_up_are_not_asked_for_ever(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rater_places, "MAX_RATERS", 1)
    first = page.ask("ann")
    assert "1 people" in page.get("question", 400, rater="bob")["error"]
    for call in ("skip", "claim", "answer", "undo"):
        keywords = {"question": first["question"], "winner": 0, "rater": "bob"}
        assert "1 people" in page.post(call, 400, **keywords)["error"]
    assert page.ask("ann") == first
    assert page.log == []


def test_a_restart_goes_on_with_the_same_questions(
    page: Page, served: Serve, tmp_path: Path
) -> None:
    before = [page.ask(rater) for rater in ("ann", None)]
    again = served(stored(tmp_path / "tea.db"))
    assert [again.ask(rater) for rater in ("ann", None)] == before


def test_after_a_restart_what_was_asked_ahead_comes_before_what_is_new(
    experiment: PreferenceExperiment, served: Serve, tmp_path: Path
) -> None:
    """Of nobody in particular, too: no question waits for ever."""
    for _ in range(4):
        experiment.ask(2)
    page = served(stored(tmp_path / "tea.db"))
    assert [page.answer() for _ in range(2)] == [0, 1]
    # The reply to an answer has the next one, and another rater gets what is left.
    assert [page.answer(rater) for rater in ("ann", None)] == [3, 2]
    assert page.ask()["question"] > 3


@pytest.mark.parametrize("call", ["answer", "skip"])
def test_a_page_that_was_open_before_a_restart_goes_on_with_its_question(
    page: Page, served: Serve, tmp_path: Path, call: str
) -> None:
    index = page.ask()["question"]
    again = served(stored(tmp_path / "tea.db"))
    keywords = {"winner": 0} if call == "answer" else {}
    again.post(call, question=index, **keywords)
    assert again.ask()["question"] != index
    assert again.post("undo")["question"] == index


@pytest.mark.parametrize("call", ["answer", "skip"])
def test_a_question_that_was_answered_elsewhere_is_asked_for_no_more(
    page: Page, call: str
) -> None:
    index = page.ask()["question"]
    page.experiment.tell(index, winner=0)
    keywords = {"winner": 1} if call == "answer" else {}
    reply = page.post(call, 409, question=index, **keywords)
    assert "has an answer already" in reply["error"]
    assert page.ask()["question"] != index
    assert page.log == [("told", index, {"winner": 0, "rater": None})]


def test_what_another_process_wrote_loses_no_answer(page: Page, tmp_path: Path) -> None:
    first = page.ask()["question"]
    stored(tmp_path / "tea.db").record(OWN, winner=0)
    page.post("answer", question=first, winner=1)
    events = [(kind, index) for kind, index, _ in log(stored(tmp_path / "tea.db"))]
    assert ("told", first) in events
    assert len(events) == 2


@pytest.mark.parametrize("call", ["answer", "skip", "undo"])
def test_a_question_that_was_never_asked_is_refused(page: Page, call: str) -> None:
    question = page.ask()
    for index in (99, -1, 10**400):
        reply = page.post(call, 400, question=index, winner=0)
        assert reply["error"].startswith("There is no question ")
    assert page.ask() == question
    assert page.log == []


def test_an_answer_about_another_experiment_is_refused(page: Page) -> None:
    """One that waited in a browser, at an address that serves another one now."""
    page.answer()
    question = page.ask()
    calls: dict[str, dict[str, Any]] = {
        "undo": {"question": question["last"]},
        "skip": {"question": question["question"]},
        "answer": {"question": question["question"], "winner": 0},
    }
    for call, keywords in calls.items():
        reply = page.post(call, 404, experiment="coffee", **keywords)
        assert "coffee" in reply["error"]
        assert reply["experiment"] == "tea"
    assert page.happened == ["told"]
    page.post("answer", experiment=question["experiment"], **calls["answer"])


def test_an_answer_about_an_older_experiment_of_this_name_is_refused(
    served: Serve, tmp_path: Path
) -> None:
    """The file was deleted after a trial; phones still show its questions."""
    old = served(create(tmp_path / "old.db")).ask()
    page = served(create(tmp_path / "new.db"))
    page.ask()
    keywords = {"question": old["question"], "experiment": old["experiment"]}
    page.post("answer", 404, **keywords, winner=0)
    assert page.log == []


# --- Undo and skip


def test_undo_brings_the_last_question_back(page: Page) -> None:
    first = page.ask("ann")
    page.answer("ann")
    second = page.ask("ann")
    second_answer = page.answer("bob")
    assert page.post("undo", rater="ann") == first
    assert page.ask("ann") == first
    page.answer("ann", winner=1)
    assert page.ask("ann") == second
    assert page.log == [
        ("told", first["question"], {"winner": 0, "rater": "ann"}),
        ("told", second_answer, {"winner": 0, "rater": "bob"}),
        ("undone", first["question"], {"rater": None}),
        ("told", first["question"], {"winner": 1, "rater": "ann"}),
    ]


@pytest.mark.parametrize("rater", ["ann", None])
def test_the_same_undo_at_once_and_again_undoes_one_answer(
    page: Page, served: Serve, tmp_path: Path, rater: str | None
) -> None:
    """As a phone does that has not heard the reply, over a restart too."""
    page.answer(rater)
    last = page.answer(rater)
    keywords = {"rater": rater, "question": page.ask(rater)["last"]}
    replies = at_once(lambda: page.post("undo", **keywords))
    assert keywords["question"] == replies[0]["question"] == last
    again = served(stored(tmp_path / "tea.db"))
    for tested_page in (page, again):
        assert [tested_page.post("undo", **keywords), tested_page.ask(rater)] == [
            replies[0]
        ] * 2
    assert replies == [replies[0]] * 8
    assert page.happened == ["told", "told", "undone"]
    # The next rater is asked something else.
    assert again.ask("bob")["question"] != last


def test_two_undos_take_back_two_answers(page: Page) -> None:
    answers = [page.answer() for _ in range(2)]
    for index in reversed(answers):
        assert page.ask()["last"] == index
        assert page.post("undo", question=index)["question"] == index
    assert page.ask()["last"] is None


def test_an_answer_without_a_name_is_undone_after_one_with_a_name(page: Page) -> None:
    """The page said that it had answered another question since."""
    first, second_answer = page.answer(), page.answer("ann")
    assert page.ask()["last"] == first
    assert page.post("undo", question=first)["question"] == first
    assert page.ask("ann")["last"] == second_answer
    assert page.happened == ["told", "told", "undone"]
    assert page.log[-1][1] == first


def test_the_undo_of_a_skip_undoes_no_answer_when_it_is_sent_again(
    page: Page, served: Serve, tmp_path: Path
) -> None:
    first, skipped = page.answer(), page.ask()
    page.post("skip", question=skipped["question"])
    second = page.ask()
    assert second["question"] != skipped["question"]
    assert second["last"] == skipped["question"]
    for tested_page in (page, page, served(stored(tmp_path / "tea.db"))):
        undone = tested_page.post("undo", question=skipped["question"])
        assert undone == tested_page.ask() == {**skipped, "last": first}
    assert page.happened == ["told", "withdrawn"]
    page.post("answer", question=skipped["question"], winner=0)
    assert page.ask() == {**second, "number": 3, "last": skipped["question"]}


def test_an_undo_of_what_is_not_the_last_is_refused(page: Page) -> None:
    """As of a page that has not heard of another one's answer."""
    first, last = page.answer("ann"), page.answer("ann")
    pending = page.ask("ann")["question"]
    for question, rater, reason in (
        (first, "ann", "another question after this one"),
        (pending, "ann", "has no answer"),
        (last, "bob", "Somebody else"),
    ):
        reply = page.post("undo", 409, question=question, rater=rater)
        assert reason in reply["error"]
    for nonsense in ("1", True, 10**400):
        assert "question" in page.post("undo", 400, question=nonsense)["error"]
    # There is nothing to undo of somebody else.
    for rater in (None, "bob"):
        assert "no answer of yours" in page.post("undo", 400, rater=rater)["error"]
    assert page.happened == ["told", "told"]
    # Once it is undone, the question is hers again, and not that of who asks next.
    page.post("undo", question=last, rater="ann")
    page.post("undo", 409, question=last, rater="bob")
    assert page.ask("bob")["question"] != last
    assert page.happened == ["told", "told", "undone"]


# --- Designs of one's own


def test_own_designs_are_asked_at_once_and_kept_as_such(page: Page) -> None:
    waiting = page.ask()
    own_question = page.post("own", options=OWN)
    assert own_question["options"] == OWN
    assert page.ask() == own_question
    page.post("answer", question=own_question["question"], winner=1)
    assert page.ask() == {**waiting, "number": 2, "last": own_question["question"]}
    events = page.experiment.log.events
    (asking_event, _) = [e for e in events if e.question == own_question["question"]]
    assert asking_event.what["chosen_by"] == "person"


@pytest.mark.parametrize("rater", ["ann", None])
def test_own_designs_that_are_sent_again_are_one_question(
    page: Page, served: Serve, tmp_path: Path, rater: str | None
) -> None:
    """As by a double tap, or where the reply was lost, over a restart too."""
    replies = at_once(lambda: page.post("own", options=OWN, rater=rater))
    assert replies == [replies[0]] * 8
    again = served(stored(tmp_path / "tea.db"))
    assert again.post("own", options=OWN, rater=rater) == replies[0]
    shown = [question.options for question in again.experiment.pending]
    assert [list(options) for options in shown].count(OWN) == 1
    # The order in which they are shown is drawn; once answered, they are asked anew.
    assert again.post("own", options=OWN[::-1], rater=rater) == replies[0]
    numbers = {replies[0]["question"]}
    for options in (OWN, [OWN[0], {**OWN[1], "cups": 3}]):
        numbers.add(again.post("own", options=options, rater="bob")["question"])
    again.answer(rater)
    numbers.add(again.post("own", options=OWN, rater=rater)["question"])
    assert len(numbers) == 4


OUTSIDE = "A design is not in the search space: "
ALIKE = "Two of these designs look the same. Change a value of one"
WRONG_DESIGNS: list[tuple[dict[str, Any], str]] = [
    ({}, "Options 0 and 1 are both"),
    # Of 1 to 9 g hundredths are shown, and of 3 minutes too.
    ({"leaf (g)": 4.004, "minutes": 2.996}, ALIKE),
    # Other refusals are those of an experiment, in tests/ax.
    ({"cups": 5}, OUTSIDE + "cups is 5, and should be a whole number from 1 to 4"),
    ({"leaf (g)": 10**400}, "leaf (g) is 1000"),
]


def test_designs_that_cannot_be_compared_are_refused_in_a_sentence(page: Page) -> None:
    for change, message in WRONG_DESIGNS:
        reply = page.post("own", 400, options=[OWN[0], {**OWN[0], **change}])
        assert reply["error"].startswith(message), f"error after {change}"
    missing = {name: value for name, value in OWN[1].items() if name != "kind"}
    for options in ([OWN[0]], OWN[0], [OWN[0], "green"], [OWN[0], missing]):
        assert "error" in page.post("own", 400, options=options)
    assert not page.experiment.log.events


# --- History, form, findings


def test_history_and_form_say_what_there_is(page: Page) -> None:
    questions = [page.ask(), None]
    page.answer(winner=1)
    questions[1] = page.ask()
    page.answer(tie=True, seconds=2.5)
    (last, first) = page.get("history")["answers"]
    assert last["question"] == questions[1]["question"]
    assert last["said"] == {"tie": True}
    assert first["options"] == questions[0]["options"]
    assert first["said"] == {"winner": 1}
    fields = {f["name"]: f for f in page.get("form")["fields"]}
    assert list(fields) == ["leaf (g)", "minutes", "cups", "kind"]
    assert fields["leaf (g)"]["label"] == "leaf"
    assert fields["leaf (g)"]["unit"] == "g"
    assert fields["cups"]["lower"] == 1
    assert fields["cups"]["upper"] == 4
    assert set(fields["kind"]["values"]) == {"oolong", "green"}
    told_events = [e for e in page.experiment.log.events if e.kind == "told"]
    assert [event.what.get("seconds") for event in told_events] == [None, 2.5]


def test_questions_are_counted_as_each_rater_does(page: Page) -> None:
    assert [page.ask("ann")["number"], page.ask("bob")["number"]] == [1, 1]
    first = page.answer("ann")
    page.post("skip", question=page.ask("ann")["question"], rater="ann")
    assert page.ask("ann")["number"] == 2
    last = page.answer("ann", tie=True)
    assert [page.ask("ann")["number"], page.ask("bob")["number"]] == [3, 1]
    entries = page.get("history", rater="ann")["answers"]
    numbers = [(entry["number"], entry["question"]) for entry in entries]
    assert numbers == [(2, last), (1, first)]
    page.post("undo", rater="ann")
    assert page.ask("ann")["number"] == 2


def test_the_page_is_told_when_it_is_enough_and_what_was_found(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looks come once the model chooses, and then where there are a quarter more."""
    looks: list[int] = []

    def look(worker: ModelWorker) -> dict[str, Any]:
        looks.append(worker.experiment.num_answers)
        return {
            "summary": [["stop", len(looks) != 2]],
            "context": {},
            "options": [{"name": "1 B", "best": 0.8}, {"name": "1 A", "best": 0.2}],
            "recommended": {"name": "1 B", "question": 0, "place": 1},
        }

    monkeypatch.setattr(ModelWorker, "findings", look)
    monkeypatch.setattr(ModelWorker, "start", lambda worker: None)
    contents = page.ask()["shown"]
    for answers, checked, enough in (
        (9_999, [], False),
        (10_000, [10_000], True),
        (12_499, [10_000], True),
        (12_500, [10_000, 12_500], False),
        (16_000, [10_000, 12_500, 16_000], True),
    ):
        monkeypatch.setattr(PreferenceExperiment, "num_answers", answers)
        page.answer()
        until(lambda wanted=checked: looks == wanted)
        until(
            lambda wanted=enough: (page.get("progress")["enough"] is not None) is wanted
        )
    found = page.get("progress")["enough"]
    assert found["name"] == "1 B"
    assert found["answers"] == 16_000
    assert found["chance"] == 0.8
    assert found["shown"] == contents[1]
    monkeypatch.setattr(PreferenceExperiment, "num_answers", 15_999)
    assert page.get("progress")["enough"] is None, "an answer was undone"


def test_without_answers_the_findings_say_so_in_plain_words(page: Page) -> None:
    message = "Nobody has compared or judged options yet"
    assert page.get("findings", 400)["error"].startswith(message)
    page.answer(cannot_compare=True)
    assert page.get("findings", 400)["error"].startswith(message)


@pytest.mark.slow
def test_findings_are_those_of_the_report(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Another process finds the same, in seconds more.
    monkeypatch.setattr(ModelWorker, "start", lambda worker: None)
    for option, rater in ((OWN[1], "ann"), ({**OWN[1], "cups": 3}, "bob")):
        page.experiment.record([OWN[0], option], winner=0, rater=rater)
    findings, report = page.get("findings"), page.experiment.report()
    assert dict(findings["summary"])["questions"] == 2
    assert findings["meanings"] == dict(report.summary["meaning"])
    assert [row["name"] for row in findings["options"]] == list(report.options.index)
    assert [row["mean"] for row in findings["options"]] == list(report.options["mean"])
    effects = {
        (effect["parameter"], row["value"]): row["change"]
        for effect in findings["effects"]
        for row in effect["rows"]
    }
    rows = report.effects.set_index(["parameter", "value"])["change"]
    assert effects == rows.to_dict()
    # Texts are those of the print, cell by cell.
    lines = [
        [*map(str.strip, line.split("|")[1:-1])] for line in str(report).split("\n")
    ]
    for name, table in findings["tables"].items():
        for row in table["rows"]:
            assert row in lines, (
                f"the row {row} of {name} is written otherwise in print"
            )
    for name in ("options", "effects"):
        start, _, _ = findings["legends"][name].partition(" The whole curve")
        assert start in str(report), f"the legend of {name} is another one in print"
    # The first option of the first question, as questions show it.
    recommended = findings["recommended"]
    assert recommended["question"] == 0
    assert recommended["place"] == 0
    answer = page.get("history", rater="ann")["answers"][0]
    assert recommended["shown"] == answer["shown"][0]
    best = findings["options"][0]["name"]
    assert findings["asked"] == [
        {"question": number, "options": [best, title]}
        for number, title in ((1, "1 B"), (2, "2 B"))
    ]
    duels = [(duel["better"], duel["times"]) for duel in findings["duels"]]
    assert duels == [(best, 1), (best, 1)]
    assert {row["rater"]: row["noise"] for row in findings["raters"]} == report.raters[
        "noise"
    ].to_dict()
    (pair,) = findings["agreement"]
    assert pair["first"] == "ann"
    assert pair["second"] == "bob"
    assert pair["upper"] == float(report.agreement["upper"].iloc[0])


# --- Questions that are being chosen


def test_a_question_is_asked_ahead(
    experiment: PreferenceExperiment, served: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the first is on display, the second is asked: no answer is needed."""
    started, ask_one = [Event(), Event(), Event()], experiment.ask
    count = iter(started)

    def noted(*args: Any, **options: Any) -> Any:
        question = ask_one(*args, **options)
        next(count).set()
        return question

    monkeypatch.setattr(experiment, "ask", noted)
    served(experiment).ask()
    assert started[1].wait(60)
    assert len(experiment.pending) == 2
    assert not started[2].is_set()


def test_those_who_need_a_question_get_theirs_from_one_choice(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thirty people waited for thirty fits."""
    begun, free, calls = Event(), Event(), []

    def ask(
        worker: ModelWorker, raters: list[str], num_raters: int, context: Any
    ) -> Any:
        calls.append(raters)
        begun.set()
        free.wait(60)
        # As where the search found too few.
        return [page.experiment.ask(2, rater=rater) for rater in raters[:3]]

    monkeypatch.setattr(ModelWorker, "ask", ask)
    page.get("question", 202, rater="ann", patience=0)
    assert begun.wait(60)
    others = ["bob", "cid", "dan", "eve"]
    for rater in others:
        page.get("question", 202, rater=rater, patience=0)
    free.set()
    questions = {rater: page.ask(rater)["question"] for rater in ["ann", *others]}
    assert len({*questions.values()}) == 5
    # Who has none comes first, by how long they wait; then those with nothing ahead.
    assert calls[:3] == [["ann"], [*others, "ann"], ["eve", "ann", "bob", "cid", "dan"]]
    until(lambda: len(page.experiment.pending) == 10)
    assert {question.rater for question in page.experiment.pending} == {"ann", *others}
    monkeypatch.setattr(rater_places, "BATCH", 2)
    for rater in others:
        page.answer(rater)
    until(lambda: len(page.experiment.pending) == 10)
    assert {len(raters) for raters in calls[-2:]} <= {1, 2}


def test_a_question_that_was_chosen_long_ahead_is_chosen_anew(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ann comes back after a break: the question on display stays, the next goes."""
    monkeypatch.setattr(repeated_calls, "MAX_MISSING", 3)

    def after_break(answers: int) -> tuple[int, int]:
        """Returns the numbers of the question ahead, and of the one that came."""
        displayed = page.ask("ann")["question"]
        until(lambda: len(page.experiment.pending) == 2)
        ahead = page.experiment.pending[1].index
        for _ in range(answers):
            page.experiment.record(OWN, winner=0, rater="bob")
        assert page.answer("ann") == displayed
        return ahead, page.ask("ann")["question"]

    # The model chooses nothing yet, and no answer is missed.
    ahead, following = after_break(4)
    assert following == ahead
    monkeypatch.setattr(ModelWorker, "start", lambda worker: None)
    monkeypatch.setattr(PreferenceExperiment, "num_answers", 10_000)
    # With her own there are three answers that it lacks.
    ahead, following = after_break(2)
    assert following == ahead
    ahead, following = after_break(3)
    assert following != ahead
    assert page.log[-1] == ("withdrawn", ahead, {"rater": None})


def test_the_page_has_texts_of_whoever_runs_the_experiment(
    experiment: PreferenceExperiment, served: Serve
) -> None:
    plain = served(experiment)
    assert plain.get("progress")["name"] == "tea"
    assert plain.ask()["prompt"] is None
    texts = {"title": "Tea", "question": "Which is tastier?", "introduction": "Sip."}
    page = served(experiment, **texts)
    progress = page.get("progress")
    assert progress["name"] == "Tea"
    assert progress["introduction"] == "Sip."
    assert page.ask()["prompt"] == "Which is tastier?"
    # An answer that waits is about the experiment, whatever the page is called.
    page.answer()
    for name in texts:
        for note in ("", " ", 5, "null \0", "x" * 2001):
            with pytest.raises(ExperimentError, match=f"{name} is "):
                served(experiment, **{name: note})


def test_an_ask_that_takes_long_says_so(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    free, ask_one = Event(), page.experiment.ask

    def slow(*args: Any, **options: Any) -> Any:
        free.wait(60)
        return ask_one(*args, **options)

    monkeypatch.setattr(page.experiment, "ask", slow)
    first, second = (page.get("question", 202, patience=0.01) for _ in range(2))
    assert first["question"] is second["question"] is None
    assert second["waited"] >= first["waited"] >= 0
    assert "patience" in page.get("question", 400, patience="long")["error"]
    free.set()
    assert page.ask()["question"] == 0


@pytest.mark.parametrize(
    "failure", [ExperimentError("no more options"), SystemExit("of a script")]
)
def test_an_ask_that_fails_says_why_and_is_tried_again(
    page: Page, monkeypatch: pytest.MonkeyPatch, failure: BaseException
) -> None:
    """Also one of a model that would end a script."""
    failures, ask_one = iter([failure]), page.experiment.ask

    def failing(*args: Any, **options: Any) -> Any:
        for each in failures:
            raise each
        return ask_one(*args, **options)

    monkeypatch.setattr(page.experiment, "ask", failing)
    if isinstance(failure, ExperimentError):
        assert page.get("question", 400) == {"error": "no more options"}
    else:
        with pytest.raises(RuntimeError, match="SystemExit: of a script"):
            page.get("question", patience=1)
    assert page.ask()["question"] == 0


def test_a_stored_answer_is_acknowledged_whatever_hinders_the_next_question(
    experiment: PreferenceExperiment, served: Serve
) -> None:
    def show(option: dict[str, Any]) -> str:
        if option not in first.options:
            raise ValueError("no picture")
        return "a cup"

    first = experiment.ask(2)
    page = served(experiment, show=show)
    reply = page.post("answer", question=page.ask()["question"], winner=0)
    assert reply == {"stored": 0, "next": None}
    assert "no picture" in page.get("question", 400)["error"]


@pytest.mark.slow
def test_raters_of_a_single_pair_are_asked_about_it_again_and_again(
    served: Serve, tmp_path: Path
) -> None:
    """Nothing can be asked ahead there, which is no reason to refuse the next one."""
    cups = RangeParameterConfig(name="cups", parameter_type="int", bounds=(1, 2))
    experiment = PreferenceExperiment.create(
        "two", parameters=[cups], storage=tmp_path / "two.db", initial=10_000
    )
    page = served(experiment)
    for rater in ("ann", None, "ann"):
        assert {option["cups"] for option in page.ask(rater)["options"]} == {1, 2}
        page.answer(rater)
    assert len(page.log) == 3
