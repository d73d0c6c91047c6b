"""Refusals of what is no finite number, wherever numbers come in."""

from collections.abc import Callable
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from parameters import choice, real, whole

from botorch_pref.ax import PreferenceExperiment
from botorch_pref.errors import ExperimentError

NO_NUMBERS: dict[str, Any] = {
    "nan": float("nan"),
    "inf": float("inf"),
    "-inf": float("-inf"),
    "numpy nan": np.float64("nan"),
    "numpy inf": np.float32("inf"),
    "NA": pd.NA,
    "NaT": pd.NaT,
    "None": None,
    "decimal nan": Decimal("nan"),
    "signalling nan": Decimal("snan"),
    "decimal inf": Decimal("-inf"),
    "huge": 10**400,
    "beyond printing": -(10**5_000),
    "complex": 1j,
    "text": "much",
    "True": True,
    "numpy True": np.True_,
    "list": [0.5],
    "array": np.array([0.1, 0.2]),
    "tensor": torch.tensor(float("nan")),
}

X = real("x")
N = whole("n", 0, 8)
CUP = choice("cup", [1.0, 2.0], is_ordered=True)
FIRST, SECOND = ({"x": 0.1, "n": 1, "cup": 1.0}, {"x": 0.9, "n": 2, "cup": 2.0})


def create(path: Path, **settings: Any) -> PreferenceExperiment:
    arguments = {"parameters": [X, N, CUP], "storage": path, "num_levels": 4}
    return PreferenceExperiment.create("doors", **arguments | settings)


def with_bounds(low: Any, high: Any, **arguments: Any) -> dict[str, Any]:
    config = real("x", low, high, **arguments)
    return {"parameters": [config]}


def with_values(kind: Any, *values: Any) -> dict[str, Any]:
    config = ChoiceParameterConfig(
        name="c", parameter_type=kind, values=[*values], is_ordered=False
    )
    return {"parameters": [X, config]}


def catalogue(value: Any) -> dict[str, Any]:
    cells = pd.Series([0.5, value, 0.7], dtype=object)
    table = pd.DataFrame({"x": cells, "y": [*"abc"]})
    return {"catalogue": table, "parameters": None}


CREATE: dict[str, Callable[[Any], dict[str, Any]]] = {
    "lower bound": lambda v: with_bounds(v, 1.0),
    "upper bound": lambda v: with_bounds(0.0, v),
    "upper bound of a log scale": lambda v: with_bounds(0.1, v, scaling="log"),
    "step size": lambda v: with_bounds(0.0, 1.0, step_size=v),
    "value": lambda v: with_values("float", 1.0, v),
    "whole value": lambda v: with_values("int", 1, v),
    "cell": catalogue,
    "constraint": lambda v: {"parameter_constraints": [f"x + n <= {text(v)}"]},
    "coefficient": lambda v: {"parameter_constraints": [f"{text(v)} * x + n <= 1"]},
    "constraints": lambda v: {"parameter_constraints": [v]},
    "number of levels": lambda v: {"num_levels": v},
    "initial": lambda v: {"initial": v},
    "seed": lambda v: {"seed": v},
    "repeat rate": lambda v: {"repeat_rate": v},
    "smallest difference": lambda v: {"smallest_difference": v},
    "smallest difference of x": lambda v: {"smallest_difference": {"x": v}},
    "baseline": lambda v: {"baseline": {**FIRST, "x": v}},
    "model option": lambda v: {
        "model_options": {"likelihood": {"PairwiseProbitLikelihood": {"noise": v}}}
    },
    "fit option": lambda v: {"fit_options": {"max_attempts": v}},
    "acquisition option": lambda v: {"acquisition_options": {"k": v}},
    "optimizer option": lambda v: {"optimizer_options": {"timeout_sec": v}},
}

CAN_BE = {
    "step size": {"None"},
    "number of levels": {"None"},
    "model option": {"None", "True", "numpy True", "list"},
    "fit option": {"None", "True", "numpy True", "text", "list"},
    "acquisition option": {"True", "numpy True"},
    "optimizer option": {"None", "True", "numpy True", "text", "list"},
}
"""Names that other checks than those of numbers are for."""


