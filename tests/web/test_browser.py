"""People before a real browser: the experiment holds what was clicked."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browsing import Visitor, browser, missing, serving, until
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webdriver import WebDriver
from tea import create, log, stored

from botorch_pref.ax import PreferenceExperiment
from botorch_pref.ax.projection import events
from botorch_pref.web import Markup, make_app

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(missing() is not None, reason=f"{missing()}"),
]
PHONE, DESK = 390, 1280
TOKEN = "right"
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def driver() -> Iterator[WebDriver]:
    with browser() as driver:
        yield driver


def kept(experiment: PreferenceExperiment) -> list[tuple[str, int, dict[str, Any]]]:
    """What happened, of nobody in particular."""
    return [
        (kind, index, {k: v for k, v in said.items() if k != "rater"})
        for kind, index, said in log(experiment)
    ]


def test_a_phone_answers_twelve_questions_by_clicks(
    driver: WebDriver, tmp_path: Path
) -> None:
    place = tmp_path / "tea.db"
    experiment = create(place)
    clicked: list[tuple[str, int, dict[str, Any]]] = []

    def told(index: int, **said: Any) -> None:
        clicked.append(("told", index, said))

    with serving(make_app(experiment, token=TOKEN)) as address:
        one = Visitor(driver, PHONE)
        one.visit(f"{address}/?token={TOKEN}")
        assert one.fits()
        assert one.small_targets() == []
        assert one.nameless() == []
        told(one.answer("A is better"), winner=0)
        told(one.answer("B is better"), winner=1)
        told(one.answer("No difference"), tie=True)
        told(one.answer("Cannot compare"), cannot_compare=True)
        # A reload in the middle changes nothing.
        before = one.index()
        one.reload()
        assert one.index() == before
        told(one.answer("B is better"), winner=1)
        # A tap anywhere on a card is a tap on its button.
        cards = one.driver.find_elements(By.CSS_SELECTOR, ".bp-letter")
        told(one.leave(cards[0].click), winner=0)
        # Undone, and answered anew.
        last = clicked[-1][1]
        one.leave(lambda: one.click("Undo"))
        assert one.index() == last
        clicked.append(("undone", last, {}))
        told(one.answer("B is better"), winner=1)
        clicked.append(("withdrawn", one.answer("Skip"), {}))
        # All that is beside a choice.
        one.click("Say more")
        assert one.fits()
        assert one.small_targets() == []
        assert one.nameless() == []
        one.click("A failed")
        told(one.answer("Save this without a choice"), invalid=[0])
        one.click("Say more")
        scale = one.driver.find_elements(By.CSS_SELECTOR, ".bp-more [role=radio]")
        scale[4].click()
        scale[5].click()
        told(one.answer("A is better"), winner=0, levels=[4, 0])
        one.click("Say more")
        slider = one.driver.find_element(By.CSS_SELECTOR, "[aria-label^='How much']")
        slider.send_keys(Keys.HOME)
        told(one.answer("Save"), strength=0.99)
        own = own_design(one)
        told(one.answer("A is better" if own == 0 else "B is better"), winner=own)
        one.menu("My answers")
        until(lambda: "A is much better" in one.text())
        assert one.fits()
        one.click("Close")
        told(one.answer("B is better"), winner=1)
        assert one.complaints() == []
    assert kept(stored(place)) == clicked
    assert sum(kind == "told" for kind, *_ in clicked) == 12
    told_events = [e for e in events(experiment.experiment) if e.kind == "told"]
    assert all(event.what["seconds"] > 0 for event in told_events)
    # The parameters that were typed in are those of the option that won.
    index = clicked[-2][1]
    asked = stored(place).experiment.trials[index].arms
    assert [arm.parameters["cups"] for arm in asked].count(4) >= 1


def own_design(one: Visitor) -> int:
    """Edits the first option: four cups. Its place among what is shown then."""

    def edit() -> None:
        one.menu("My own design")
        field = (By.CSS_SELECTOR, "dialog input[name=cups]")
        (cups,) = until(lambda: one.driver.find_elements(*field))
        cups.clear()
        cups.send_keys("4")
        leaf = one.driver.find_element(By.CSS_SELECTOR, "dialog input[name='leaf (g)']")
        leaf.clear()
        leaf.send_keys("8.75")
        assert one.fits()
        assert one.small_targets() == []
        assert one.nameless() == []
        one.click("Compare")

    one.leave(edit)
    values = one.driver.find_elements(By.CSS_SELECTOR, "tr:first-child .bp-value")
    return [value.text for value in values].index("8.75")


def test_a_desk_answers_twelve_questions_by_keys(
    driver: WebDriver, tmp_path: Path
) -> None:
    place = tmp_path / "tea.db"
    keys: list[tuple[str, dict[str, Any]]] = [
        (Keys.ARROW_LEFT, {"winner": 0}),
        (Keys.ARROW_RIGHT, {"winner": 1}),
        ("1", {"winner": 0}),
        ("2", {"winner": 1}),
        ("=", {"tie": True}),
        ("c", {"cannot_compare": True}),
    ] * 2
    pressed: list[tuple[str, int, dict[str, Any]]] = []
    with serving(make_app(create(place))) as address:
        one = Visitor(driver, DESK)
        one.visit(address)
        for key, said in keys:
            pressed.append(("told", one.press(key), said))
            focused = one.driver.switch_to.active_element
            assert focused.text == "Which do you prefer?"
        one.press("u")
        pressed.append(("undone", pressed[-1][1], {}))
        # From the question the focus goes to the first choice, then to the second.
        choices = one.driver.find_elements(By.CSS_SELECTOR, ".bp-choose")
        for choice in choices:
            driver.switch_to.active_element.send_keys(Keys.TAB)
            assert driver.switch_to.active_element == choice
        assert one.fits()
        assert one.nameless() == []
        chosen = one.leave(lambda: choices[1].send_keys(Keys.ENTER))
        pressed.append(("told", chosen, {"winner": 1}))
        assert one.complaints() == []
    assert kept(stored(place)) == pressed


ASLEEP = """
    const asleep = (event) => event.stopImmediatePropagation();
    document.addEventListener("visibilitychange", asleep, { capture: true });
