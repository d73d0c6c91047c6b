"""Time of one ``ask`` of an experiment in Ax, and where it goes.

    python benchmarks/ax_ask_time.py

Prints processor seconds at 30 and at 100 answered questions of a mixed space, with and
without a linear constraint: of the fit, of the search for the options, of writing to
SQLite, and of all the rest, most of it in Ax; then of four options of a catalogue, at
20 rankings. Two asks are averaged, of experiments whose questions before were points of
a Sobol sequence.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
from pandas import DataFrame
from report import print_table, seconds, start

warnings.simplefilter("ignore")  # Ax of its own old names.

from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig  # noqa: E402
from ax.core.types import TParameterization  # noqa: E402
from ax.generators.torch.botorch_modular.surrogate import Surrogate  # noqa: E402

from botorch_pref.ax import PreferenceExperiment, Question  # noqa: E402
from botorch_pref.ax.generation.search import QuestionSearch  # noqa: E402
from botorch_pref.ax.log_store import LogStore  # noqa: E402

TO_REACH = {30: 1.0, 100: 2.0}
SEEDS = (0, 1)
PARTS = {
    "fit": (Surrogate, "fit"),
    "search": (QuestionSearch, "best"),
    "write": (LogStore, "append"),
}
Answering = Callable[[Question], dict[str, Any]]

DESIGNS, FEATURES, RANKED = (1_000, 4_000), 5, 20
CONSTRAINTS = {"none": [], "dose + ratio <= 21": ["dose + ratio <= 21"]}
PARAMETERS = [
    RangeParameterConfig(name="dose", parameter_type="float", bounds=(14, 22)),
    RangeParameterConfig(
        name="grind", parameter_type="float", bounds=(0.1, 10), scaling="log"
    ),
    RangeParameterConfig(name="ratio", parameter_type="int", bounds=(1, 4)),
    ChoiceParameterConfig(
        name="bean", parameter_type="str", values=["a", "b", "c"], is_ordered=False
    ),
    ChoiceParameterConfig(
        name="cup", parameter_type="int", values=[1, 2, 4], is_ordered=True
    ),
]


def utility(option: TParameterization) -> float:
    """Utility of an option.

    Args:
        option: By name.
    """
    dose, ratio = float(str(option["dose"])), float(str(option["ratio"]))
    return -((dose - 17) ** 2) / 4 - (ratio - 2) ** 2 + (option["bean"] == "b")


def better(question: Question) -> dict[str, int]:
    """The answer that names the better option.

    Args:
        question: About two.
    """
    first, second = map(utility, question.options)
    return {"winner": int(second > first)}


@contextmanager
def timed_parts(times: dict[str, float]) -> Iterator[None]:
    """Times the parts of an ask.

    Args:
        times: By the name of the part; added to.
    """

    def timed(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if name in running:
                return function(*args, **kwargs)
            found: list[Any] = []
            running.add(name)
            times[name] += seconds(lambda: found.append(function(*args, **kwargs)))
            running.remove(name)
            return found[0]

        return call

    running: set[str] = set()
    with ExitStack() as stack:
        for name, (owner, method) in PARTS.items():
            wrapped = timed(name, getattr(owner, method))
            stack.enter_context(patch.object(owner, method, wrapped))
        yield


def one_ask(
    answered: int, size: int, answer: Answering, seed: int, **space: Any
) -> list[float]:
    """Seconds of the parts of an ask, of the rest, and of all.

    Args:
        answered: How many questions were answered before.
        size: How many options a question has.
        answer: From a question to the keywords of ``tell``.
        seed: Of the experiment.
        space: Keywords of ``create``.
    """
    with TemporaryDirectory() as folder:
        experiment = PreferenceExperiment.create(
            "timed",
            storage=Path(folder) / "timed.db",
            initial=answered,
            repeat_rate=0.0,
            seed=seed,
            **space,
        )
        for _ in range(answered):
            question = experiment.ask(size)
            experiment.tell(question, **answer(question))
        times = dict.fromkeys(PARTS, 0.0)
        with timed_parts(times):
            total = seconds(lambda: experiment.ask(size))
    return [*times.values(), total - sum(times.values()), total]


def mean_of_seeds(time: Callable[[int], list[float]]) -> list[float]:
    """Means of what is timed with each seed.

    Args:
        time: From a seed to times.
    """
    each = [time(seed) for seed in SEEDS]
    return [sum(column) / len(SEEDS) for column in zip(*each, strict=True)]


def catalogue(num_designs: int, seed: int) -> DataFrame:
    """Designs with uniform features.

    Args:
        num_designs: How many.
        seed: Of the features.
    """
    features = np.random.default_rng(seed).random((num_designs, FEATURES))
    return DataFrame(features, columns=[f"x{i}" for i in range(FEATURES)])


def ranked(question: Question) -> dict[str, list[int]]:
    """A ranking of the options, the nearest to the best design first.

    Args:
        question: About rows of a `catalogue`.
    """
    far = [distance_from_best(option) for option in question.options]
    return {"ranking": sorted(range(len(far)), key=far.__getitem__)}


def distance_from_best(option: TParameterization) -> float:
    """Square of the distance from the best design, which few rows are near.

    Args:
        option: By name.
    """
    features = (float(str(option[f"x{i}"])) for i in range(FEATURES))
    return sum((x - 0.4) ** 2 for x in features)


def main() -> None:
    """Prints the table."""
    start(f"one ask of an experiment in Ax, mean of {len(SEEDS)}, seconds")
    # What is imported and compiled at first does not count.
    one_ask(3, 2, better, 0, parameters=PARAMETERS)
    rows: list[list[object]] = []
    for answered, to_reach in TO_REACH.items():
        for name, constraints in CONSTRAINTS.items():
            space = {"parameters": PARAMETERS, "parameter_constraints": constraints}
            ask = partial(one_ask, answered, 2, better, **space)
            rows.append([answered, name, *mean_of_seeds(ask), to_reach])
    print_table(["answers", "constraint", *PARTS, "rest", "total", "to reach"], rows)
    rows = []
    for count in DESIGNS:
        means = mean_of_seeds(
            lambda seed, count=count: one_ask(
                RANKED, 4, ranked, seed, catalogue=catalogue(count, seed)
            )
        )
        rows.append([count, *means])
    print_table(["designs", *PARTS, "rest", "total"], rows)


if __name__ == "__main__":
    main()
