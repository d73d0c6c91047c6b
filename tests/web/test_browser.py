"""People before a real browser: the experiment holds what was clicked."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import combinations
from pathlib import Path
from threading import Event
from typing import Any
from urllib.parse import urlsplit

import pytest
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from browsing import WIDGET, Visitor, browser, missing, serving, until
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webdriver import WebDriver
from selenium.webdriver.remote.webelement import WebElement
from starlette.responses import JSONResponse
from tea import OWN, create, log, stored

from botorch_pref.__main__ import main
from botorch_pref.ax import PreferenceExperiment
from botorch_pref.web import Markup, make_app
from botorch_pref.web.service import PreferenceService
from botorch_pref.web.worker import ModelWorker

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(missing() is not None, reason=f"{missing()}"),
]
PHONE, DESK = (390, 844), (1280, 844)
TOKEN = "right"
LABELS = ["a long choice", "one more, longer", "short", "Manitoba"]


@pytest.fixture(scope="module")
def driver() -> Iterator[WebDriver]:
    with browser() as driver:
        yield driver


Open = Callable[..., Visitor]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """The place where the experiment is kept."""
    return tmp_path / "tea.db"


@pytest.fixture
def visit(driver: WebDriver, place: Path) -> Iterator[Open]:
    """Somebody before the page of an experiment, by default a new one with duels."""
    with ExitStack() as stack:

        def visit(
            experiment: PreferenceExperiment | None = None,
            window: tuple[int, int] = PHONE,
            query: str = "",
            **options: Any,
        ) -> Visitor:
            app = make_app(experiment or create(place), **{"size": 2, **options})
            visitor = Visitor(driver, *window)
            # Of servers that are gone.
            visitor.complaints()
            visitor.address = stack.enter_context(serving(app))
            visitor.visit(f"{visitor.address}/{query}")
            return visitor

        yield visit


def kept(place: Path) -> list[tuple[str, int, dict[str, Any]]]:
    """Lists what happened, of nobody in particular, as another process finds it."""
    return [
        (kind, index, {k: v for k, v in answer.items() if k != "rater"})
        for kind, index, answer in log(stored(place))
    ]


def test_a_phone_answers_twelve_questions_by_clicks(visit: Open, place: Path) -> None:
    clicked: list[tuple[str, int, dict[str, Any]]] = []

    def told(index: int, **answer: Any) -> None:
        clicked.append(("told", index, answer))

    visitor = visit(query=f"?token={TOKEN}", token=TOKEN)
    visitor.is_usable()
    told(visitor.answer("A is better"), winner=0)
    told(visitor.answer("B is better"), winner=1)
    told(visitor.answer("No difference"), tie=True)
    told(visitor.answer("Cannot compare"), cannot_compare=True)
    # A reload in the middle changes nothing.
    before = visitor.index()
    visitor.reload()
    assert visitor.index() == before
    told(visitor.answer("B is better"), winner=1)
    # A tap anywhere on a card is a tap on its button.
    told(visitor.leave(visitor.all(".bp-letter")[0].click), winner=0)
    # Undone, and answered anew.
    last = clicked[-1][1]
    visitor.leave(lambda: visitor.click("Undo"))
    assert visitor.index() == last
    clicked.append(("undone", last, {}))
    told(visitor.answer("B is better"), winner=1)
    clicked.append(("withdrawn", visitor.answer("Skip"), {}))
    # All that is beside a choice.
    visitor.click("Say more")
    visitor.is_usable()
    visitor.click("A failed")
    # With one that failed there is nothing to compare.
    for text in ("A is better", "B is better", "No difference"):
        assert not visitor.button(text).is_enabled()
    assert [save.is_enabled() for save in visitor.all(".bp-save")] == [False, True]
    told(visitor.answer("Save this without a choice"), invalid=[0])
    # It stays open until it is closed.
    scale = visitor.all(".bp-more [role=radio]")
    scale[4].click()
    scale[5].click()
    told(visitor.answer("A is better"), winner=0, levels=[4, 0])
    visitor.all("[aria-label^='How much']")[0].send_keys(Keys.HOME)
    told(visitor.answer("Save"), strength=0.99)
    visitor.click("Say more")
    own_question = own_design(visitor)
    told(
        visitor.answer("A is better" if own_question == 0 else "B is better"),
        winner=own_question,
    )
    assert visitor.all(".bp-more[open]") == []
    visitor.menu("My answers")
    until(lambda: "A is much better" in visitor.text())
    assert visitor.fits()
    visitor.click("Close")
    told(visitor.answer("B is better"), winner=1)
    assert visitor.complaints() == []
    assert kept(place) == clicked
    assert sum(kind == "told" for kind, *_ in clicked) == 12
    experiment = stored(place)
    told_events = [e for e in experiment.log.events if e.kind == "told"]
    assert all(event.what["seconds"] > 0 for event in told_events)
    # The parameters that were typed in are those of the option that won.
    options = experiment.question(clicked[-2][1]).options
    assert options[own_question]["cups"] == 4
    assert options[own_question]["leaf (g)"] == 8.75


def own_design(visitor: Visitor) -> int:
    """Edits the first option: four cups. Its place among what is shown then."""

    def edit() -> None:
        visitor.menu("My own design")
        (cups,) = until(lambda: visitor.all("dialog input[name=cups]"))
        cups.clear()
        cups.send_keys("4")
        (leaf,) = visitor.all("dialog input[name='leaf (g)']")
        leaf.clear()
        leaf.send_keys("8.75")
        visitor.is_usable()
        # A double tap.
        script = "arguments[0].click(); arguments[0].click();"
        visitor.driver.execute_script(
            script, visitor.button("Compare", within="dialog form")
        )

    visitor.leave(edit)
    return visitor.texts("tr:first-child .bp-value").index("8.75")


def test_a_desk_answers_by_keys(visit: Open, place: Path) -> None:
    keys: list[tuple[str, dict[str, Any]]] = [
        (Keys.ARROW_LEFT, {"winner": 0}),
        (Keys.ARROW_RIGHT, {"winner": 1}),
        ("1", {"winner": 0}),
        ("2", {"winner": 1}),
        ("=", {"tie": True}),
        ("c", {"cannot_compare": True}),
    ]
    pressed: list[tuple[str, int, dict[str, Any]]] = []
    visitor = visit(window=DESK)
    # There is nothing to undo before the first answer.
    assert not visitor.button("Undo").is_enabled()
    visitor.all("body")[0].send_keys("u")
    for key, answer in keys:
        pressed.append(("told", visitor.press(key), answer))
        assert visitor.driver.switch_to.active_element.text == "Which do you prefer?"
        assert visitor.button("Undo").is_enabled()
    visitor.press("u")
    pressed.append(("undone", pressed[-1][1], {}))
    # From the question the focus goes to the first choice, then to the second.
    choices = visitor.all(".bp-choose")
    for choice in choices:
        visitor.driver.switch_to.active_element.send_keys(Keys.TAB)
        assert visitor.driver.switch_to.active_element == choice
    visitor.is_usable()
    chosen = visitor.leave(lambda: choices[1].send_keys(Keys.ENTER))
    pressed.append(("told", chosen, {"winner": 1}))
    assert visitor.complaints() == []
    assert kept(place) == pressed


ASLEEP = """
    const asleep = (event) => event.stopImmediatePropagation();
    document.addEventListener("visibilitychange", asleep, { capture: true });
