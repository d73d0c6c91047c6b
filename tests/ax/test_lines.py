"""Experiments that ask about lines: which ones, what is kept, and what it teaches."""

import math
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from ax.core.parameter import RangeParameter
from hypothesis import given, settings
from hypothesis import strategies as st

from botorch_pref import LineChoices
from botorch_pref.ax import PreferenceExperiment
from botorch_pref.ax.space.lines import Line, line_through, line_toward
from botorch_pref.errors import ExperimentError

AMOUNT = RangeParameterConfig(name="amount", bounds=(0.0, 1.0), parameter_type="float")
HEAT = RangeParameterConfig(
    name="heat", bounds=(1.0, 100.0), parameter_type="float", scaling="log"
)
CUPS = RangeParameterConfig(name="cups", bounds=(1, 7), parameter_type="int")
MILL = RangeParameterConfig(
    name="mill", bounds=(0.0, 2.0), step_size=0.5, parameter_type="float"
)
BEAN = ChoiceParameterConfig(
    name="bean",
    values=["arabica", "robusta"],
    parameter_type="str",
    is_ordered=False,
)
SPACE = [AMOUNT, HEAT, CUPS, MILL, BEAN]
LIMIT = "amount + 0.1 * cups <= 1"


def created(folder: Path, parameters: Any = SPACE, **given: Any) -> Any:
    return PreferenceExperiment.create(
        "knob", parameters=parameters, storage=folder / "knob.db", seed=0, **given
    )


def taste(design: Mapping[str, Any]) -> float:
    heat = math.log10(design["heat"]) - 1.2
    return -(4 * (design["amount"] - 0.3) ** 2 + heat**2 + (design["cups"] - 3) ** 2)


def stop(question: Any) -> float:
    places = [place / 100 for place in range(101)]
    return max(places, key=lambda place: taste(question.at(place)))


@pytest.fixture
def experiment(tmp_path: Path) -> Any:
    return created(tmp_path, [AMOUNT, HEAT, CUPS])


def test_a_person_who_turns_knobs_ends_at_what_she_likes(experiment: Any) -> None:
    moved = []
    for _ in range(9):
        question = experiment.ask(line=True)
        first, last = question.options
        moved.append([name for name in first if first[name] != last[name]])
        # A hand turns up from the smallest value.
        assert first[moved[-1][0]] < last[moved[-1][0]]
        experiment.tell(question, position=stop(question))
    # Until the model chooses, all that is no step moves.
    assert moved[:3] == [["amount", "heat"]] * 3
    assert {len(names) for names in moved[3:]} == {1}
    assert all(names != after for names, after in pairwise(moved[3:]))
    # The best of all cups is 3 by far, and costs 1 or more to miss. What else is left
    # after nine lines is less than 0.0075 with each of seven seeds.
    best = experiment.recommend()
    assert best["cups"] == 3
    assert taste(best) > -1e-2
    # The next line runs through the recommended design, and a stop beside it, a
    # hundredth of the line away, is recommended then.
    top = experiment.recommend(anywhere=True)
    question = experiment.ask(line=True)
    first, last = question.options
    (turned,) = [name for name in first if first[name] != last[name]]
    assert {**top, turned: first[turned]} == first
    positions = [place / 100 for place in range(101)]
    beside = min(positions, key=lambda p: abs(question.at(p)[turned] - top[turned]))
    experiment.tell(question, position=beside)
    assert experiment.recommend(anywhere=True) == question.at(beside)


def test_no_line_moves_what_the_last_one_moved(tmp_path: Path) -> None:
    """Though two designs along it seem equally good, and each stop is at another."""
    grind = RangeParameterConfig(
        name="grind", bounds=(0.0, 1.0), parameter_type="float"
    )
    experiment = created(tmp_path, [AMOUNT, grind])
    moved = []
    for number in range(9):
        question = experiment.ask(line=True)
        first, last = question.options
        moved.append([name for name in first if first[name] != last[name]])
        best_grind = (0.15, 0.85)[number % 2]
        places = [place / 100 for place in range(101)]
        distances = [
            math.dist(question.at(place).values(), (0.5, best_grind))
            for place in places
        ]
        experiment.tell(question, position=places[distances.index(min(distances))])
    pairs = [*pairwise(moved[3:])]
    assert all(before != after for before, after in pairs), f"moved in turn: {moved}"


