"""People before a slider: what it shows as it moves, and where it is best."""

from __future__ import annotations

import io
import math
import wave
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from browsing import WIDGET, Visitor, browser, missing, serving, until
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webdriver import WebDriver
from selenium.webdriver.remote.webelement import WebElement
from tea import OWN, create, log, stored

from botorch_pref.ax import PreferenceExperiment
from botorch_pref.errors import ExperimentError
from botorch_pref.web import make_app
from botorch_pref.web.rendering import MOST_POSITIONS
from botorch_pref.web.service import PreferenceService

KINDS = ["position", "tie", "invalid"]
WHAT = {"kind", *KINDS}
needs_browser = pytest.mark.skipif(missing() is not None, reason=f"{missing()}")


# --- What a page is told


@pytest.fixture
def service(tmp_path: Path) -> Iterator[PreferenceService]:
    service = PreferenceService(
        create(tmp_path / "tea.db"),
        lambda index, option, part, media: f"{index}/{option}/{part}",
        show=lambda option: f"{option['leaf (g)']} g of leaf",
        kinds=KINDS,
        separate_process=False,
    )
    yield service
    service.close()


def test_a_line_is_drawn_at_every_position(service: PreferenceService) -> None:
    question = service.question({})
    positions = question["positions"]
    assert question["kinds"] == tuple(KINDS)
    steps = [step / (MOST_POSITIONS - 1) for step in range(MOST_POSITIONS)]
    # Digits that nobody reads are a hundredth of the range.
    assert positions == pytest.approx(steps, abs=1e-2)
    first, last = (option["leaf (g)"] for option in question["options"])
    for place, (content,) in zip(positions, question["shown"], strict=True):
        leaf = float(content["text"].removesuffix(" g of leaf"))
        assert leaf == pytest.approx(first + place * (last - first), abs=5.1e-3)


def test_answers_and_findings_show_where_somebody_stopped(
    service: PreferenceService,
) -> None:
    for place in (0.25, 0.5, 1.0):
        question = service.question({})["question"]
        service.answer({"question": question, "position": place})
    entries = service.history({})["answers"]
    experiment = service.experiment
    for entry, place in zip(reversed(entries), (0.25, 0.5, 1.0), strict=True):
        question = experiment.question(entry["question"])
        tried = experiment.log.questions[question.index].standing.fields["position"]
        assert entry["said"] == {"position": pytest.approx(place, abs=0.2)}
        assert entry["options"] == [question.at(tried)]
        assert entry["shown"][0][0]["text"].startswith(
            f"{question.at(tried)['leaf (g)']}"
        )
        letter = "B" if tried == 1 else "C"
        assert entry["titles"] == [f"{question.index + 1} {letter}"]
    recommended = service.findings({})["recommended"]
    leaf = experiment.recommend()["leaf (g)"]
    assert recommended["shown"][0]["text"] == f"{leaf} g of leaf"


def test_whoever_wants_positions_wants_two_ends(tmp_path: Path) -> None:
    experiment = create(tmp_path / "tea.db")
    for options, message in (
        ({"size": 4}, "a line has two ends"),
        ({"kinds": ["position", "winner"]}, "kinds names 'winner'"),
    ):
        with pytest.raises(ExperimentError, match=message):
            make_app(experiment, **{"kinds": KINDS, **options})
    duels = PreferenceService(
        experiment, lambda *_: "", kinds=["winner"], separate_process=False
    )
    # A line that somebody asked about by hand has its slider on any page.
    experiment.ask(line=True)
    resumed = PreferenceService(
        experiment, lambda *_: "", kinds=["winner"], separate_process=False
    )
    assert resumed.question({})["kinds"] == ("position",)
    for service in (duels, resumed):
        service.close()


# --- Before a browser

Open = Callable[..., Visitor]


@pytest.fixture(scope="module")
def driver() -> Iterator[WebDriver]:
    with browser() as driver:
        yield driver


