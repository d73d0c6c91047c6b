"""People before a gallery: a square on every screen, and the best option of it."""

import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest
from browsing import Visitor, browser, missing, serving, until
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webdriver import WebDriver
from tea import OWN, create, log, stored

from botorch_pref.errors import ExperimentError
from botorch_pref.web import make_app
from botorch_pref.web.service import PreferenceService
from botorch_pref.web.worker import packed_choice, packed_state

needs_browser = pytest.mark.skipif(missing() is not None, reason=f"{missing()}")


def test_a_page_of_galleries_asks_about_nine_in_a_plane(tmp_path: Path) -> None:
    experiment = create(tmp_path / "tea.db")
    # Galleries that no model chooses.
    for place in (4, 0, 8):
        experiment.tell(experiment.ask(plane=True), best=place)
    elsewhere = packed_choice(packed_state(experiment), "plane", 9, None, {})
    service = PreferenceService(
        experiment, lambda *_: "", plane=True, separate_process=False
    )
    question = service.question({})
    assert len(question["options"]) == 9
    # Three answers are enough for a model to choose galleries.
    assert service.progress({})["initial"] == 3
    assert {"best", "tie", "ranking"} <= {*question["kinds"]}
    # Another process chooses the same.
    (chosen,) = pickle.loads(elsewhere)
    assert [*chosen.options] == question["options"]
    moved = [
        name
        for name in question["options"][0]
        if len({option[name] for option in question["options"]}) == 3
    ]
    assert len(moved) == 2
    for content in question["shown"]:
        differ = {
            row["name"] for table in content for row in table["rows"] if row["differs"]
        }
        assert len(differ) == 2
    service.answer({"question": question["question"], "best": 3})
    assert service.history({})["answers"][0]["said"] == {"best": 3}
    service.close()


def test_whoever_wants_galleries_wants_no_lines_and_a_square(tmp_path: Path) -> None:
    experiment = create(tmp_path / "tea.db")
    for options, message in (
        ({"kinds": ["position"]}, "kinds has position, which is of lines"),
        ({"size": 4}, "size is 4; a plane has 9 designs"),
        ({"plane": "yes"}, "plane is 'yes'"),
    ):
        with pytest.raises(ExperimentError, match=message):
            make_app(experiment, **{"plane": True, **options})


@pytest.fixture(scope="module")
def driver() -> Iterator[WebDriver]:
    with browser() as driver:
        yield driver


@pytest.mark.slow
@needs_browser
def test_arrows_walk_through_a_square_that_fits_a_phone_and_a_desk(
    driver: WebDriver, tmp_path: Path
) -> None:
    experiment = create(tmp_path / "tea.db")
    experiment.ask(
        options=[
            {**OWN[0], "leaf (g)": leaf, "cups": cups}
            for leaf in (2.0, 4.0, 6.0)
            for cups in (1, 2, 3)
        ]
    )
    app = make_app(experiment, plane=True)
    visitor = Visitor(driver, 390)
    with serving(app) as address:
        visitor.visit(address)
        for width in (390, 1280):
            visitor.resize(width, 844)
            visitor.is_usable()
            corners = [(card["y"], card["x"]) for card in visitor.boxes(".bp-card")]
            assert corners == sorted(corners)
            assert [len({*place}) for place in zip(*corners, strict=True)] == [3, 3]
            # What all have in common is said once.
            rows = [r for r in visitor.all(".bp-table tr") if r.is_displayed()]
            assert len(rows) == 9 * 2
            assert "In all of them: " in visitor.text()
        keys = (Keys.ARROW_LEFT, Keys.ARROW_RIGHT, Keys.ARROW_UP, Keys.ARROW_UP)
        # From the middle on; there is nothing above the first row.
        for key, option in zip(keys, "EFCC", strict=True):
            driver.switch_to.active_element.send_keys(key)
            assert driver.switch_to.active_element.accessible_name.startswith(
                f"{option} is the best"
            )
        described = driver.switch_to.active_element.get_attribute("aria-describedby")
        assert driver.find_element(By.ID, described).text
        visitor.leave(lambda: driver.switch_to.active_element.send_keys(Keys.ENTER))
        until(lambda: "Saved: C is the best" in visitor.text())
        visitor.answer("Undo")
        visitor.press("9")
        assert visitor.complaints() == []
    answers = [
        (kind, answer.get("best"))
        for kind, _, answer in log(stored(tmp_path / "tea.db"))
    ]
    assert answers == [("told", 2), ("undone", None), ("told", 8)]