"""
"""A tab that does not notice that it is looked at again."""


def test_two_raters_and_two_tabs_lose_and_double_nothing(
    driver: WebDriver, tmp_path: Path
) -> None:
    place = tmp_path / "tea.db"
    with serving(make_app(create(place))) as address:
        one = Visitor(driver, PHONE)
        first = driver.current_window_handle
        one.visit(f"{address}/?rater=ann")
        ann = one.index()
        driver.execute_script(ASLEEP)
        driver.switch_to.new_window("tab")
        one = Visitor(driver, PHONE)
        one.visit(address)
        nameless = one.index()
        one.menu("My name")
        name = driver.switch_to.active_element
        name.send_keys("bob", Keys.ENTER)
        until(lambda: "bob" in one.text())
        bob = one.index()
        # What was on display without a name is so with it.
        assert bob == nameless != ann
        assert one.answer("B is better") == bob
        # Her question, in a second tab of hers: the first answer counts.
        one.visit(f"{address}/?rater=ann")
        assert one.index() == ann
        assert one.answer("A is better") == ann
        following = one.index()
        driver.close()
        driver.switch_to.window(first)
        one = Visitor(driver, PHONE)
        assert one.answer("B is better") == ann
        assert one.index() == following
        assert "had an answer already" in one.text()
    assert log(stored(place)) == [
        ("told", bob, {"winner": 1, "rater": "bob"}),
        ("told", ann, {"winner": 0, "rater": "ann"}),
    ]


def test_a_question_that_cannot_be_shown_is_skipped(
    driver: WebDriver, tmp_path: Path
) -> None:
    experiment = create(tmp_path / "tea.db")
    first = experiment.ask()

    def show(option: dict[str, Any]) -> str:
        return "a cup" if option not in first.options else option["colour"]

    with serving(make_app(experiment, show=show)) as address:
        driver.get(address)
        one = Visitor(driver, PHONE)
        until(lambda: "KeyError: 'colour'" in one.text())
        assert one.small_targets() == []
        one.click("Skip this question")
        assert one.index() != first.index
        # A name that cannot be, in an address that somebody has made.
        driver.get(f"{address}/?rater={'x' * 10_000}")
        until(lambda: "at most 100 characters" in one.text())
        one.click("Enter my name")
        name = driver.switch_to.active_element
        name.clear()
        name.send_keys("ann", Keys.ENTER)
        assert one.index() != first.index
    assert kept(experiment) == [("withdrawn", first.index, {})]


def test_an_answer_outlives_the_server_that_was_to_store_it(
    driver: WebDriver, tmp_path: Path
) -> None:
    place = tmp_path / "tea.db"
    create(place)
    clicked = []
    server, address = started(place, "0")
    port = re.search(r":(\d+)/", address)[1]  # type: ignore[index]
    try:
        one = Visitor(driver, PHONE)
        one.visit(address)
        for winner, text in enumerate(("A is better", "B is better")):
            clicked.append(("told", one.answer(text), {"winner": winner}))
        index = one.index()
        stop(server)
        one.click("B is better")
        until(lambda: "No connection" in one.text())
        # As a phone does that puts the page away: nobody clicks again.
        server, again = started(place, port)
        assert again == address
        one.visit(address)
        until(lambda: one.index() != index)
        clicked.append(("told", index, {"winner": 1}))
        clicked.append(("told", one.answer("A is better"), {"winner": 0}))
    finally:
        stop(server)
    assert kept(stored(place)) == clicked


def started(place: Path, port: str) -> tuple[subprocess.Popen[str], str]:
    """The command that serves, and the address that it prints."""
    command = [sys.executable, "-m", "botorch_pref", "serve", str(place)]
    server = subprocess.Popen(
        [*command, "--name", "tea", "--port", port],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert server.stdout is not None
    for line in server.stdout:
        if line.startswith("questions: "):
            return server, line.split()[1]
    raise AssertionError("the command has not said where it serves")


def stop(server: subprocess.Popen[str]) -> None:
    server.send_signal(signal.SIGKILL)
    server.communicate()


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
    driver: WebDriver, tmp_path: Path
) -> None:
    place = tmp_path / "tea.db"
    with serving(make_app(create(place))) as address:
        one = Visitor(driver, PHONE)
        one.visit(address)
        first, last = one.answer("A is better"), one.answer("B is better")
        driver.execute_script(LOST)
        one.click("Undo")
        until(lambda: "No connection" in one.text())
        one.leave(lambda: one.click("Undo"))
        assert one.index() == last
        again = one.answer("A is better")
    told = [("told", first, {"winner": 0}), ("told", last, {"winner": 1})]
    redone = [("undone", last, {}), ("told", again, {"winner": 0})]
    assert kept(stored(place)) == told + redone


TEXT = "<img src=x onerror=\"document.title='run'\"> & <b>leaf</b>"
MARKED = Markup(
    "<em onclick=\"document.title='run'\">marked</em>"
    '<script>document.title="run"</script>'
    '<img src="https://example.org/picture.png">'
)


def test_what_is_shown_is_text_and_what_is_marked_runs_nothing(
    driver: WebDriver, tmp_path: Path
) -> None:
    app = make_app(create(tmp_path / "tea.db"), show=lambda option: [TEXT, MARKED])
    with serving(app) as address:
        one = Visitor(driver, DESK)
        # Of servers that are gone.
        one.complaints()
        one.visit(address)
        texts = one.driver.find_elements(By.CSS_SELECTOR, ".bp-text")
        assert [text.text for text in texts] == [TEXT, TEXT]
        marked = one.driver.find_elements(By.CSS_SELECTOR, ".bp-markup em")
        assert [element.text for element in marked] == ["marked", "marked"]
        driver.execute_script(
            "arguments[0].dispatchEvent(new Event('click'))", marked[0]
        )
        assert one.driver.title == "tea"
        refused = one.complaints()
        assert any("https://example.org" in line for line in refused)
        assert [line for line in refused if "Content Security" not in line] == []


def test_a_ranking_is_tapped_in_order(driver: WebDriver, tmp_path: Path) -> None:
    place = tmp_path / "tea.db"
    app = make_app(create(place), size=3, kinds=["best", "ranking"])
    with serving(app) as address:
        one = Visitor(driver, PHONE)
        one.visit(address)
        assert one.fits()
        assert one.small_targets() == []
        one.click("Rank them all")
        one.click("C is next")
        ranked = one.answer("A is next")
        best = one.answer("B is the best")
    assert kept(stored(place)) == [
        ("told", ranked, {"ranking": [2, 0, 1]}),
        ("told", best, {"best": 1}),
    ]


WIDGET = """
    const done = arguments[0];
    const heard = [];
    const model = {
        on: (name, hear) => heard.push(hear),
        send: async ({ id, call, given }) => {
            const known = Object.entries(given).filter(([, value]) => value !== null);
            const reply = await (call === "answer"
                ? fetch("api/answer", {
                    method: "POST",
                    headers: { "Content-Type": "application/json" },
                    body: JSON.stringify(Object.fromEntries(known)),
                })
                : fetch(`api/${call}?${new URLSearchParams(known)}`));
            const found = await reply.json();
            const said = reply.ok ? { id, found } : { id, error: found.error };
            heard.forEach((hear) => hear(said));
        },
    };
    const el = document.createElement("div");
    document.getElementById("botorch-pref-page").replaceChildren(el);
    import(new URL("static/question.js", location.href).href)
        .then((module) => { module.default.render({ model, el }); done(true); });
"""


def test_the_widget_is_the_same_component(driver: WebDriver, tmp_path: Path) -> None:
    """Messages of a notebook's model are handed to the page's calls here."""
    place = tmp_path / "tea.db"
    with serving(make_app(create(place))) as address:
        one = Visitor(driver, DESK)
        one.visit(address)
        assert driver.execute_async_script(WIDGET)
        answered = one.answer("B is better")
        until(lambda: "Saved: B is better" in one.text())
    assert kept(stored(place)) == [("told", answered, {"winner": 1})]