@pytest.fixture
def visit(driver: WebDriver, tmp_path: Path) -> Iterator[Open]:
    with ExitStack() as stack:

        def visit(width: int = 390, **options: Any) -> Visitor:
            experiment = create(tmp_path / "tea.db")
            for cups in (1, 2, 3):
                ends = [{**OWN[0], "cups": cups, "leaf (g)": leaf} for leaf in (1, 9)]
                experiment.ask(line=True, options=ends)
            app = make_app(experiment, **{"kinds": KINDS, **options})
            visitor = Visitor(driver, width)
            # Of servers that are gone.
            visitor.complaints()
            visitor.address = stack.enter_context(serving(app))
            visitor.visit(visitor.address)
            return visitor

        yield visit


def answers(experiment: PreferenceExperiment) -> list[dict[str, Any]]:
    return [{**answer, "kind": kind} for kind, _, answer in log(experiment)]


def slider(visitor: Visitor) -> WebElement:
    return visitor.all(".bp-dial")[0]


def table(visitor: Visitor) -> dict[str, str]:
    """Reads the rows that can be seen."""
    rows = (row for row in visitor.all(".bp-table tr") if row.is_displayed())
    return {
        row.find_element(By.TAG_NAME, "th").text: row.find_element(
            By.CLASS_NAME, "bp-value"
        ).text
        for row in rows
    }


@pytest.mark.slow
@needs_browser
@pytest.mark.parametrize("width", [390, 1280])
def test_keys_move_the_slider_and_say_where_it_is_best(
    visit: Open, tmp_path: Path, width: int
) -> None:
    visitor = visit(width)
    visitor.is_usable()
    dial, body = slider(visitor), visitor.driver.find_element(By.TAG_NAME, "body")
    # Nobody says that the first design in sight is the best one.
    body.send_keys(Keys.ENTER)
    assert visitor.button("Move the slider first").get_attribute("disabled")
    assert answers(stored(tmp_path / "tea.db")) == []
    leaves = set()
    for key in (Keys.HOME, Keys.END, Keys.ARROW_LEFT, Keys.ARROW_LEFT, Keys.ARROW_UP):
        dial.send_keys(key)
        # What a screen reader says is what is seen.
        leaf = table(visitor)["leaf"]
        assert dial.get_attribute("aria-valuetext") == f"leaf {leaf} g"
        leaves.add(leaf)
    assert leaves == {"1.00", "9.00", "8.80", "8.60"}
    assert visitor.button("It is best here").is_enabled()
    visitor.is_usable()
    # Also where the slider has lost the focus.
    visitor.driver.execute_script("document.activeElement.blur()")
    body.send_keys(Keys.ARROW_LEFT)
    assert table(visitor)["leaf"] == "8.60"
    visitor.press(Keys.ENTER)
    until(lambda: "Saved: best at leaf 8.60 g" in visitor.text())
    visitor.answer("Undo")
    dial = slider(visitor)
    dial.send_keys(Keys.HOME)
    visitor.answer("It is best here")
    visitor.answer("No difference")
    body.send_keys("x")
    until(lambda: "Saved: A and B failed" in visitor.text())
    events = [
        {key: value for key, value in answer.items() if key in WHAT}
        for answer in answers(stored(tmp_path / "tea.db"))
    ]
    assert events == [
        {"kind": "told", "position": 0.95},
        {"kind": "undone"},
        {"kind": "told", "position": 0.0},
        {"kind": "told", "tie": True},
        {"kind": "told", "invalid": [0, 1]},
    ]
    visitor.menu("My answers")
    until(lambda: "best at leaf 1.00 g" in visitor.text())
    assert visitor.complaints() == []