"""
"""A tab that does not notice that it is looked at again."""


def test_two_raters_and_two_tabs_lose_and_double_nothing(
    driver: WebDriver, visit: Open, place: Path
) -> None:
    first = driver.current_window_handle
    visitor = visit(query="?rater=ann")
    ann, address = visitor.index(), visitor.address
    driver.execute_script(ASLEEP)
    driver.switch_to.new_window("tab")
    visitor = Visitor(driver, *PHONE)
    visitor.visit(address)
    nameless = visitor.index()
    visitor.enter_name("bob")
    bob = visitor.index()
    # What was on display without a name is so with it.
    assert bob == nameless != ann
    assert visitor.answer("B is better") == bob
    # Her question, in a second tab of hers: the first answer counts.
    visitor.visit(f"{address}/?rater=ann")
    assert visitor.index() == ann
    assert visitor.answer("A is better") == ann
    following = visitor.index()
    driver.close()
    driver.switch_to.window(first)
    visitor = Visitor(driver, *PHONE)
    assert visitor.answer("B is better") == ann
    assert visitor.index() == following
    assert "had an answer already" in visitor.text()
    assert log(stored(place)) == [
        ("told", bob, {"winner": 1, "rater": "bob"}),
        ("told", ann, {"winner": 0, "rater": "ann"}),
    ]


def test_a_question_that_cannot_be_shown_is_skipped(
    driver: WebDriver, place: Path
) -> None:
    experiment = create(place)
    first = experiment.ask(2)

    def show(option: dict[str, Any]) -> str:
        return "a cup" if option not in first.options else option["colour"]

    with serving(make_app(experiment, show=show, size=2)) as address:
        driver.get(address)
        visitor = Visitor(driver, *PHONE)
        until(lambda: "KeyError: 'colour'" in visitor.text())
        assert visitor.small_targets() == []
        visitor.click("Skip this question")
        assert visitor.index() != first.index
        # A name that cannot be, in an address that somebody has made.
        driver.get(f"{address}/?rater={'x' * 10_000}")
        until(lambda: "more than 100 characters" in visitor.text())
        visitor.click("Enter my name")
        name = driver.switch_to.active_element
        name.clear()
        name.send_keys("ann", Keys.ENTER)
        assert visitor.index() != first.index
    assert kept(place) == [("withdrawn", first.index, {})]


def test_an_answer_outlives_the_server_that_was_to_store_it(
    driver: WebDriver, place: Path
) -> None:
    visitor, clicked = Visitor(driver, *PHONE), []
    with serving(make_app(create(place), size=2)) as address:
        visitor.visit(address)
        for winner, text in enumerate(("A is better", "B is better")):
            clicked.append(("told", visitor.answer(text), {"winner": winner}))
        index = visitor.index()
    visitor.click("B is better")
    until(lambda: "No connection" in visitor.text())
    # That the answer before was saved is not said beside it.
    assert visitor.all(".bp-message")[0].text == ""
    # As a phone does that puts the page away: nobody clicks again.
    with serving(make_app(stored(place), size=2), urlsplit(address).port or 0):
        visitor.visit(address)
        until(lambda: visitor.index() != index)
        clicked.append(("told", index, {"winner": 1}))
        clicked.append(("told", visitor.answer("A is better"), {"winner": 0}))
    assert kept(place) == clicked


def test_an_answer_waits_while_something_else_is_served_at_its_address(
    driver: WebDriver, place: Path
) -> None:
    """As another program at this port, or the experiment under another name."""
    visitor = Visitor(driver, *PHONE)
    with serving(make_app(create(place), size=2)) as address:
        visitor.visit(address)
        index, port = visitor.index(), urlsplit(address).port or 0
    visitor.click("B is better")
    until(lambda: "No connection" in visitor.text())
    reply = JSONResponse({"error": "There is nothing of this name."}, 404)
    with serving(reply, port):
        until(lambda: "There is nothing of this name." in visitor.text())
    with serving(make_app(stored(place), size=2), port):
        visitor.click("Try again")
        until(lambda: visitor.index() != index)
    assert kept(place) == [("told", index, {"winner": 1})]


def test_an_answer_waits_while_another_experiment_is_asked_about_at_its_address(
    driver: WebDriver, place: Path
) -> None:
    visitor = Visitor(driver, *PHONE)
    experiment_of_coffee = PreferenceExperiment.create(
        "coffee",
        parameters=[
            RangeParameterConfig(name="g", parameter_type="float", bounds=(1, 9))
        ],
        storage=place.with_name("coffee.db"),
        initial=99,
    )
    with serving(make_app(create(place), size=2)) as address:
        visitor.visit(address)
        index, port = visitor.index(), urlsplit(address).port or 0
    visitor.click("B is better")
    until(lambda: "No connection" in visitor.text())
    message = (
        "asks about coffee now. Your answer is kept here, and sent as soon as it can"
    )
    with serving(make_app(experiment_of_coffee, size=2), port):
        until(lambda: message in visitor.text())
        assert "No connection" not in visitor.text()
        # It hinders no answer to what is asked there, even of the same number.
        visitor.click("Try again")
        assert visitor.index() == index
        until(lambda: message in visitor.text())
        assert visitor.answer("A is better") == index
        assert message not in visitor.text()
    assert log(experiment_of_coffee) == [("told", index, {"winner": 0, "rater": None})]
    with serving(make_app(stored(place), size=2), port):
        visitor.visit(address)
        until(lambda: visitor.index() != index)
    assert kept(place) == [("told", index, {"winner": 1})]


def test_a_note_is_kept_with_one_answer(visit: Open, place: Path) -> None:
    experiment = create(place)
    for size in (2, 3):
        experiment.ask(size, rater="ann")
    visitor = visit(experiment, query="?rater=ann", kinds=["winner", "strength"])
    visitor.click("Say more")
    visitor.all(".bp-note")[0].send_keys("my own")
    noted = visitor.answer("A is better")
    # Here no more can be said, and so no note be written.
    best = visitor.answer("B is the best")
    events = [event for event in stored(place).log.events if event.kind == "told"]
    notes = [(event.question, event.what.get("note")) for event in events]
    assert notes == [(noted, "my own"), (best, None)]


LOST = """
    const real = window.fetch;
    window.fetch = async (url, request) => {
        const reply = await real(url, request);
        if (!`${url}`.startsWith("api/undo")) return reply;
        window.fetch = real;
        throw new TypeError("The network was changed.");
    };
