"""An experiment whose questions are a Sobol sequence's, so that asking is cheap."""

from pathlib import Path
from typing import Any

from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig

from botorch_pref.ax import PreferenceExperiment

PARAMETERS = [
    RangeParameterConfig(name="leaf (g)", parameter_type="float", bounds=(1, 9)),
    RangeParameterConfig(
        name="minutes", parameter_type="float", bounds=(0.5, 32), scaling="log"
    ),
    RangeParameterConfig(name="cups", parameter_type="int", bounds=(1, 4)),
    ChoiceParameterConfig(
        name="kind", parameter_type="str", values=["oolong", "green"], is_ordered=False
    ),
]
OWN = [
    {"leaf (g)": 4.0, "minutes": 3.0, "cups": 2, "kind": "green"},
    {"leaf (g)": 5.0, "minutes": 3.0, "cups": 2, "kind": "oolong"},
]


def create(storage: Path, **settings: Any) -> PreferenceExperiment:
    return PreferenceExperiment.create(
        "tea",
        parameters=PARAMETERS,
        storage=storage,
        **{"initial": 10_000, "num_levels": 5, **settings},
    )


def stored(storage: Path) -> PreferenceExperiment:
    """Opens the experiment as another process would find it."""
    return PreferenceExperiment.resume("tea", storage=storage)


def log(experiment: PreferenceExperiment) -> list[tuple[str, int, dict[str, Any]]]:
    """Lists what happened, without times: kind, question, what was said."""
    return [
        (event.kind, event.question, {**event.fields, "rater": event.what.get("rater")})
        for event in experiment.log.events
        if event.kind != "asked"
    ]