def test_what_was_said_is_kept_and_taken_back(experiment: Any, tmp_path: Path) -> None:
    question = experiment.ask(line=True)
    waiting = PreferenceExperiment.resume("knob", storage=tmp_path / "knob.db")
    assert waiting.pending == [question]
    assert waiting.question(0).at(0.3) == question.at(0.3)
    experiment.tell(question, position=0.3)
    experiment.tell(question, position=0.3)
    with pytest.raises(ExperimentError, match=r"has the answer \{'position': 0.3\}"):
        experiment.tell(question, position=0.4)
    assert experiment.recommend() == question.at(0.3)
    assert experiment.undo() == question
    assert experiment.pending == [question]
    experiment.tell(question, position=0.7)
    resumed = PreferenceExperiment.resume("knob", storage=tmp_path / "knob.db")
    assert resumed.recommend() == question.at(0.7)
    # A stop that was undone is named, and nobody is told that it is good.
    assert set(resumed.titles.values()) == {"1 A", "1 B", "1 C", "1 D"}
    assert {"1 A", "1 B", "1 D"} == {*resumed.report().options.index}


def test_another_experiment_reads_the_same_stops(
    experiment: Any, tmp_path: Path
) -> None:
    for position in (0.25, 0.0, 1.0):
        experiment.tell(experiment.ask(line=True), position=position)
    experiment.tell(experiment.ask(2), winner=0)
    experiment.tell(experiment.ask(line=True), invalid=[0, 1])
    experiment.write_answers(tmp_path / "answers.csv")
    other = PreferenceExperiment.create(
        "other",
        parameters=[AMOUNT, HEAT, CUPS],
        storage=tmp_path / "other.db",
        seed=0,
    )
    assert len(other.record_table(tmp_path / "answers.csv")) == 5
    # A second time nothing is new, neither here nor there.
    for known in (other, experiment):
        assert not known.record_table(tmp_path / "answers.csv")
    experiment.write_json(tmp_path / "log.json")
    read = PreferenceExperiment.read(
        tmp_path / "log.json", storage=tmp_path / "read.db"
    )
    copy = experiment.copy(storage=tmp_path / "copy.db")
    for same in (other, read, copy):
        assert same.recommend() == experiment.recommend()
        said = same.answers()["position"].dropna().tolist()
        assert said == [0.75, 0.25, 1.0, 0.0, 0.0, 1.0]


def test_the_model_is_told_the_ends_and_the_stop(experiment: Any) -> None:
    experiment.tell(experiment.ask(line=True), position=0.25)
    adapter = experiment.fitted_adapter()
    (block,) = adapter.feedback
    assert isinstance(block, LineChoices)
    first, last = adapter.datapoints[block.lines[0]]
    names = [arm.name for arm in adapter.arms]
    stopped = adapter.datapoints[names.index("0_2")]
    # Digits that nobody reads are rounded, to a hundredth of the range.
    position = float(block.chosen[0])
    error = 1e-2 * (1 + 1 / 99)
    torch.testing.assert_close(
        stopped, torch.lerp(first, last, position), atol=error, rtol=0.0
    )


def test_steps_count_as_they_were_tried(tmp_path: Path) -> None:
    experiment = created(tmp_path)
    ends = [
        {"amount": 0.5, "heat": 10.0, "cups": 1, "mill": 1.0, "bean": "arabica"},
        {"amount": 0.5, "heat": 10.0, "cups": 5, "mill": 1.0, "bean": "arabica"},
    ]
    question = experiment.ask(line=True, options=ends)
    assert question.positions(41) == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert question.at(0.4)["cups"] == 3
    experiment.tell(question, position=0.4)
    assert experiment.log.questions[0].standing.fields == {"position": 0.5}