def text(value: Any) -> str:
    return "1e400" if isinstance(value, int) and abs(value) > 1 else str(value)


def check_refused(call: Callable[[Any], Any], name: str) -> None:
    try:
        call(NO_NUMBERS[name])
    except ExperimentError:
        return
    pytest.fail(f"{name} was taken")


@pytest.mark.parametrize("door", CREATE)
def test_nothing_is_created_of_what_is_no_number(door, tmp_path) -> None:
    for name in NO_NUMBERS:
        if name in CAN_BE.get(door, ()):
            continue
        check_refused(lambda v: create(tmp_path / "doors.db", **CREATE[door](v)), name)
        assert not (tmp_path / "doors.db").exists()


def designs(value: Any) -> list[dict[str, Any]]:
    return [FIRST, {**SECOND, "x": value}]


def table(**changed: Any) -> pd.DataFrame:
    columns = {
        f"{side}_{name}": [value, value]
        for side, design in (("winner", FIRST), ("loser", SECOND))
        for name, value in design.items()
    }
    frame = pd.DataFrame(columns).astype(object)
    for name, value in changed.items():
        frame[name] = pd.Series([frame.get(name, [None])[0], value], dtype=object)
    return frame


CALLS: dict[str, Callable[[PreferenceExperiment, Any], Any]] = {
    "size": lambda e, v: e.ask(v),
    "asked design": lambda e, v: e.ask(options=designs(v)),
    "asked whole number": lambda e, v: e.ask(options=[FIRST, {**SECOND, "n": v}]),
    "asked choice": lambda e, v: e.ask(options=[FIRST, {**SECOND, "cup": v}]),
    "options": lambda e, v: e.ask(options=[v, v]),
    "recorded design": lambda e, v: e.record(designs(v), winner=1),
    "recorded winner": lambda e, v: e.record([FIRST, SECOND], winner=v),
    "recorded seconds": lambda e, v: e.record([FIRST, SECOND], winner=0, seconds=v),
    "cell": lambda e, v: e.record_table(table(winner_x=v)),
    "whole cell": lambda e, v: e.record_table(table(loser_n=v)),
    "seconds of a row": lambda e, v: e.record_table(table(seconds=v)),
    "question": lambda e, v: e.tell(v, winner=0),
    "winner": lambda e, v: e.tell(0, winner=v),
    "best": lambda e, v: e.tell(0, best=v),
    "tie": lambda e, v: e.tell(0, tie=v),
    "ranking": lambda e, v: e.tell(0, ranking=[0, v]),
    "strength": lambda e, v: e.tell(0, strength=v),
    "invalid": lambda e, v: e.tell(0, invalid=[v]),
    "rating": lambda e, v: e.tell(0, ratings=[0.5, v]),
    "ratings": lambda e, v: e.tell(0, ratings=v),
    "level": lambda e, v: e.tell(0, levels=[1, v]),
    "seconds": lambda e, v: e.tell(0, winner=0, seconds=v),
    "order": lambda e, v: e.tell(0, winner=0, order=[0, v]),
    "note": lambda e, v: e.tell(0, winner=0, note=v),
    "rater": lambda e, v: e.tell(0, winner=0, rater=v),
    "withdrawn": lambda e, v: e.withdraw(v),
    "folds": lambda e, v: e.cross_validate(v),
    "anywhere": lambda e, v: e.recommend(v),
}
TOLD = {
    "size": {"None"},
    "tie": {"None", "True", "numpy True"},
    "seconds": {"None"},
    "recorded seconds": {"None"},
    # An empty cell says nothing, as in a table that pandas reads.
    "seconds of a row": {
        "None",
        "nan",
        "numpy nan",
        "NA",
        "NaT",
        "decimal nan",
        "signalling nan",
    },
    "note": {"None", "text"},
    "rater": {"None", "text"},
    "rating": {"None"},
    "level": {"None"},
    "anywhere": {"True", "numpy True"},
}