@pytest.mark.slow
@needs_browser
def test_a_finger_draws_the_slider_and_the_picture_follows(
    visit: Open, tmp_path: Path
) -> None:
    def show(option: dict[str, Any]) -> bytes:
        side = option["leaf (g)"] * 10
        return (
            f"<svg xmlns='http://www.w3.org/2000/svg' width='{side}' height='90' "
            f"viewBox='0 0 {side} 90'><rect width='{side}' height='90'/></svg>"
        ).encode()

    visitor = visit(show=show, language="de")
    visitor.is_usable()
    dial = slider(visitor)

    def widths() -> list[int]:
        pictures = (image for image in visitor.all("img") if image.is_displayed())
        return [image.get_property("naturalWidth") for image in pictures]

    assert widths() == [50]
    box = dial.rect
    touch = {"y": box["y"] + box["height"] / 2}
    for kind, share in (("Start", 0.5), ("Move", 0.6), ("Move", 0.9), ("End", None)):
        points = []
        if share is not None:
            points = [{"x": box["x"] + share * box["width"], **touch}]
        visitor.driver.execute_cdp_cmd(
            "Input.dispatchTouchEvent", {"type": f"touch{kind}", "touchPoints": points}
        )
    (width,) = until(lambda: [w for w in widths() if w > 70])
    assert not visitor.driver.execute_script("return scrollY")
    place = int(dial.get_property("value")) / (MOST_POSITIONS - 1)
    assert width == pytest.approx(10 * (1 + 8 * place), abs=1)
    assert dial.get_attribute("aria-valuetext") == f"{math.floor(100 * place + 0.5)} %"
    visitor.answer("Hier ist es am besten")
    assert answers(stored(tmp_path / "tea.db"))[0]["position"] == place
    assert visitor.complaints() == []


@pytest.mark.slow
@needs_browser
def test_a_screen_reader_says_what_moves_and_what_was_kept(visit: Open) -> None:
    visitor = visit()

    def spoken(role: str) -> list[dict[str, Any]]:
        """Lists what Chromium tells assistive technology of parts of a role."""
        tree = visitor.driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})
        nodes = (node for node in tree["nodes"] if not node["ignored"])
        return [node for node in nodes if node["role"]["value"] == role]

    visitor.driver.switch_to.active_element.send_keys(Keys.END)
    # The slider has the focus from the start, and is named by what is asked.
    (dial,) = spoken("slider")
    assert dial["name"]["value"] == "Move the slider to where it is best"
    assert {
        "name": "focused",
        "value": {"type": "booleanOrUndefined", "value": True},
    } in (dial["properties"])
    assert slider(visitor).get_attribute("aria-valuetext") == "leaf 9.00 g"
    buttons = [button["name"]["value"] for button in spoken("button")]
    for name in ("It is best here", "No difference", "Nothing here is any good"):
        assert any(button.startswith(name) for button in buttons), (
            f"no button {name!r} among {buttons}"
        )
    visitor.answer("It is best here")
    live = visitor.all("[aria-live]")
    until(lambda: any("Saved: best at leaf 9.00 g" in part.text for part in live))


@pytest.mark.slow
@needs_browser
def test_the_widget_has_the_same_slider(visit: Open, tmp_path: Path) -> None:
    visitor = visit(1280)
    assert visitor.driver.execute_async_script(WIDGET)
    visitor.settled()
    slider(visitor).send_keys(Keys.END)
    visitor.answer("It is best here")
    assert answers(stored(tmp_path / "tea.db"))[0]["position"] == 1


@pytest.mark.slow
@needs_browser
def test_a_sound_goes_on_where_the_slider_is(visit: Open) -> None:
    visitor = visit(1280, show=lambda option: silence())
    dial = slider(visitor)
    playing = (
        "return [...document.querySelectorAll('audio')]"
        ".flatMap((a, i) => (a.paused ? [] : [i]))"
    )
    start = "document.querySelector('.bp-body:not([hidden]) audio').play()"
    # A browser plays nothing before somebody has touched the page.
    ActionChains(visitor.driver).click(visitor.all(".bp-prompt")[0]).perform()
    visitor.driver.execute_script(start)
    middle = MOST_POSITIONS // 2
    assert visitor.driver.execute_script(playing) == [middle]
    dial.send_keys(Keys.ARROW_RIGHT)
    assert visitor.driver.execute_script(playing) == [middle + 1]


def silence() -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(1)
        sound.setframerate(8_000)
        sound.writeframes(b"\x80" * 80_000)
    return file.getvalue()
