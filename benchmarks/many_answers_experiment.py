"""Times and memory of an experiment of many answers about few designs.

    python benchmarks/many_answers_experiment.py
    python benchmarks/many_answers_experiment.py --answers 2000 --designs 60

Prints seconds of the processor, and the largest memory so far, of a table of duels that
is recorded; of the recommendation, the report and the question that follow; and of
opening the experiment again. A simulated person with Thurstone's noise compares pairs
of 37 designs of four parameters, drawn at random, or of ``--designs`` of them. With
``--raters``, as many people do.
"""

from __future__ import annotations

import argparse
import resource
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from report import print_table, start

warnings.simplefilter("ignore")  # Ax of its own old names.

from ax.api.configs import RangeParameterConfig  # noqa: E402
from pandas import DataFrame  # noqa: E402

from botorch_pref.ax import PreferenceExperiment  # noqa: E402

NUM_ANSWERS, NUM_DESIGNS, NAMES = 26_580, 37, "abcd"
TO_REACH = {"record_table": 5.0, "recommend": 5.0, "report": 10.0, "ask": 2.0}
NOISE = 0.5
"""Standard deviation of what is heard of each option, in ranges of the utility."""


def designs(draws: Random, count: int) -> DataFrame:
    """Designs by name, a row each.

    Args:
        draws: Generator.
        count: How many.
    """
    rows = [[draws.random() for _ in NAMES] for _ in range(count)]
    return DataFrame(rows, columns=[*NAMES], index=[f"d{i}" for i in range(len(rows))])


def duels(
    items: DataFrame, num_answers: int, num_raters: int, draws: Random
) -> DataFrame:
    """A table of answered duels, as `record_table` takes it.

    Args:
        items: The designs.
        num_answers: How many.
        num_raters: Of how many people, by turns; 0 for nobody in particular.
        draws: Generator.
    """
    utility = -(items - 0.4).pow(2).sum(axis=1)
    utility = (utility / (utility.max() - utility.min())).to_dict()
    rows = []
    for i in range(num_answers):
        pair = draws.sample([*items.index], 2)
        heard = {name: utility[name] + draws.gauss(0, NOISE) for name in pair}
        pair.sort(key=heard.__getitem__, reverse=True)
        rows.append([*pair, *([f"r{i % num_raters}"] if num_raters else [])])
    columns = ["winner", "loser", *(["rater"] if num_raters else [])]
    return DataFrame(rows, columns=columns)


def megabytes() -> float:
    """The largest memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--answers", type=int, default=NUM_ANSWERS)
    parser.add_argument("--designs", type=int, default=NUM_DESIGNS)
    parser.add_argument("--raters", type=int, default=0)
    given = parser.parse_args()
    start(f"an experiment with {given.answers} answers about {given.designs} designs")
    draws = Random(0)
    items = designs(draws, given.designs)
    table = duels(items, given.answers, given.raters, draws)
    bounds = [
        RangeParameterConfig(name=name, parameter_type="float", bounds=(0, 1))
        for name in NAMES
    ]
    rows = [["imports", "", "", megabytes()]]

    def timed(name: str, act: Callable[[], object]) -> None:
        begun = time.process_time()
        act()
        spent = time.process_time() - begun
        rows.append([name, spent, TO_REACH.get(name, ""), megabytes()])

    with TemporaryDirectory() as folder:
        storage = Path(folder) / "many.db"
        experiment = PreferenceExperiment.create(
            "many", parameters=bounds, storage=storage
        )
        timed("record_table", lambda: experiment.record_table(table, items))
        timed("recommend", experiment.recommend)
        timed("report", experiment.report)
        timed("ask", lambda: experiment.ask(2))
        timed("resume", lambda: PreferenceExperiment.resume("many", storage=storage))
    print_table(["what", "seconds", "to reach", "megabytes"], rows)


if __name__ == "__main__":
    main()
