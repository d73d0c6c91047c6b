"""Times of keeping and reading many answers, without the model.

    python benchmarks/store_growth.py [--answers 10000]

Prints seconds of the clock and of the processor, on a mixed space with a constraint: of
a table of answers that is recorded, of resuming the experiment, of a single answer
after that, of asking for a question that nothing chooses (a point of a Sobol sequence),
and of Ax's experiment, which is made from the log once it is asked for.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from report import print_table, start

warnings.simplefilter("ignore")  # Ax of its own old names.

from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig  # noqa: E402
from pandas import DataFrame  # noqa: E402

from botorch_pref.ax import PreferenceExperiment  # noqa: E402

NUM_ANSWERS = 10_000
TO_REACH = {"record_table": 10.0, "resume": 5.0, "tell": 0.02}
REPEATS = 20
"""How many single answers are averaged."""
PARAMETERS = [
    RangeParameterConfig(name="dose", parameter_type="float", bounds=(14, 22)),
    RangeParameterConfig(
        name="grind", parameter_type="float", bounds=(0.1, 10), scaling="log"
    ),
    RangeParameterConfig(name="ratio", parameter_type="int", bounds=(1, 4)),
    ChoiceParameterConfig(
        name="bean", parameter_type="str", values=["a", "b", "c"], is_ordered=False
    ),
]
CONSTRAINTS = ["dose + ratio <= 25"]


def design(draws: Random) -> dict[str, Any]:
    """A random design.

    Args:
        draws: Generator.
    """
    return {
        "dose": draws.uniform(14, 21),
        "grind": draws.uniform(0.1, 10),
        "ratio": draws.randint(1, 4),
        "bean": draws.choice("abc"),
    }


def duels(num_answers: int, draws: Random) -> DataFrame:
    """A table of answered duels, as `record_table` takes it.

    Args:
        num_answers: How many.
        draws: Generator.
    """
    sides = ("winner", "loser")
    return DataFrame(
        [
            {f"{side}_{k}": v for side in sides for k, v in design(draws).items()}
            for _ in range(num_answers)
        ]
    )


def timed(act: Callable[[], object], repeats: int = 1) -> tuple[float, float]:
    """Seconds of the clock and of the processor, an act.

    Args:
        act: What is timed.
        repeats: How often, to be averaged.
    """
    clock, processor = time.perf_counter(), time.process_time()
    for _ in range(repeats):
        act()
    return (
        (time.perf_counter() - clock) / repeats,
        (time.process_time() - processor) / repeats,
    )


def measured(num_answers: int, path: Path) -> dict[str, tuple[float, float]]:
    """Seconds of everything that is timed, by its name.

    Args:
        num_answers: How many answers are kept first.
        path: Of the store.
    """
    draws = Random(0)
    experiment = PreferenceExperiment.create(
        "growth",
        parameters=PARAMETERS,
        parameter_constraints=CONSTRAINTS,
        storage=path,
        initial=10**6,
    )
    # What is imported and compiled at first does not count.
    experiment.tell(experiment.ask(2), winner=0)
    table = duels(num_answers, draws)
    found = {"record_table": timed(lambda: experiment.record_table(table))}
    resumed: list[PreferenceExperiment] = []

    def resume() -> None:
        resumed.append(PreferenceExperiment.resume("growth", storage=path))

    found["resume"] = timed(resume)
    (experiment,) = resumed
    pairs = [[design(draws), design(draws)] for _ in range(2 * REPEATS)]
    asked = [experiment.ask(options=pair) for pair in pairs[:REPEATS]]
    told = iter(asked)
    found["tell"] = timed(lambda: experiment.tell(next(told), winner=0), REPEATS)
    found["Ax's experiment, at first"] = timed(lambda: experiment.experiment)
    more = iter([experiment.ask(options=pair) for pair in pairs[REPEATS:]])
    found["tell, once Ax's is made"] = timed(
        lambda: experiment.tell(next(more), winner=0), REPEATS
    )
    found["Ax's experiment, after that"] = timed(lambda: experiment.experiment)
    found["ask, without a model"] = timed(lambda: experiment.ask(2))
    return found


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--answers", type=int, default=NUM_ANSWERS)
    num_answers = parser.parse_args().answers
    start(f"keeping and reading {num_answers} answers, seconds")
    with TemporaryDirectory() as folder:
        path = Path(folder) / "growth.db"
        found = measured(num_answers, path)
        size = path.stat().st_size / 2**20
    rows = [
        [what, clock, processor, TO_REACH.get(what, "")]
        for what, (clock, processor) in found.items()
    ]
    print_table(["what", "clock", "processor", "to reach"], rows)
    print(f"\n{size:.1f} MiB")


if __name__ == "__main__":
    main()
