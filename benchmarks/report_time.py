"""Time of a report, a recommendation and questions, averaged over explanations.

    python benchmarks/report_time.py
    python benchmarks/report_time.py --repeats 5

Prints processor seconds, the least and the median of repeats, after thirty rankings of
four in a box, and in a mixed space with a linear constraint, and after 20 to 60 in
twenty parameters of which three matter. Questions before are points of a Sobol
sequence, and nothing is kept between repeats.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from pathlib import Path
from shutil import copyfile
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from report import print_table, seconds, start

warnings.simplefilter("ignore")  # Ax of its own old names.

from ax.api.configs import RangeParameterConfig  # noqa: E402
from ax_ask_time import CONSTRAINTS, PARAMETERS, utility  # noqa: E402

from botorch_pref.ax import PreferenceExperiment  # noqa: E402

REPEATS = 3
TASKS = "report", "recommend", "ranking of four", "line question"


def box(names: str) -> list[RangeParameterConfig]:
    """Parameters from 0 to 1.

    Args:
        names: A letter each.
    """
    return [
        RangeParameterConfig(name=name, parameter_type="float", bounds=(0, 1))
        for name in names
    ]


SPACES: dict[str, dict[str, Any]] = {
    "4 parameters": {"parameters": box("abcd")},
    "mixed, constraint": {
        "parameters": PARAMETERS,
        "parameter_constraints": [*CONSTRAINTS.values()][-1],
    },
    "20 parameters": {"parameters": box("abcdefghijklmnopqrst")},
}
ANSWERED = {
    "4 parameters": (30,),
    "mixed, constraint": (30,),
    "20 parameters": (20, 40, 60),
}
"""How many rankings of four come before, by the name of the space."""


def in_box(option: Any) -> float:
    """Utility of an option of a box, in which three parameters do something.

    Args:
        option: By name.
    """
    return -((option["a"] - 0.4) ** 2) - 0.5 * (option["b"] - 0.6) ** 2 - option["c"]


def answered(storage: Path, space: str, number: int) -> PreferenceExperiment:
    """An experiment with rankings of four.

    Args:
        storage: Its file.
        space: Its name in `SPACES`.
        number: Of the rankings.
    """
    experiment = PreferenceExperiment.create(
        "timed", storage=storage, initial=number, repeat_rate=0.0, **SPACES[space]
    )
    value = utility if space == "mixed, constraint" else in_box
    for _ in range(number):
        question = experiment.ask(4)
        values = [value(option) for option in question.options]
        order = sorted(range(4), key=values.__getitem__, reverse=True)
        experiment.tell(question, ranking=order)
    return experiment


def tasks(storage: Path) -> dict[str, Callable[[], object]]:
    """What is timed, of an experiment that is opened anew each time.

    Args:
        storage: Its file.
    """

    def opened() -> PreferenceExperiment:
        # A copy, for a question that is asked would wait for its answer.
        fresh = storage.with_suffix(".copy")
        copyfile(storage, fresh)
        return PreferenceExperiment.resume("timed", storage=fresh)

    return {
        "report": lambda: opened().report(),
        "recommend": lambda: opened().recommend(),
        "ranking of four": lambda: opened().ask(4),
        "line question": lambda: opened().ask(line=True),
    }


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=REPEATS)
    repeats = parser.parse_args().repeats
    start(f"after rankings of four, seconds of {repeats} repeats")
    rows = []
    with TemporaryDirectory() as folder:
        settings = [
            (s, number) for s, numbers in ANSWERED.items() for number in numbers
        ]
        for place, (space, number) in enumerate(settings):
            storage = Path(folder) / f"{place}.db"
            answered(storage, space, number)
            acts = tasks(storage)
            for name in TASKS:
                act = acts[name]
                act()  # What is imported and compiled at first does not count.
                times = [seconds(act) for _ in range(repeats)]
                rows.append([space, number, name, min(times), median(times)])
    print_table(["space", "rankings", "what", "least", "median"], rows)


if __name__ == "__main__":
    main()
