"""Takes the two pictures of the page, in Chromium.

`python docs/images/take_pictures.py`, with what the tests need, writes them beside it:
an espresso on a phone, after five answers; and flowers at a desk in dark mode, drawn by
the function `show` of the tutorial, after seven.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from PIL import Image

from botorch_pref.ax import PreferenceExperiment
from botorch_pref.web import make_app

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tests" / "web"))

from browsing import Visitor, browser, serving, until  # noqa: E402

ESPRESSO = [
    RangeParameterConfig(name="dose (g)", parameter_type="float", bounds=(14, 22)),
    RangeParameterConfig(
        name="grind", parameter_type="float", bounds=(0.2, 4), scaling="log"
    ),
    RangeParameterConfig(name="shots", parameter_type="int", bounds=(1, 3)),
    ChoiceParameterConfig(
        name="bean",
        parameter_type="str",
        values=["Huila", "Sidamo", "Yirgacheffe", "Mandheling"],
        is_ordered=False,
    ),
]
FLOWERS = [
    RangeParameterConfig(name="size", parameter_type="float", bounds=(0.2, 1)),
    RangeParameterConfig(name="petals", parameter_type="int", bounds=(3, 12)),
    RangeParameterConfig(name="warmth", parameter_type="float", bounds=(0, 1)),
]


def main() -> None:
    """Takes both, beside this file."""
    take("page_on_a_phone", "espresso", ESPRESSO, (390, 760), "light", 5)
    take("page_at_a_desk", "flowers", FLOWERS, (1000, 800), "dark", 7, show=flower())


def flower() -> Callable[[dict[str, Any]], Image.Image]:
    """The function that draws flowers in the tutorial."""
    notebook = json.loads((ROOT / "tutorials/a_person_in_the_loop.ipynb").read_text())
    found: dict[str, Any] = {}
    for cell in notebook["cells"]:
        code = "".join(cell["source"])
        if cell["cell_type"] == "code" and code.startswith("def show("):
            exec("import math\nfrom PIL import Image, ImageDraw\n" + code, found)
    show: Callable[[dict[str, Any]], Image.Image] = found["show"]
    return show


def take(
    name: str,
    experiment: str,
    parameters: list[Any],
    window: tuple[int, int],
    scheme: str,
    answers: int,
    **options: Any,
) -> None:
    """Answers some questions by clicks, and takes a picture of the next one."""
    with tempfile.TemporaryDirectory() as folder, browser() as driver:
        made = PreferenceExperiment.create(
            experiment, parameters=parameters, storage=Path(folder, "t.db"), initial=20
        )
        one = Visitor(driver, *window)
        size = {"width": window[0], "height": window[1], "mobile": window[0] < 600}
        sharp = {**size, "deviceScaleFactor": 1.5}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", sharp)
        colours = {"name": "prefers-color-scheme", "value": scheme}
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [colours]})
        with serving(make_app(made, size=2, **options)) as address:
            one.visit(address)
            for number in range(answers):
                one.answer("A is better" if number % 2 else "B is better")
            # What was saved is said for some seconds.
            until(lambda: not one.all(".bp-message")[0].text)
            driver.save_screenshot(str(HERE / f"{name}.png"))
    with Image.open(HERE / f"{name}.png") as picture:
        picture.convert("RGB").quantize(128).save(HERE / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()