def test_answers_that_a_line_does_not_take(tmp_path: Path) -> None:
    experiment = created(tmp_path)
    question, duel = experiment.ask(line=True), experiment.ask(2)
    with pytest.raises(ExperimentError, match="says winner; say position"):
        experiment.tell(question, winner=0)
    with pytest.raises(ExperimentError, match="ask with line=True"):
        experiment.tell(duel, position=0.5)
    with pytest.raises(ExperimentError, match="shows options side by side"):
        duel.at(0.5)
    for position in (-0.1, 1.5, float("nan"), "middle", True):
        with pytest.raises(ExperimentError, match="position is"):
            experiment.tell(question, position=position)
        with pytest.raises(ExperimentError, match="position is"):
            question.at(position)
    with pytest.raises(ExperimentError, match="a line has two ends"):
        experiment.ask(3, line=True)
    beans = [{**question.at(0.5), "bean": bean} for bean in ("arabica", "robusta")]
    with pytest.raises(ExperimentError, match="bean is 'arabica' at one end"):
        experiment.ask(line=True, options=beans)
    three = [question.at(place) for place in (0.0, 0.5, 1.0)]
    with pytest.raises(ExperimentError, match="give the two ends"):
        experiment.ask(line=True, options=three)
    # Nothing changed along the line: its ends are equal.
    experiment.tell(question, tie=True)
    assert experiment.num_answers == 1


@pytest.mark.parametrize("answer", [{"invalid": [0, 1]}, {"tie": True}])
def test_a_line_without_a_stop_is_not_asked_about_again(
    experiment: Any, answer: Mapping[str, Any]
) -> None:
    for _ in range(4):
        question = experiment.ask(line=True)
        experiment.tell(question, position=stop(question))
    lines = []
    for _ in range(2):
        question = experiment.ask(line=True)
        lines.append(question.options)
        experiment.tell(question, **answer)
    assert lines[0] != lines[1]
    assert experiment.num_answers == 6
    # What failed along a line is not what is best.
    assert taste(experiment.recommend()) > max(map(taste, lines[0] + lines[1]))


def test_experiments_without_lines_say_so(tmp_path: Path) -> None:
    laplace = created(tmp_path, model="LaplacePreferenceGP")
    with pytest.raises(ExperimentError, match="does not take"):
        laplace.ask(line=True)
    beans = PreferenceExperiment.create(
        "beans", parameters=[BEAN, BEAN_2], storage=tmp_path / "beans.db"
    )
    with pytest.raises(ExperimentError, match="No parameter can move"):
        beans.ask(line=True)


BEAN_2 = ChoiceParameterConfig(
    name="roast", values=["dark", "light"], parameter_type="str", is_ordered=False
)


def test_a_question_side_by_side_takes_up_a_stop(experiment: Any) -> None:
    for _ in range(6):
        question = experiment.ask(line=True)
        experiment.tell(question, position=stop(question))
    best = experiment.recommend()
    question = experiment.ask(4)
    # Of four one is the best design so far, or as good to the model, under its name.
    titles = [experiment.titles[name] for name in question.names]
    (repeated,) = (i for i, title in enumerate(titles) if title[0] != "7")
    assert titles[repeated].endswith("C"), f"{titles[repeated]} is no stop of a line"
    predicted = experiment.predict([best, question.options[repeated]])["mean"]
    assert predicted[0] - predicted[1] < 0.01, f"{titles[repeated]} is worse"


@settings(max_examples=60, deadline=None)
@given(
    amount=st.floats(0, 0.9),
    heat=st.floats(1, 100),
    cups=st.integers(1, 7),
    step=st.integers(0, 4),
    moving=st.sampled_from(["amount", "heat", "cups", "mill"]),
    position=st.floats(0, 1),
)
def test_designs_of_lines_are_designs(
    limited: Any,
    amount: float,
    heat: float,
    cups: int,
    step: int,
    moving: str,
    position: float,
) -> None:
    space = limited.log.space
    amount = min(amount, 1 - 0.1 * cups)
    design = {"amount": amount, "heat": heat, "cups": cups, "mill": step / 2}
    design |= {"bean": "arabica"}
    line = line_through(space, design, moving)
    if line is None:
        # So much leaves room for no second cup.
        assert moving == "cups"
        assert amount > 1 - 0.1 * 2
        return
    shown = line.at(position)
    assert space.check_membership(shown, raise_error=True)
    assert {n: v for n, v in shown.items() if n != moving} == {
        n: v for n, v in design.items() if n != moving
    }
    # What is told is the position of what was shown.
    assert line.at(line.tried(position)) == shown
    parameter = space.parameters[moving]
    ends = [line.first[moving], line.last[moving]]
    assert ends[0] < ends[1]
    if isinstance(parameter, RangeParameter) and moving in ("amount", "cups"):
        expected = ends[0] + position * (ends[1] - ends[0])
        # Half of a cup, or of the last digit that is shown.
        error = 0.5 + 1e-9 if moving == "cups" else 5.1e-3
        assert abs(shown[moving] - expected) <= error