"""
"""A connection that loses the reply to the next undo."""


def test_an_undo_whose_reply_is_lost_undoes_one_answer_when_it_is_tapped_again(
    visit: Open, place: Path
) -> None:
    visitor = visit()
    first, last = visitor.answer("A is better"), visitor.answer("B is better")
    visitor.driver.execute_script(LOST)
    visitor.click("Undo")
    until(lambda: "No connection" in visitor.text())
    visitor.leave(lambda: visitor.click("Undo"))
    assert visitor.index() == last
    again = visitor.answer("A is better")
    expected_log = [("told", first, {"winner": 0}), ("told", last, {"winner": 1})]
    redone = [("undone", last, {}), ("told", again, {"winner": 0})]
    assert kept(place) == expected_log + redone


SILENT = """
    const real = window.fetch;
    window.fetch = (url, request) => {
        if (`${url}`.startsWith("api/progress")) return new Promise(() => {});
        return real(url, request);
    };
"""
"""A connection so slow that nothing comes of what was answered so far."""


def test_the_number_of_a_question_comes_with_it_on_a_slow_connection(
    visit: Open,
) -> None:
    visitor = visit()
    visitor.answer("A is better")
    until(lambda: visitor.all(".bp-counts")[0].text.startswith("Question 2 "))
    visitor.driver.execute_script(SILENT)
    visitor.answer("B is better")
    assert visitor.all(".bp-counts")[0].text.startswith("Question 3 ")


def test_the_page_asks_whether_to_go_on_once_it_may_be_enough(
    visit: Open, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    visitor = visit()
    assert visitor.all(".bp-enough *") == []
    best = visitor.all(".bp-card .bp-value")[4].text
    answers = 12

    def end(service: PreferenceService, rater: str | None) -> dict[str, Any]:
        contents = service._presenter.shown(service.experiment.question(0))
        return {"answers": answers, "chance": 0.83, "shown": contents[1]}

    monkeypatch.setattr(PreferenceService, "_shown_end", end)
    visitor.reload()
    until(lambda: "This may be enough" in visitor.text())
    assert (
        "The chance that it is the best of all that was shown is 83 %" in visitor.text()
    )
    assert best in visitor.texts(".bp-enough .bp-value")
    visitor.is_usable()
    # The questions go on below it.
    answered = visitor.answer("A is better")
    visitor.click("That is enough")
    until(lambda: "Thank you. All answers are saved" in visitor.text())
    assert visitor.all(".bp-options") == []
    visitor.is_usable()
    visitor.click("Go on")
    visitor.settled()
    assert visitor.all(".bp-enough *") == []
    visitor.answer("A is better")
    visitor.reload()
    visitor.settled()
    assert visitor.all(".bp-enough *") == []
    # It asks again when there are half as many answers more.
    answers = 18
    visitor.reload()
    until(lambda: "After 18 answers" in visitor.text())
    assert kept(place)[0] == ("told", answered, {"winner": 0})


def test_everybody_counts_questions_of_her_own(visit: Open) -> None:
    visitor = visit(query="?rater=ann")
    for _ in range(3):
        visitor.answer("A is better")
    visitor.enter_name("bob")
    assert visitor.index() > 2
    until(lambda: "Question 1 · 3 answers · 0 by you" in visitor.text())
    assert visitor.all("[role=group]")[0].accessible_name == "Question 1"
    visitor.answer("B is better")
    until(lambda: "Question 2 · 4 answers · 1 by you" in visitor.text())
    visitor.menu("My answers")
    (heading,) = until(lambda: visitor.all("dialog h3"))
    assert heading.text.startswith("1. B is better")


TEXT = "<img src=x onerror=\"document.title='run'\"> & <b>leaf</b>"
MARKED = Markup(
    "<em onclick=\"document.title='run'\">marked</em>"
    '<script>document.title="run"</script>'
)


def test_what_is_shown_is_text_and_what_is_marked_runs_nothing(visit: Open) -> None:
    visitor = visit(window=DESK, show=lambda option: [TEXT, MARKED])
    assert visitor.texts(".bp-text") == [TEXT, TEXT]
    assert visitor.texts(".bp-markup em") == ["marked", "marked"]
    marked = visitor.all(".bp-markup em")
    click = "arguments[0].dispatchEvent(new Event('click'))"
    visitor.driver.execute_script(click, marked[0])
    assert visitor.driver.title == "tea"
    refused = visitor.complaints()
    assert refused
    assert [line for line in refused if "Content Security" not in line] == []


def test_a_ranking_is_tapped_in_order(visit: Open, place: Path) -> None:
    visitor = visit(size=3, kinds=["best", "ranking"])
    visitor.is_usable()
    # There is no more to say.
    assert "null" not in visitor.text()
    visitor.click("Rank them all")
    visitor.click("C is next")
    ranked = visitor.answer("A is next")
    best = visitor.answer("B is the best")
    assert kept(place) == [
        ("told", ranked, {"ranking": [2, 0, 1]}),
        ("told", best, {"best": 1}),
    ]


def test_a_tap_ranks_where_nothing_but_a_ranking_is_asked_for(
    visit: Open, place: Path
) -> None:
    visitor = visit(size=4, kinds=["ranking", "tie", "invalid"])
    visitor.is_usable()
    body = visitor.driver.find_element(By.TAG_NAME, "body")

    def shown(text: str) -> bool:
        return any(label.startswith(text) for label in visitor.texts("button"))

    assert "Tap them in order, the best first" in visitor.text()
    assert not shown("Rank them all")
    equal = visitor.answer("No difference")
    visitor.click("B is next")
    body.send_keys("=", "r")
    assert not shown("No difference")
    visitor.click("D is next")
    assert "So far B > D" in visitor.text()
    body.send_keys(Keys.ESCAPE)
    assert shown("B is next")
    # With nothing tapped, it is the last answer that Undo takes back.
    visitor.leave(lambda: visitor.click("Undo"))
    assert visitor.index() == equal
    for text in ("C is next", "A is next", "Undo", "B is next", "Say more"):
        visitor.click(text)
    # With one left there is nothing to rank.
    for text in ("A failed", "B failed", "C failed", "C failed"):
        visitor.click(text)
    visitor.click("D is next", within="article")
    until(lambda: visitor.index() != equal)
    assert kept(place) == [
        ("told", equal, {"tie": True}),
        ("undone", equal, {}),
        ("told", equal, {"winner": 3, "invalid": [0, 1]}),
    ]


@pytest.mark.parametrize("kind", ["levels", "strength"])
def test_a_tap_says_nothing_where_no_choice_is_asked_for(
    visit: Open, place: Path, kind: str
) -> None:
    visitor = visit(kinds=[kind])
    visitor.is_usable()
    index = visitor.index()
    assert visitor.all(".bp-choose") == []
    visitor.all(".bp-letter")[0].click()
    visitor.all("body")[0].send_keys(Keys.ARROW_LEFT, "1")
    answer: dict[str, Any] = {"strength": 0.99}
    if kind == "levels":
        assert "How good is each?" in visitor.all(".bp-prompt")[0].text
        visitor.all(".bp-more [role=radio]")[3].click()
        answer = {"levels": [3, None]}
    else:
        visitor.all("[aria-label^='How much']")[0].send_keys(Keys.HOME)
    assert visitor.answer("Save") == index
    assert kept(place) == [("told", index, answer)]


def test_a_ranking_says_how_to_stop_it(visit: Open, place: Path) -> None:
    visitor = visit(size=4)

    def says() -> list[str]:
        return [text.split("\n")[0] for text in visitor.texts(".bp-beside button")]

    before = says()
    assert before == ["No difference", "Rank them all", "Cannot compare"]
    body = visitor.driver.find_element(By.TAG_NAME, "body")
    by_button = partial(visitor.click, "Stop ranking")
    for stop in (by_button, partial(body.send_keys, Keys.ESCAPE)):
        visitor.click("Rank them all")
        # What would be an answer at once cannot be tapped by mistake.
        assert says() == ["Stop ranking"]
        body.send_keys("=", "c")
        visitor.click("B is next")
        visitor.click("D is next")
        assert "So far B > D" in visitor.text()
        stop()
        assert says() == before
        assert "Which is the best?" in visitor.text()
    visitor.click("Rank them all")
    visitor.click("B is next")
    visitor.click("D is next")
    # The last tap and no answer is taken back.
    visitor.click("Undo")
    visitor.click("A is next")
    ranked = visitor.answer("C is next")
    assert kept(place) == [("told", ranked, {"ranking": [1, 0, 2, 3]})]


def test_what_failed_leaves_a_ranking_and_has_no_level(
    visit: Open, place: Path
) -> None:
    visitor = visit(size=4)
    for text in ("Rank them all", "B is next", "A is next", "Say more"):
        visitor.click(text)
    visitor.click("B failed")
    assert "So far A;" in visitor.text()
    visitor.click("D failed")
    ranked = visitor.answer("C is next")
    # All that is left has its place: the last tap is made again.
    for text in ("Rank them all", "B is next", "A is next"):
        visitor.click(text)
    for text in ("C failed", "D failed"):
        visitor.click(text)
    again = visitor.answer("A is next")
    visitor.all(".bp-more [role=radio]")[2].click()
    assert "How good is each? 5 is the best." in visitor.text()
    visitor.click("A failed")
    best = visitor.answer("B is the best")
    assert kept(place) == [
        ("told", ranked, {"winner": 0, "invalid": [1, 3]}),
        ("told", again, {"winner": 1, "invalid": [2, 3]}),
        ("told", best, {"best": 1, "invalid": [0]}),
    ]


def test_of_four_a_phone_says_the_best_or_nothing_or_skips(
    visit: Open, place: Path
) -> None:
    visitor = visit(size=None)
    visitor.is_usable()
    best = visitor.answer("D is the best")
    none = visitor.answer("Cannot compare")
    equal = visitor.answer("No difference")
    skipped = visitor.answer("Skip")
    assert kept(place) == [
        ("told", best, {"best": 3}),
        ("told", none, {"cannot_compare": True}),
        ("told", equal, {"tie": True}),
        ("withdrawn", skipped, {}),
    ]
    # What was skipped does not count.
    until(lambda: "Question 4 · 3 answers" in visitor.text())
    # Four options that were shown stand there with each value in one line.
    visitor.menu("My answers")
    values = until(lambda: visitor.all("dialog .bp-value"))
    lines = "return arguments[0].map((value) => value.getClientRects().length)"
    assert visitor.driver.execute_script(lines, values) == [1] * 48
    # In brackets are the names that the report has.
    names = visitor.texts("dialog .bp-letter")
    titles = [f"{q + 1} {x}" for q in (equal, none, best) for x in "ABCD"]
    assert names == [f"{title[-1]} ({title})" for title in titles]
    assert {*titles} <= {*stored(place).titles.values()}
    assert visitor.fits()


def test_no_name_of_a_parameter_is_broken_within_a_word(
    visit: Open, place: Path
) -> None:
    parameters = [
        RangeParameterConfig(
            name="catalyst_concentration (mol/L)",
            parameter_type="float",
            bounds=(1e-6, 1e-2),
            scaling="log",
        ),
        ChoiceParameterConfig(
            name="solvent",
            parameter_type="str",
            values=["2-methyltetrahydrofuran (bio-based)", "2-butanone (of wood)"],
            is_ordered=True,
        ),
    ]
    lab = PreferenceExperiment.create("lab", parameters=parameters, storage=place)
    visitor = visit(lab, DESK, size=4)
    lines_of_words = """
        return [...document.querySelectorAll("th")].flatMap((th) =>
            [...th.textContent.matchAll(/\\S+/g)].map((word) => {
                const range = document.createRange();
                range.setStart(th.firstChild, word.index);
                range.setEnd(th.firstChild, word.index + word[0].length);
                return range.getClientRects().length;
            }));
    """
    for window in (DESK, (700, 844), PHONE):
        visitor.resize(*window)
        # Three words of each of four options.
        assert visitor.driver.execute_script(lines_of_words) == [1] * 12
        assert visitor.fits()


def test_a_tap_that_a_picture_overtakes_is_no_answer(visit: Open, place: Path) -> None:
    picture = b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"></svg>'
    visitor = visit(show=lambda option: picture)
    # It comes late, moves all that is below it, and a finger is on its way.
    overtaken = """
        const done = arguments[0], picture = document.querySelector(".bp-image");
        picture.style.minHeight = "300px";
        new ResizeObserver((_, observer) => {
            observer.disconnect();
            document.querySelector(".bp-choose").click();
            done();
        }).observe(picture);
    """
    visitor.driver.execute_async_script(overtaken)
    last = visitor.answer("B is better")
    assert kept(place) == [("told", last, {"winner": 1})]
    assert last == 0


def test_four_options_stand_in_a_row_or_in_two_equal_ones(visit: Open) -> None:
    visitor = visit(size=4)
    for width in (390, 600, 700, 834, 900, 940, 1280):
        visitor.resize(width, 844)
        tops = [card["y"] for card in visitor.boxes(".bp-options .bp-card")]
        assert [tops.count(top) for top in tops] == [4 if width > 930 else 2] * 4


def test_a_phone_has_four_options_in_sight_and_a_small_one_levels_in_a_row(
    visit: Open,
) -> None:
    visitor = visit(size=4)
    buttons = visitor.boxes(".bp-choose")
    assert max(rect["y"] + rect["height"] for rect in buttons) < PHONE[1]
    visitor.resize(320, 568)
    visitor.click("Say more")
    visitor.is_usable()
    scales = visitor.all(".bp-more [role=radiogroup]")
    rows = [scale.find_elements(By.TAG_NAME, "button") for scale in scales]
    assert [len({level.rect["y"] for level in row}) for row in rows] == [1] * 4


@pytest.mark.parametrize(("words", "rows"), [(4, 2), (40, 4)])
def test_long_texts_stand_below_each_other_on_a_phone(words, rows, visit: Open) -> None:
    visitor = visit(size=4, show=lambda option: "lemon " * words)
    assert len({card["y"] for card in visitor.boxes(".bp-options .bp-card")}) == rows


def test_the_widget_is_the_same_component(visit: Open, place: Path) -> None:
    """Messages of a notebook's model are handed to the page's calls here."""
    visitor = visit(window=DESK)
    assert visitor.driver.execute_async_script(WIDGET)
    answered = visitor.answer("B is better")
    until(lambda: "Saved: B is better" in visitor.text())
    assert kept(place) == [("told", answered, {"winner": 1})]


COVERED = """
    const operated = document.querySelectorAll("button, summary, select, input, a");
    const over = (e) => {
        // At the lower end of the window, where most things lie over others.
        e.scrollIntoView({ block: "end" });
        const { left, right, top, bottom } = e.getBoundingClientRect();
        return [0.2, 0.5, 0.8].flatMap((x) => [0.1, 0.5, 0.9].map((y) =>
            document.elementFromPoint(
                left + x * (right - left), top + y * (bottom - top))
        )).filter((at) => at && !e.contains(at) && !at.contains(e))
            .map((at) => at.outerHTML);
    };
    return [...operated].filter((e) => e.checkVisibility()).flatMap(over);
