"""A baseline: shown by questions, and compared with in the report."""

import math

import pytest
import torch
from ax.core.parameter import ParameterType, RangeParameter
from ax.core.search_space import SearchSpace
from pandas import DataFrame
from showing import A, B, C, D, averaged_draws, tell, triangle

from botorch_pref.ax import PreferenceExperiment, Settings
from botorch_pref.ax.events import Chosen
from botorch_pref.ax.generation.question_choice import SPREAD, beside_baseline
from botorch_pref.errors import ExperimentError

BASELINE = {"a": 1, "b": 0.5}
AT = (1.0, 0.5)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "triangle.db"


@pytest.mark.slow
def test_questions_before_the_model_chooses_show_it(path) -> None:
    experiment = triangle(path, baseline=BASELINE, initial=2)
    plain = triangle(path.with_stem("plain"), initial=2)
    for size in (2, 3):
        options = experiment.ask(size).options
        assert options.count({"a": 1.0, "b": 0.5}) == 1
        rivals = [option for option in options if option != BASELINE]
        assert len(rivals) == size - 1
        without = plain.ask(size).options
        assert all(rival in without for rival in rivals)
    for question in experiment.pending:
        best = question.options.index(BASELINE)
        experiment.tell(question, best=best)
    again = PreferenceExperiment.resume("triangle", storage=path)
    assert again.settings == experiment.settings
    assert again.settings.baseline == BASELINE
    # What always won meets challengers.
    assert BASELINE in again.ask(3).options


def test_nothing_is_asked_twice_beside_it(path) -> None:
    items = DataFrame({"x": [0.0, 1.0, 2.0], "y": [0.0, 3.0, 1.0]}, index=list("abc"))
    experiment = PreferenceExperiment.create(
        "items", catalogue=items, storage=path, baseline={"x": 0.0, "y": 0.0}
    )
    names = [{*experiment.ask(2).names} for _ in range(3)]
    assert sorted(map(sorted, names)) == [["a", "b"], ["a", "c"], ["b", "c"]]
    assert names[2] == {"b", "c"}
    with pytest.raises(ExperimentError, match="answer what is pending"):
        experiment.ask(2)


def test_it_takes_the_place_of_what_is_most_like_it() -> None:
    space = SearchSpace(
        [RangeParameter(name, ParameterType.FLOAT, 0.0, 2.0) for name in "ab"]
    )
    options = [{"a": a, "b": b} for a, b in (C, (1.01, 0.5), D)]
    settings = Settings(baseline={"a": 1.0, "b": 0.5})
    assert beside_baseline(Chosen(options), settings, space) is options
    spread = Chosen(options, generated={"node": SPREAD})
    beside = beside_baseline(spread, settings, space)
    designs = [tuple(option.values()) for option in beside]
    assert designs == [AT, C, D]


@pytest.mark.slow
def test_the_report_compares_with_it(tmp_path) -> None:
    experiment = triangle(tmp_path / "triangle.db", baseline=BASELINE)
    for option, winner in ((A, 0), (B, 1), (C, 0), (D, 1), (D, 1)):
        tell(experiment, [AT, option], winner=winner)
    report = experiment.report()
    table = report.options.set_index(["a", "b"])
    assert table.loc[AT, ["difference", "least", "most", "preferred"]].tolist() == [
        0,
        0,
        0,
        0.5,
    ]
    adapter = experiment.fitted_adapter()
    model = adapter.botorch_model
    designs = [tuple(arm.parameters.values()) for arm in adapter.arms]
    place = designs.index(AT)
    draws = averaged_draws(model, adapter.datapoints, 40_000)
    differences = draws - draws[:, [place]]
    unit = report.summary["value"]["expected range"]
    for i, design in enumerate(designs):
        if i == place:
            continue
        row, drawn = table.loc[design], differences[:, i]
        error = float(drawn.std()) / 200
        assert abs(unit * row["difference"] - float(drawn.mean())) < 4 * error
        # The error of a share of draws.
        tolerance = 4 * math.sqrt(0.025 * 0.975) / 200
        for end, level in (("least", 0.025), ("most", 0.975)):
            below = float((drawn < unit * row[end]).double().mean())
            assert abs(below - level) < tolerance
        scale = (2 * model.likelihood.noise.detach()).sqrt()
        preferred = 0.025 + 0.95 * torch.special.ndtr(drawn / scale)
        # She may guess all answers, too.
        guesses = adapter.utility.guesser_weight
        expected = (1 - guesses) * float(preferred.mean()) + guesses / 2
        assert abs(row["preferred"] - expected) < 4 * 0.5 / 200
    value = report.summary["value"]
    best = table.loc[tuple(experiment.recommend().values())]
    assert value["baseline"] == "1 A: a = 1, b = 0.5"
    assert value["its difference to the baseline"] == pytest.approx(best["difference"])
    assert best["least"] < best["difference"] < best["most"]
    lower, upper = value["from, with probability 0.95"], value["to"]
    assert [lower, upper] == [best["least"], best["most"]]
    assert value["chance that it is preferred to it"] == pytest.approx(
        best["preferred"]
    )


def test_a_baseline_that_cannot_be_is_refused(tmp_path) -> None:
    with pytest.raises(ExperimentError, match=r"not in the search space"):
        triangle(tmp_path / "triangle.db", baseline={"a": 2, "b": 1})
    with pytest.raises(ExperimentError, match="A design is 3"):
        triangle(tmp_path / "triangle.db", baseline=3)
    assert list(tmp_path.iterdir()) == []