@pytest.mark.slow
def test_no_call_takes_what_is_no_number(tmp_path) -> None:
    path = tmp_path / "doors.db"
    experiment = create(path, initial=9)
    question = experiment.ask(options=[FIRST, SECOND])
    experiment.record([FIRST, SECOND], winner=0)
    before = path.read_bytes()
    for door, call in CALLS.items():
        for name in NO_NUMBERS:
            if name in TOLD.get(door, ()):
                continue
            check_refused(partial(call, experiment), name)
            assert path.read_bytes() == before, f"{door} refused and stored {name}"
    again = PreferenceExperiment.resume("doors", storage=path)
    assert again.pending == [question]
    again.tell(question, winner=1)
    assert len(again.answers()) == 4


def test_a_catalogue_has_no_row_of_that_name(tmp_path) -> None:
    frame = pd.DataFrame({"x": [0.1, 0.5, 0.9]}, index=["nan", "None", "inf"])
    experiment = PreferenceExperiment.create(
        "doors", catalogue=frame, storage=tmp_path / "doors.db"
    )
    for name in NO_NUMBERS:
        check_refused(lambda v: experiment.record([v, "inf"], winner=0), name)


@pytest.mark.parametrize(
    ("bounds", "message", "match"),
    [
        ((-1e308, 1e308), {}, "'x' has -1e.308, which is too large"),
        ((1e16, 1e16 + 4), {}, "few numbers between have a float"),
        ((1e-120, 1.0), {"scaling": "log"}, "at least 1e-100 on a log scale"),
        ((0.0, 1.0), {"step_size": 1e-3}, "at most 1000 values, or leave it out"),
        ((0.0, 1.0), {"step_size": -0.1}, "positive"),
        ((0.0, 1.0), {"step_size": 0.3}, "leads from one to the other"),
        ((0.1, 1.0), {"step_size": 0.3, "scaling": "log"}, "no log scale"),
        ((0.0,), {}, "the smallest value and the largest"),
    ],
)
def test_bounds_that_cannot_be_calculated_with(
    bounds, message, match, tmp_path
) -> None:
    config = RangeParameterConfig(
        name="x", parameter_type="float", bounds=bounds, **message
    )
    with pytest.raises(ExperimentError, match=match):
        create(tmp_path / "doors.db", parameters=[config])


def test_numbers_in_steps_are_as_people_write_them(tmp_path) -> None:
    def steps(name, bounds, size, kind="float"):
        return RangeParameterConfig(
            name=name, parameter_type=kind, bounds=bounds, step_size=size
        )

    configurations = [
        steps("x", (5.2, 9.7), 0.3),
        steps("y", (1.0, 1.3), 0.1),
        steps("n", (60, 300), 80, "int"),
    ]
    place = tmp_path / "steps.db"
    experiment = PreferenceExperiment.create(
        "steps", parameters=configurations, storage=place
    )
    again = PreferenceExperiment.resume("steps", storage=place)
    resumed = PreferenceExperiment.resume(
        "steps", storage=place, parameters=configurations
    )
    for tested in (experiment, again, resumed):
        space = tested.experiment.search_space.parameters
        # Ax has 6.3999999999999995, and 1.4 of y.
        assert space["x"].values == [i / 10 for i in range(52, 98, 3)]
        assert space["y"].values == [1.0, 1.1, 1.2, 1.3]
        assert space["n"].values == [60, 140, 220, 300]
    options = [{"x": 6.4, "y": 1.3, "n": 60}, {"x": 9.7, "y": 1.1, "n": 140}]
    experiment.tell(experiment.ask(options=options), winner=0)
    assert dict(experiment.recommend()) == options[0]


def test_numbers_of_other_types_are_taken(tmp_path) -> None:
    path = tmp_path / "doors.db"
    experiment = create(
        path,
        smallest_difference={"x": Decimal("0.1")},
        repeat_rate=np.float32(0.25),
    )
    experiment.record(
        [FIRST, {"x": Decimal("0.25"), "n": np.float64(2), "cup": np.float32(2)}],
        strength=Decimal("0.75"),
        seconds=np.int16(3),
    )
    again = PreferenceExperiment.resume("doors", storage=path)
    assert again.settings == experiment.settings
    parameters = experiment.experiment.trials[0].arms[1].parameters
    assert parameters == {"x": 0.25, "n": 2, "cup": 2.0}
    assert again.answers()["strength"].tolist() == [0.75, 0.25]