"""
"""Script that finds what lies over something that can be operated."""


def test_nothing_lies_over_a_button(visit: Open) -> None:
    # Options that are higher than the window.
    visitor = visit(show=lambda option: "leaf\n" * 50)
    for size in ((360, 640), (1440, 900)):
        visitor.resize(*size)
        for text in ("A is better", "No difference", "Skip"):
            visitor.answer(text)
            assert ("Skipped" if text == "Skip" else "Saved") in visitor.text()
            assert visitor.driver.execute_script(COVERED) == [], f"covered at {size}"
            assert visitor.fits(), f"the page is too wide at {size}"
        visitor.leave(lambda: visitor.click("Undo"))
        assert "Undone" in visitor.text()
        assert visitor.driver.execute_script(COVERED) == [], f"covered at {size}"


def test_taps_answer_one_question_and_beside_the_menu_none(
    visit: Open, place: Path
) -> None:
    visitor = visit(window=(360, 640))
    visitor.click("Menu")
    visitor.click("A is better")
    assert not visitor.all(".bp-menu")[0].is_displayed()
    assert kept(place) == []
    visitor.answer("B is better")
    assert [answer for _, _, answer in kept(place)] == [{"winner": 1}]
    for _ in range(3):
        # The second tap comes as soon as another question is there.
        visitor.leave(lambda: visitor.driver.execute_script(DOUBLE_TAP))
    assert [kind for kind, *_ in kept(place)] == ["told"] * 4


def test_the_findings_about_raters_are_whole_on_a_phone(
    visit: Open, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rater = {"answers": 1234, "lower": 0.241, "upper": 13.4, "outlier": True}
    option = {"leaf (g)": 2.0, "difference": 0, "least": -1, "most": 1}
    names = ["1 A", "1 B", "an id of a row that is longer than there is room", "12 D"]
    sizes = {
        "summary": [
            ["answered alike", 0.8],
            ["options", 40 * "12 D, "],
            ["recommended of those shown", "1 A"],
        ],
        "options": [{**option, "name": name} for name in names],
        "recommended": {"question": 0, "place": 0, "name": "1 A"},
        "reference": "1 A",
        "effects": [
            {"parameter": name, "is_choice": choice, "log": False}
            | {
                "caption": "not known from these answers, at most 0.43",
                "rows": [
                    {"value": v, "text": str(v), "change": 0, "lower": -1, "upper": 1}
                    for v in list_name
                ],
            }
            for name, choice, list_name in (
                ("leaf (g)", False, [1.5, 2.5, 4.0]),
                (
                    "a parameter with a name",
                    True,
                    ["a long choice", "one more, longer", "short", "Manitoba"],
                ),
            )
        ],
        "parameters": ["leaf (g)"],
        "asked": [
            {"question": 1, "options": ["1 A", "1 B"]},
            {"question": 12, "options": ["1 A", "12 D"]},
        ],
        "duels": [
            {"better": "1 A", "worse": "12 D", "times": 1},
            {"tied": ["1 B", "12 D"], "times": 3},
        ],
        "raters": [
            {**rater, "rater": name, "noise": 0.907, "names_better": 0.771}
            for name in ("Alexandra of the long name", "李小雷")
        ],
        "agreement": [
            {"first": "李小雷", "second": "Alexandra of the long name"}
            | {"agreement": -0.4}
            | {"lower": -0.9, "upper": 0.2, "text": "-0.40 (-0.90 to 0.20)"}
        ],
        "tables": {
            "options": {
                "columns": ["leaf (g)", "beside 1 A"],
                "rows": [[name, "2", "-0.49 (-1.00 to -0.003)"] for name in names],
            },
            "summary": {
                "columns": ["value", "meaning"],
                "rows": [
                    ["answered alike", "0.80", "0.5 is guessing"],
                    ["options", 40 * "12 D, ", ""],
                    ["recommended of those shown", "1 A", ""],
                ],
            },
            "raters": {
                "columns": ["answers", "noise", "right", "outlier"],
                "rows": [
                    [name, "1234", "0.907 (0.241 to 13.4)", "77 %", "yes"]
                    for name in ("Alexandra of the long name", "李小雷")
                ],
            },
        },
        "legends": {
            "options": "1 A is option A of question 1, where it was first shown.",
            "effects": "Change of utility from the best option shown.",
            "raters": "Noise: how much chance is in the answers.",
        },
        "warnings": [],
    }
    monkeypatch.setattr(ModelWorker, "findings", lambda *_: sizes)
    visitor = visit(window=(390, 844))
    visitor.driver.get(f"{visitor.address}/report")
    until(lambda: visitor.all(".bp-raters"))
    assert visitor.fits()
    # Marks of what was more or less in its question say nothing of an option alone.
    assert visitor.all(".bp-bests .bp-rank")
    assert visitor.texts(".bp-bests .bp-rank") == []
    (table, *_), figures = visitor.all(".bp-raters"), visitor.all(".bp-figure")
    frames = [figure.find_element(By.XPATH, "..") for figure in figures]

    def are_whole(*parts: WebElement) -> bool:
        wide = "return arguments[0].every((e) => e.scrollWidth <= e.clientWidth)"
        return bool(visitor.driver.execute_script(wide, [*parts]))

    assert are_whole(table, *frames)
    # The way back is not cut off on a smaller phone either.
    visitor.resize(360, 640)
    assert are_whole(*visitor.all("a.bp-chip"))
    for width in (390, 1280):
        visitor.resize(width, 844)
        # Arcs, and whatever is written, end within the figure.
        assert until(lambda: visitor.driver.execute_script(WITHIN))
    visitor.resize(390, 844)
    # No two labels of an effect meet.
    for figure in visitor.driver.execute_script(EFFECT_LABELS):
        for a, b in combinations(figure, 2):
            beside = max(a["left"], b["left"]) >= min(a["right"], b["right"])
            assert beside or abs(a["y"] - b["y"]) > 10
    visitor.click("Numbers behind this")
    assert "0.907 (0.241 to 13.4)" in table.text
    assert "0.5 is guessing" in visitor.text()
    # Numbers are written as the report writes them, and its legends stand here.
    for words in ("0.80", "-0.49 (-1.00 to -0.003)", *sizes["legends"].values()):
        assert words in visitor.text(), f"the page has no {words}"
    # A long value leaves half of the row to its name.
    name, row = visitor.all(".bp-summary dt")[0], visitor.all(".bp-summary")[0]
    assert name.size["width"] >= row.size["width"] // 2
    assert "1 A is option A of question 1, where it was first shown" in visitor.text()
    assert "Differences to 1 A, and who was better than whom" in visitor.text()
    assert visitor.text().count("not known from these answers, at most 0.43") == 2
    sizes |= {"asked": [], "duels": []}

    def named_in_figure() -> list[int]:
        names = visitor.texts(".bp-figure .bp-name")
        return [names.count("w00"), names.count("w11")]

    # A phone shows ten rows, and the others where they are asked for; a desk all.
    rows = [{**option, "name": f"w{i:02}"} for i in range(12)]
    sizes |= {"options": rows}
    table_rows = [[row["name"], "2", ""] for row in rows]
    sizes["tables"]["options"]["rows"] = table_rows
    for width, number in ((390, 10), (1280, 12)):
        visitor.resize(width, 844)
        visitor.driver.refresh()
        until(lambda: visitor.all(".bp-raters"))
        for wanted in (number, 12):
            table = visitor.all(".bp-data")[-1]
            assert len(table.find_elements(By.CSS_SELECTOR, "tbody tr")) == wanted
            # The figure follows the table when its place has been measured.
            until(lambda wanted=wanted: named_in_figure() == [1, wanted == 12])
            for button in visitor.all(".bp-all"):
                assert button.text == "Show all 12"
                button.click()
    # Of one person alone no noise is known, but what was repeated alike.
    sentence = "Without a name: 3 of 4 repeated alike."
    sizes |= {"raters": [], "agreement": [], "rater_sentences": [sentence]}
    visitor.driver.refresh()
    until(lambda: visitor.texts(".bp-sentences li") == [sentence])


EFFECT_LABELS = """
    return [...document.querySelectorAll(".bp-effect")].map((figure) =>
        [...figure.querySelectorAll("text")]
            .map((label) => label.getBoundingClientRect().toJSON()));
