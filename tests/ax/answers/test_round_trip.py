"""Exports of experiments, which another one records: the same answers."""

import itertools
import tempfile
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from cases import in_turn
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from parameters import choice, real, whole

from botorch_pref.ax import PreferenceExperiment
from botorch_pref.errors import ExperimentError

LEVELS = 4
WORDS = ["None", "NA", "007", "true", "", ' a, "b"\n']
PARAMETERS = [
    # The name of a column of the table.
    real("winner"),
    whole("n", -5, 5),
    choice("word", WORDS, is_ordered=False),
    choice("on", [True, False], is_ordered=True),
    choice("fixed", ["1"]),
]
DESIGNS = st.fixed_dictionaries(
    {
        "winner": st.floats(0, 1),
        "n": st.integers(-5, 5),
        "word": st.sampled_from(WORDS),
        "on": st.booleans(),
    }
)
TEXTS = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1
)
FRACTIONS = st.floats(1e-9, 1 - 1e-9)


def said_of(draw: Any, size: int) -> dict[str, Any]:
    """Draws something that can be said of so many options."""
    failed = draw(st.none() | st.sets(st.integers(0, size - 1)))
    valid = [i for i in range(size) if i not in (failed or ())]
    ways: list[dict[str, Any]] = [{}]
    if len(valid) == 2:
        ways += [{"winner": w} for w in valid]
        ways += [{"strength": draw(FRACTIONS)}]
    if len(valid) >= 2:
        ways += [{"tie": True}]
    if len(valid) > 2:
        ways += [{"best": draw(st.sampled_from(valid))}]
        ways += [{"ranking": draw(st.permutations(valid))}]
    answer = dict(draw(st.sampled_from(ways)))
    if failed is not None:
        answer["invalid"] = sorted(failed)
    for field, values in (
        ("ratings", FRACTIONS),
        ("levels", st.integers(0, LEVELS - 1)),
    ):
        lists = st.lists(st.none() | values, min_size=size, max_size=size)
        ranks = draw(st.none() | lists)
        if ranks and any(value is not None for value in ranks):
            answer[field] = ranks
    return answer or {"cannot_compare": True}


@st.composite
def answers(draw: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    size = draw(st.integers(2, 4))
    designs = draw(
        st.lists(
            DESIGNS,
            min_size=size,
            max_size=size,
            unique_by=lambda design: tuple(design.values()),
        )
    )
    around = {
        "rater": draw(st.none() | TEXTS.filter(str.strip)),
        "note": draw(st.none() | TEXTS),
        "seconds": draw(st.none() | st.floats(0, 1e300)),
        "order": draw(st.none() | st.permutations(range(size))),
    }
    return designs, {**said_of(draw, size), **around}


def created(path: Path) -> PreferenceExperiment:
    return PreferenceExperiment.create(
        "trip", parameters=PARAMETERS, storage=path, num_levels=LEVELS
    )


def kept(experiment: PreferenceExperiment) -> list[tuple[list[dict], dict]]:
    """Lists options in their order, and everything that was said of them."""
    errors = []
    for question in experiment.log.questions:
        event = question.standing
        if event is not None:
            options = [dict(o) for o in experiment.question(question.index).options]
            errors.append((options, dict(event.what)))
    return errors


@pytest.fixture(scope="module")
def empty() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trip.db"
        created(path)
        return path.read_bytes()


@pytest.mark.slow
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(told=st.lists(answers(), min_size=1, max_size=5), data=st.data())
def test_what_is_written_is_recorded_as_it_was(empty, told, data) -> None:
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{name}.db" for name in ("first", "second", "third")]
        for path in paths:
            path.write_bytes(empty)
        first, *later_experiments = (
            PreferenceExperiment.resume("trip", storage=p) for p in paths
        )
        for designs, answer in told:
            question = first.record(designs, **answer)
            if data.draw(st.booleans()):
                first.withdraw(question)
        first.ask(options=[designs[0], designs[1]])
        expected = kept(first)
        if not expected:
            return
        table = Path(folder) / "answers.csv"
        first.write_answers(table)
        forms = (table, first.answers())
        for path, stored, form in zip(paths[1:], later_experiments, forms, strict=True):
            questions = stored.record_table(form)
            assert len(questions) == len(expected)
            assert kept(stored) == expected
            again = PreferenceExperiment.resume("trip", storage=path)
            assert kept(again) == expected
            # Each answer is taken once, whichever way it comes.
            assert stored.record_table(form) == []
            assert first.record_table(stored.answers()) == []
            assert kept(stored) == expected


def test_a_catalogue_is_told_by_its_ids(tmp_path) -> None:
    wines = pd.DataFrame({"price": [1.0, 2.0, 3.0]}, index=["007", "NA", "7"])
    first, second = (
        PreferenceExperiment.create(
            "cellar", catalogue=wines, storage=tmp_path / f"{name}.db"
        )
        for name in ("first", "second")
    )
    for pair in itertools.permutations(wines.index, 2):
        first.record([*pair], winner=1, rater="1e3")
    first.write_answers(tmp_path / "answers.csv")
    second.record_table(tmp_path / "answers.csv")
    assert kept(second) == kept(first)


@pytest.fixture
def recorded(tmp_path) -> PreferenceExperiment:
    experiment = created(tmp_path / "trip.db")
    design = {"winner": 0.5, "n": 1, "word": "NA", "on": True}
    experiment.record([design, {**design, "n": 2}], winner=0)
    return experiment


@in_turn(
    "time",
    [
        "0001-01-01T00:00:00.000+00:00",
        "0001-01-01T00:00:00.000+05:00",
        "9999-12-31T23:59:59.999+00:00",
    ],
)
def test_a_time_that_some_zones_do_not_have_is_not_kept(time, recorded) -> None:
    """Ax has local times: where there is none, no question could be asked any more."""
    table = recorded.answers().assign(time=time)
    recorded.record_table(table)
    recorded_time = datetime.fromisoformat(recorded.log.events[-1].time)
    for hours in (-12, 14):
        recorded_time.astimezone(timezone(timedelta(hours=hours)))


@in_turn(
    ("changed", "match"),
    [
        ({"winner": [1, 1]}, r"winner \[1.0, 1.0\], which no answer gives"),
        ({"winner": [1, "x"]}, "winner 'x'; give a number"),
        ({"winner": [float("inf"), 0]}, "winner inf; give a number"),
        ({"option": [0, 0]}, "option .*count the options of a question from 0"),
        ({"option": [0, None]}, "option .*count the options of a question from 0"),
        ({"rater": ["a", "b"]}, "the same"),
        ({"shown": [0, None]}, "shown .*count"),
        ({"tie": [1, 1]}, "winner and tie"),
        ({"count": [2, 3]}, "the count .*the same"),
        ({"winner_parameter": [0.5, None]}, "Row 1 .*winner has no value"),
        ({"levels": [0.5, None]}, r"levels \[0.5\], which no answer gives"),
        ({"valid": [0, 1]}, "which no answer gives|are valid"),
        (
            {"winner": [None, None], "strength": [0.3, 0.7], "valid": [0, 1]},
            r"strength \[0.3, 0.7\], which no answer gives",
        ),
        (
            {"winner": [None, None], "strength": [None, 0.3], "valid": [0, 1]},
            "1 of the options are valid",
        ),
    ],
)
def test_a_table_that_no_experiment_writes(changed, match, recorded) -> None:
    table = recorded.answers().astype(object)
    for column, values in changed.items():
        table[column] = pd.Series(values, dtype=object)
    with pytest.raises(ExperimentError, match=match):
        recorded.record_table(table)
    assert len(recorded.answers()) == 2
