"""Waits of people who answer at the same time, on one core, whatever else runs there.

The clock is that of the processor: choosing questions and storing answers take the time
that they take it, and people think for a while that is drawn. The rest is as on the
page of ``python -m botorch_pref serve``: one question on display and one asked ahead
for everybody, chosen from the answers that are there when the choice begins.

    OMP_NUM_THREADS=1 python benchmarks/page_waits.py --people 30 --seconds 90
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from ax.api.configs import RangeParameterConfig

from botorch_pref.ax import PreferenceExperiment, Question
from botorch_pref.web.rater_places import BATCH, NUM_AHEAD
from botorch_pref.web.worker import ask_chosen, packed_choices, packed_state

BEST = {"a": 0.3, "b": 0.7, "c": 0.5, "d": 0.2}
"""The design that everybody likes best."""


@dataclass
class Person:
    """Somebody at the page; times are seconds of the clock."""

    name: str
    questions: list[Question] = field(default_factory=list)
    waiting_since: float | None = 0.0
    answers_at: float = 0.0
    waits: list[float] = field(default_factory=list)


def main() -> None:
    """Prints how many questions were taken, and how long people waited for them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--people", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=90.0)
    parser.add_argument("--size", type=int, default=4)
    parser.add_argument("--think", type=float, nargs=2, default=(10.0, 20.0))
    parser.add_argument("--together", type=int, default=BATCH)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    draws = random.Random(0)
    people = [Person(f"rater {i}") for i in range(arguments.people)]
    parameters = [
        RangeParameterConfig(name=name, parameter_type="float", bounds=(0, 1))
        for name in BEST
    ]
    with tempfile.TemporaryDirectory() as folder:
        experiment = PreferenceExperiment.create(
            "waits", parameters=parameters, storage=Path(folder, "waits.db")
        )
        choices = play(experiment, people, arguments, draws)
    for person in people:
        if person.waiting_since is not None:
            # At least so long: who waits at the end counts as well.
            person.waits.append(max(0.0, arguments.seconds - person.waiting_since))
    waits = sorted(wait for person in people for wait in person.waits)
    ninth = waits[int(0.9 * len(waits))]
    count, seconds = arguments.people, arguments.seconds
    print(f"{count} people, {seconds:.0f} s: {len(waits)} waits,")
    print(f"{len(choices)} choices of {statistics.median(choices or [0.0]):.2f} s")
    print(f"waits: median {statistics.median(waits):.2f} s, 90 % within {ninth:.2f} s")


def play(
    experiment: PreferenceExperiment,
    people: list[Person],
    arguments: argparse.Namespace,
    draws: random.Random,
) -> list[float]:
    """Lets people answer until the end; seconds of each choice of the model."""
    now, choices = 0.0, []

    def think() -> float:
        return draws.uniform(*arguments.think)

    while now < arguments.seconds:
        needy = [p for p in people if len(p.questions) < 1 + NUM_AHEAD]
        needy.sort(key=lambda p: (len(p.questions), p.waiting_since or 0.0))
        if needy:
            begun = time.process_time()
            by_model = experiment.num_answers >= experiment.settings.initial
            questions = choose(experiment, arguments, needy, by_model)
            took = time.process_time() - begun
            choices += [took] if by_model else []
            now += took
        else:
            now = max(now, min(person.answers_at for person in people))
        now += answer(experiment, people, now, think, draws)
        if needy:
            for person, question in zip(needy, questions, strict=False):
                person.questions.append(question)
                look(person, now, think)
        print(f"{now:7.1f} s, {experiment.num_answers} answers", flush=True)
    return choices


def choose(
    experiment: PreferenceExperiment,
    arguments: argparse.Namespace,
    needy: list[Person],
    by_model: bool,
) -> list[Question]:
    """Questions of those who need one, of the first of them at least."""
    raters = [person.name for person in needy[: arguments.together]]
    if not by_model:
        return [experiment.ask(arguments.size, rater=raters[0])]
    choices = packed_choices(packed_state(experiment), arguments.size, raters)
    return ask_chosen(experiment, choices, raters)


def answer(
    experiment: PreferenceExperiment,
    people: list[Person],
    now: float,
    think: Callable[[], float],
    draws: random.Random,
) -> float:
    """Stores what people have answered by now; seconds that it took."""
    begun = time.process_time()
    for person in people:
        while person.waiting_since is None and person.answers_at <= now:
            question = person.questions.pop(0)
            likes = [utility(option, draws) for option in question.options]
            best = likes.index(max(likes))
            experiment.tell(question, best=best, rater=person.name)
            person.waiting_since = person.answers_at
            look(person, person.answers_at, think)
    return time.process_time() - begun


def look(person: Person, now: float, think: Callable[[], float]) -> None:
    """Takes a question, if there is one for who waits."""
    if person.questions and person.waiting_since is not None:
        person.waits.append(now - person.waiting_since)
        person.waiting_since, person.answers_at = None, now + think()


def utility(option: dict[str, Any], draws: random.Random) -> float:
    """The utility of an option as it is heard."""
    off = sum((option[name] - best) ** 2 for name, best in BEST.items())
    return draws.gauss(-4.0 * off, 0.1)


if __name__ == "__main__":
    main()