"""

WITHIN = """
    const figure = document.querySelector(".bp-arc").closest("svg");
    const { left, right } = figure.getBoundingClientRect();
    const width = figure.parentElement.clientWidth;
    const arcs = document.querySelectorAll(".bp-arc");
    return Math.abs(right - left - width) < 1 && arcs.length === 2
        && [...figure.querySelectorAll("text, path, line")].every((e) => {
            const box = e.getBoundingClientRect();
            return box.left >= left - 0.5 && box.right <= right + 0.5;
        });
"""


DOUBLE_TAP = """
    const tap = () => document.querySelector(".bp-choose").click();
    const before = document.querySelector("[role=group]");
    new MutationObserver((_, observer) => {
        const group = document.querySelector("main [role=group]");
        if (!group || group === before) return;
        observer.disconnect();
        tap();
    }).observe(document.querySelector("main"), { childList: true });
    tap();
"""


def test_a_design_of_ones_own_opens_as_one_that_can_be_compared(
    visit: Open, place: Path
) -> None:
    experiment = create(place)
    first = experiment.ask(options=[{**OWN[0], "leaf (g)": 4.00123}, OWN[1]])
    visitor, start = visit(experiment), "dialog [aria-label='Start from']"

    def compare() -> None:
        visitor.menu("My own design")
        until(lambda: visitor.all("dialog .bp-save:enabled"))
        # From A there is nothing to compare until something is changed.
        visitor.click("A", within=start)
        assert not visitor.button("Compare").is_enabled()
        assert "This is A as it is" in visitor.text()
        (leaf,) = visitor.all("dialog [name='leaf (g)']")
        # Below what is shown.
        leaf.send_keys(".001")
        assert not visitor.button("Compare").is_enabled()
        leaf.send_keys(Keys.BACKSPACE * 5)
        visitor.click("Compare")
        until(lambda: "should be a number from 1 to 9" in visitor.text())
        visitor.click("between", within=start)
        assert visitor.button("Compare").is_enabled()
        visitor.click("Compare")

    visitor.leave(compare)
    # One was asked ahead. What was not changed is what it was, below what is shown too.
    remaining_options = [
        visitor.options
        for visitor in experiment.pending
        if visitor.index != first.index
    ]
    (options,) = [
        options for options in remaining_options if first.options[0] in options
    ]
    assert {**OWN[1], "leaf (g)": 4.5} in options


def test_a_long_word_in_a_name_leaves_the_form_of_a_design_as_wide_as_a_phone(
    visit: Open, tmp_path: Path
) -> None:
    parameters = [
        RangeParameterConfig(name=name, parameter_type="float", bounds=(0, 1))
        for name in ("Extraktionstemperatur", "Niederschlagsmenge")
    ]
    experiment = PreferenceExperiment.create(
        "words", parameters=parameters, storage=tmp_path / "words.db"
    )
    visitor = visit(experiment)
    visitor.menu("My own design")
    (form,) = until(lambda: visitor.all("dialog"))
    wide = "return arguments[0].scrollWidth - arguments[0].clientWidth"
    assert visitor.driver.execute_script(wide, form) == 0


def test_answers_under_another_name_stay_within_reach(visit: Open, place: Path) -> None:
    visitor = visit()
    visitor.enter_name("Ann")
    assert "stays under My answers" not in visitor.text()
    first = visitor.answer("A is better")
    visitor.enter_name("Bob")
    assert "What you answered as Ann stays under My answers." in visitor.text()
    assert visitor.fits()
    visitor.menu("My answers")
    until(lambda: "No answer so far." in visitor.text())
    visitor.click("as Ann")
    until(lambda: f"{first + 1}. A is better" in visitor.text())
    visitor.is_usable()
    visitor.click("Close")
    # Back under the first name, over a reload, the answer can be undone.
    visitor.reload()
    visitor.menu("My name")
    visitor.click("Ann", within="dialog")
    until(lambda: "You answer as Ann now." in visitor.text())
    visitor.settled()
    visitor.leave(lambda: visitor.click("Undo"))
    assert visitor.index() == first
    assert kept(place) == [("told", first, {"winner": 0}), ("undone", first, {})]


WRONG_MEDIA = {
    "cup.png": b"a text",
    "cup.svg": b"<svg xmlns='http://www.w3.org/2000/svg'><rect",
    "cup.wav": b"a text",
    "cup.mp4": b"a text",
    "gone.svg": None,
}


@contextmanager
def before_it_settles(
    driver: WebDriver, experiment: PreferenceExperiment, show: Callable[..., Any]
) -> Iterator[Visitor]:
    """Opens a page of duels that is still loading."""
    visitor = Visitor(driver, *DESK)
    with serving(make_app(experiment, show=show, size=2)) as address:
        driver.get(address)
        yield visitor


def test_nobody_answers_about_a_medium_that_cannot_be_shown(
    driver: WebDriver, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty card could be preferred."""
    experiment, options = create(place), []
    for name, data in WRONG_MEDIA.items():
        (tmp_path / name).write_bytes(
            data or b"<svg xmlns='http://www.w3.org/2000/svg'/>"
        )

    def show(option: dict[str, Any]) -> Any:
        # For one option after the other, of one question after the other.
        question, second = divmod(len(options), 2)
        options.append(option)
        wrong = second and question < len(WRONG_MEDIA)
        return tmp_path / [*WRONG_MEDIA][question] if wrong else "a cup"

    def unless_gone(service: PreferenceService, *args: int, **arguments: int) -> Any:
        # There when the question was made, and not when it is looked at.
        medium = media(service, *args, **arguments)
        if medium.data.name == "gone.svg":
            medium.data.unlink(missing_ok=True)
        return medium

    media, kinds = PreferenceService.media, {".wav": "sound", ".mp4": "film"}
    monkeypatch.setattr(PreferenceService, "media", unless_gone)
    with before_it_settles(driver, experiment, show) as visitor:
        for index, name in enumerate(WRONG_MEDIA):
            kind = kinds.get(Path(name).suffix, "picture")
            words = f"The {kind} of option B cannot be shown"
            until(lambda words=words: words in visitor.text())
            assert visitor.all("button.bp-choose, .bp-says, .bp-more") == []
            for act in ("Try again", "Skip this question"):
                (panel,) = visitor.all(".bp-empty")
                visitor.click(act)
                until(lambda panel=panel: is_gone(panel))
                asked = experiment.log.questions[index]
                assert asked.withdrawn == (act != "Try again")
                if not asked.withdrawn:
                    until(lambda words=words: words in visitor.text())
        visitor.answer("A is better")
    assert [kind for kind, *_ in kept(place)] == ["withdrawn"] * len(WRONG_MEDIA) + [
        "told"
    ]


