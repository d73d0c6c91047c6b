"""An experiment on a mixed space with a constraint, and somebody who judges."""

from pathlib import Path
from typing import Any

from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from ax.core.types import TParameterization

from botorch_pref.ax import PreferenceExperiment, Question

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
    ChoiceParameterConfig(name="machine", parameter_type="str", values=["lever"]),
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