@settings(max_examples=60, deadline=None)
@given(
    shares=st.lists(st.floats(0, 1), min_size=4, max_size=4), position=st.floats(0, 1)
)
def test_spread_lines_run_from_edge_to_edge(
    limited: Any, shares: list[float], position: float
) -> None:
    space = limited.log.space
    other_values = {"cups": 3, "mill": 1.0, "bean": "arabica"}
    designs = [
        {"amount": 0.7 * amount, "heat": 100.0**heat, **other_values}
        for amount, heat in (shares[:2], shares[2:])
    ]
    line = line_toward(space, *designs)
    if line is None:
        gaps = [abs(designs[0][n] - designs[1][n]) for n in ("amount", "heat")]
        assert max(gaps) < 1e-2
        return
    assert space.check_membership(line.at(position), raise_error=True)
    assert line.at(line.tried(position))["cups"] == 3
    # Both ends are at an edge, but for digits that nobody reads.
    for end in (line.first, line.last):
        room = [end["amount"], 0.7 - end["amount"]]
        room += [math.log10(end["heat"]), 2 - math.log10(end["heat"])]
        assert min(room) == pytest.approx(0, abs=1e-2)


@settings(max_examples=60, deadline=None)
@given(shares=st.lists(st.floats(0, 1), min_size=4, max_size=4))
def test_lines_of_a_mixture_run_from_edge_to_edge(
    mixture: Any, shares: list[float]
) -> None:
    """The parts make a whole, so that lines run along two constraints."""
    designs = []
    for first, second in (shares[:2], shares[2:]):
        # In sixteenths, so that lines that nobody could see are none at all.
        parts = [round(16 * first), round(16 * (1 - first) * second)]
        parts = [min(parts[0], 16), min(parts[1], 16 - round(16 * first))]
        parts.append(16 - sum(parts))
        designs.append({n: p / 16 for n, p in zip("abc", parts, strict=True)})
    line = line_toward(mixture.log.space, *designs)
    assert (line is None) == (designs[0] == designs[1])
    if line is None:
        return
    for end in (line.first, line.last):
        assert sum(end.values()) == pytest.approx(1, abs=1e-8)
        assert min(end.values()) == pytest.approx(0, abs=5.1e-3)
    for name in "abc":
        low, high = sorted([line.first[name], line.last[name]])
        assert all(low - 1e-2 <= x[name] <= high + 1e-2 for x in designs)


@pytest.fixture(scope="module")
def mixture(tmp_path_factory: pytest.TempPathFactory) -> Any:
    parts = [
        RangeParameterConfig(name=name, bounds=(0.0, 1.0), parameter_type="float")
        for name in "abc"
    ]
    limits = ["0.3 * a + 0.3 * b + 0.3 * c <= 0.3", "a + b + c >= 1"]
    folder = tmp_path_factory.mktemp("mixture")
    return created(folder, parts, parameter_constraints=limits)


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("limited")
    return created(folder, parameter_constraints=[LIMIT])


def test_a_line_has_two_ends(limited: Any) -> None:
    design = {"amount": 0.1, "heat": 2.0, "cups": 2, "mill": 1.0, "bean": "arabica"}
    with pytest.raises(ExperimentError, match="Both ends of the line are one design"):
        Line(limited.log.space, design, dict(design))


def test_a_rater_is_recommended_his_own_stop_and_all_of_them_none(
    tmp_path: Path,
) -> None:
    experiment = created(tmp_path, [AMOUNT], raters="share")
    ends = [{"amount": 0.0}, {"amount": 1.0}]
    for rater, position in (("ann", 0.49), ("bob", 0.51)):
        question = experiment.ask(line=True, options=ends, rater=rater)
        experiment.tell(question, position=position)
    for rater, stop in (("ann", 0.49), ("bob", 0.51)):
        assert experiment.recommend(anywhere=True, rater=rater) == {"amount": stop}
    assert 0.49 < experiment.recommend(anywhere=True)["amount"] < 0.51