def test_a_picture_of_another_host_is_neither_fetched_nor_answered_about(
    driver: WebDriver, place: Path
) -> None:
    markup = Markup('<img src="https://example.org/picture.png">')
    with before_it_settles(driver, create(place), lambda option: markup) as visitor:
        until(lambda: "The picture of option A cannot be shown" in visitor.text())
        assert visitor.all("button.bp-choose, .bp-says, .bp-more") == []
        assert any(
            "https://example.org" in line and "Content Security" in line
            for line in visitor.complaints()
        )
    assert kept(place) == []


def is_gone(element: WebElement) -> bool:
    try:
        return not element.is_displayed()
    except StaleElementReferenceException:
        return True


def test_nothing_is_answered_before_its_pictures_are_there(
    driver: WebDriver, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment, free, media = create(place), Event(), PreferenceService.media

    def slow(service: PreferenceService, *args: int, **arguments: int) -> Any:
        free.wait(60)
        return media(service, *args, **arguments)

    monkeypatch.setattr(PreferenceService, "media", slow)
    picture = b"<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'/>"
    with before_it_settles(driver, experiment, lambda option: picture) as visitor:
        until(lambda: len(visitor.all("button.bp-choose")) == 2)
        visitor.driver.find_element(By.TAG_NAME, "body").send_keys("1")
        visitor.driver.execute_script("document.querySelector('.bp-letter').click()")
        buttons = "[...document.querySelectorAll('button.bp-choose, .bp-says')]"
        inert = f"return {buttons}.every((button) => button.inert)"
        assert visitor.driver.execute_script(inert)
        free.set()
        visitor.settled()
        assert not visitor.driver.execute_script(inert)
        assert kept(place) == []
        visitor.answer("A is better")
    assert [kind for kind, *_ in kept(place)] == ["told"]


def test_a_page_says_what_it_asks_and_introduces_itself_once(visit: Open) -> None:
    texts = {"title": "Tea", "question": "Which is tastier?"}
    visitor = visit(size=4, introduction="Sip.\nThen rinse.", **texts)
    introduction, prompt = visitor.all(".bp-introduction, .bp-prompt")
    until(introduction.is_displayed)
    assert introduction.text == "Sip.\nThen rinse."
    assert prompt.text == "Which is tastier?"
    assert visitor.all(".bp-title")[0].text == visitor.driver.title == "Tea"
    visitor.driver.find_element(By.TAG_NAME, "body").send_keys("r")
    assert "Tap them in order, the best first." in visitor.text()
    visitor.driver.find_element(By.TAG_NAME, "body").send_keys(Keys.ESCAPE)
    visitor.answer("A is the best")
    assert "Sip." not in visitor.text()
    assert "Which is tastier?" in visitor.text()


def test_a_page_in_german_says_nothing_in_english(visit: Open, place: Path) -> None:
    visitor = visit(create(place, initial=1_000), size=None, language="de")
    element = visitor.driver.find_element(By.TAG_NAME, "html")
    assert element.get_attribute("lang") == "de"
    assert element.get_attribute("dir") == "ltr"
    assert "Was ist am besten?" in visitor.text()
    best = visitor.answer("D am besten")
    until(lambda: "Gespeichert: D am besten." in visitor.text())
    until(lambda: "Frage 2 · 1 Antwort · Ihr Geschmack" in visitor.text())
    visitor.click("Mehr sagen")
    visitor.is_usable()
    visitor.answer("Kein Unterschied")
    until(lambda: "Frage 3 · 2 Antworten" in visitor.text())
    visitor.click("Alle ordnen")
    page_text = visitor.text()
    visitor.click("Ordnen abbrechen")
    for item in ("Meine Antworten", "Mein Name", "Tasten", "Mein eigener Entwurf"):
        visitor.click("Menü")
        page_text += visitor.text()
        visitor.click(item)
        until(lambda: visitor.all("dialog"))
        page_text += visitor.text()
        visitor.all("dialog [aria-label=Schließen]")[0].click()
    english = "the|and|best|answers?|question|better|undo|skip|save|name is|own"
    assert re.findall(rf"\b(?:{english})\b", page_text, re.IGNORECASE) == []
    assert kept(place)[0] == ("told", best, {"best": 3})
    visitor.answer("Überspringen")
    visitor.answer("Rückgängig")


def test_figures_of_pages_as_files_end_within_a_phone(
    driver: WebDriver, place: Path
) -> None:
    """The best is at the right end of a figure, where nobody scrolls to."""
    answers, board = place.with_suffix(".csv"), place.parent / "board"
    answers.write_text("winner,loser\na,b\nb,c\n", encoding="utf-8")
    assert main(["rank", str(answers), "--out", str(board)]) == 0
    experiment = create(place)
    for _ in range(3):
        experiment.tell(experiment.ask(2), winner=0)
    file = place.with_suffix(".html")
    file.write_text(experiment.report().to_html(), encoding="utf-8")
    visitor = Visitor(driver, 360, 640)
    for page in (file, board / "leaderboard.html"):
        driver.get(page.as_uri())
        assert visitor.fits()
        parts = visitor.all("svg circle, svg line, svg text, img")
        assert parts
        for part in parts:
            left, width = part.rect["x"], part.rect["width"]
            assert 0 <= left <= left + width <= 360, part.get_attribute("outerHTML")
