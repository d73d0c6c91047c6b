"""An experiment on a mixed space with a constraint, and somebody who judges."""

from pathlib import Path
from typing import Any

from ax.core.types import TParameterization
from parameters import choice, real, whole

from botorch_pref.ax import PreferenceExperiment, Question

PARAMETERS = [
    real("dose", 14, 22),
    real("grind", 0.1, 10, scaling="log"),
    whole("ratio", 1, 4),
    choice("bean", ["a", "b", "c"], is_ordered=False),
    choice("cup", [1, 2, 4], is_ordered=True),
    choice("machine", ["lever"]),
]
CONSTRAINTS = ["dose + ratio <= 21"]
QUICK = {
    "num_restarts": 1,
    "raw_samples": 8,
    "options": {"maxiter": 10, "n_burnin": 64},
}

QUICK_FIT = {"optimizer_kwargs": {"options": {"maxiter": 10}}}


def create(storage: str | Path, name: str = "espresso", **settings: Any):
    return PreferenceExperiment.create(
        name,
        parameters=PARAMETERS,
        parameter_constraints=CONSTRAINTS,
        storage=storage,
        **{"optimizer_options": QUICK, "fit_options": QUICK_FIT, **settings},
    )


def utility(option: TParameterization) -> float:
    return (
        -((option["dose"] - 17) ** 2) / 4
        - (option["ratio"] - 2) ** 2
        + (option["bean"] == "b")
        - abs(option["cup"] - 2) / 2
    )


def better(question: Question) -> int:
    first, second = map(utility, question.options)
    return int(second > first)


def play(experiment: PreferenceExperiment, until: int) -> None:
    """Asks and answers until there were so many questions."""
    while len(experiment.log.questions) < until:
        question = experiment.ask(2)
        experiment.tell(question, winner=better(question))
