"""The report against counts by hand, averages of plausible models and plain samples."""

import math

import pytest
import torch
from ax.api.configs import DerivedParameterConfig, RangeParameterConfig
from ax.core.generator_run import GeneratorRun
from cases import in_turn
from espresso import QUICK_FIT
from pandas import DataFrame
from parameters import choice, real, whole
from showing import (
    OPTIONS,
    A,
    B,
    C,
    D,
    E,
    averaged_components,
    averaged_draws,
    averaged_moments,
    short_report,
    show,
    tell,
    triangle,
)

from botorch_pref.ax import PreferenceExperiment, report
from botorch_pref.ax.answer_kinds import preferred
from botorch_pref.ax.best_designs import best_anywhere, best_shown
from botorch_pref.ax.events import option_title
from botorch_pref.ax.generation import adapter as adapter_module
from botorch_pref.ax.summary import all_judged, candidate_points
from botorch_pref.errors import ExperimentError
from botorch_pref.evaluation import best_probability
from botorch_pref.models import AveragedUtility, averaged_utility
from botorch_pref.models.plausible import NUM_MODELS


@pytest.fixture(scope="module")
def judged(tmp_path_factory) -> PreferenceExperiment:
    """A and B are connected, C and D too; E is alone."""
    experiment = triangle(tmp_path_factory.mktemp("judged") / "triangle.db")
    tell(experiment, [A, B], winner=0)
    tell(experiment, [B, A], winner=1)
    tell(experiment, [A, B], winner=1)
    tell(experiment, [C, D], tie=True)
    tell(experiment, [D, E], cannot_compare=True)
    experiment.withdraw(show(experiment, C, (0.7, 0.7)))
    show(experiment, A, D)
    return experiment


@pytest.fixture(scope="module")
def result(judged) -> report.Report:
    return judged.report()


def noticed(model, gains):
    """Chances that gains are preferred, which are in the unit of a model.

    One answer in twenty is given without looking.
    """
    deviation = (2 * model.likelihood.noise.detach()).sqrt()
    return 0.025 + 0.95 * torch.special.ndtr(gains / deviation)


def by_option(table):
    return table.set_index(["a", "b"])


@in_turn(
    ("answer", "size", "decided", "tied"),
    [
        ({"winner": 1}, 2, [(1, 0)], []),
        ({"winner": 2, "invalid": [0]}, 3, [(2, 1)], []),
        ({"best": 1}, 3, [(1, 0), (1, 2)], []),
        ({"ranking": [2, 0, 1]}, 3, [(2, 0), (2, 1), (0, 1)], []),
        ({"tie": True}, 2, [], [(0, 1)]),
        ({"tie": True, "invalid": [1]}, 3, [], [(0, 2)]),
        ({"tie": True}, 3, [], [(0, 1), (0, 2), (1, 2)]),
        ({"strength": 0.9}, 2, [(0, 1)], []),
        ({"strength": 0.2}, 2, [(1, 0)], []),
        ({"strength": 0.5}, 2, [], [(0, 1)]),
        ({"cannot_compare": True}, 2, [], []),
        ({"invalid": [0]}, 2, [], []),
        ({"levels": [1, 0]}, 2, [], []),
    ],
)
def test_what_an_answer_compares(answer, size, decided, tied) -> None:
    assert preferred(answer, size) == (decided, tied)


@pytest.mark.slow
def test_options_of_withdrawn_questions_have_no_row(result) -> None:
    assert {*by_option(result.options).index} == {*OPTIONS}


@pytest.mark.slow
def test_questions_and_answers_are_counted(result) -> None:
    value = result.summary["value"]
    assert value["questions"] == 7
    assert value["answers"] == 5
    assert value["pending"] == 1
    assert value["withdrawn"] == 1
    assert value["that say winner"] == 3
    assert value["that say tie"] == 1
    assert value["that say cannot_compare"] == 1


@pytest.mark.slow
def test_repeated_questions_are_compared(result) -> None:
    # Of three answers about A and B, one of the three pairs of answers agrees.
    assert result.summary["value"]["pairs asked about again"] == 1
    assert result.summary["value"]["answered alike"] == pytest.approx(1 / 3)


def test_options_are_joined_by_answers(judged, result) -> None:
    part = by_option(result.options)["part"]
    assert part[A] == part[B] != part[C] == part[D]
    assert part[E] not in (part[A], part[C])
    assert result.summary["value"]["parts of the comparison graph"] == 3
    # The second option of the fifth question.
    assert result.summary["value"]["options that stand alone"] == "5 B"


def test_an_option_has_one_name_for_people(judged, result) -> None:
    labels = {A: "1 A", B: "1 B", C: "4 A", D: "4 B", E: "5 B"}
    designs = result.options[["a", "b"]].itertuples(index=False, name=None)
    assert dict(zip(designs, result.options.index, strict=True)) == labels
    arms = judged.experiment.arms_by_name
    titles = {tuple(arms[n].parameters.values()): t for n, t in judged.titles.items()}
    assert titles == {**labels, (0.7, 0.7): "6 B"}
    best = judged.recommend()
    text = f"{labels[best['a'], best['b']]}: a = {best['a']:g}, b = {best['b']:g}"
    assert result.summary["value"]["recommended of those shown"] == text
    assert [option_title(9, place) for place in (0, 25, 26)] == [
        "10 A",
        "10 Z",
        "10 27",
    ]


def test_wins_and_losses_are_counted(result) -> None:
    counts = by_option(result.options)[["wins", "losses", "ties", "failed"]]
    assert counts.loc[[A, B, C, D, E]].to_numpy().tolist() == [
        [2, 1, 0, 0],
        [1, 2, 0, 0],
        [0, 0, 1, 0],
        [0, 0, 1, 0],
        [0, 0, 0, 0],
    ]


@pytest.mark.slow
def test_utilities_are_averages_with_intervals_of_the_mixture(judged, result) -> None:
    adapter = judged.fitted_adapter()
    points = adapter.points_of([{"a": a, "b": b} for a, b in OPTIONS])
    means, variances = averaged_components(adapter.botorch_model, points)
    rows = by_option(result.options).loc[list(OPTIONS)]
    assert rows["mean"].to_numpy() == pytest.approx(means.mean(0).numpy())
    for end, level in (("lower", 0.025), ("upper", 0.975)):
        z = (torch.tensor(rows[end].to_numpy()) - means) / variances.sqrt()
        below = torch.special.ndtr(z).mean(0)
        assert below.numpy() == pytest.approx(level, abs=1e-6), f"{end} ends"
    assert result.options["mean"].is_monotonic_decreasing


@pytest.mark.slow
def test_the_best_design_anywhere_is_that_of_the_average(tmp_path, monkeypatch) -> None:
    """None around it is better, as some are around the best of the fitted model."""
    averages = []

    def averaged(model):
        averages.append(averaged_utility(model))
        return averages[-1]

    monkeypatch.setattr(adapter_module, "averaged_utility", averaged)
    weights = {"a": 8, "b": 4, "c": 1, "d": 0.2}
    experiment = PreferenceExperiment.create(
        "four",
        parameters=[real(name, 0, 1) for name in weights],
        storage=tmp_path / "four.db",
        initial=100,
        seed=4,
    )
    for _ in range(8):
        question = experiment.ask(size=4)
        losses = [
            sum(weights[name] * (x - 0.4) ** 2 for name, x in option.items())
            for option in question.options
        ]
        experiment.tell(question, best=losses.index(min(losses)))
    adapter = experiment.fitted_adapter()
    best = adapter.points_of([best_anywhere(experiment.log, adapter)])
    steps = torch.quasirandom.SobolEngine(4).draw(512, dtype=torch.float64) - 0.5
    points = torch.cat([best, (best + 0.3 * steps).clamp(0, 1)])
    assert len(averages) == 1, "the shown and the unseen are compared by one average"
    means, _ = averaged_moments(adapter.botorch_model, points)
    assert float(means[1:].max() - means[0]) < 1e-3


@pytest.mark.slow
def test_designs_are_predicted_by_the_average(judged) -> None:
    designs = [{"a": a, "b": b} for a, b in ((0.3, 0.3), A, (0.0, 2.0))]
    result = judged.predict(designs)
    adapter = judged.fitted_adapter()
    points = adapter.points_of(designs)
    mean, deviation = averaged_moments(adapter.botorch_model, points)
    assert result["mean"].to_numpy() == pytest.approx(mean.numpy())
    assert result["deviation"].to_numpy() == pytest.approx(deviation.numpy())
    assert judged.predict([]).empty
    for wrong, match in (
        ([{"a": 0.3}], "has no b"),
        ([{"a": 2.0, "b": 2.0}], "a . b <= 2 should hold"),
        ({"a": 0.3, "b": 0.3}, "a list of designs"),
    ):
        with pytest.raises(ExperimentError, match=match):
            judged.predict(wrong)
    with pytest.raises(ExperimentError, match="are pooled"):
        judged.predict(designs, rater="ann")


def test_designs_that_were_judged_are_predicted_once(judged, monkeypatch) -> None:
    """The best of them is named in six places, and tables have their moments."""
    asked, moments = [], AveragedUtility.moments

    def counted(model, X):
        asked.append(X)
        return moments(model, X)

    monkeypatch.setattr(AveragedUtility, "moments", counted)
    points = judged.fitted_adapter().datapoints
    judged.report()
    times = sum(X.shape == points.shape and torch.equal(X, points) for X in asked)
    # Differences to the best ask for the others and then for it: here, the same points.
    assert times == 2, "tables and recommendations share one prediction"


@pytest.mark.slow
def test_effects_are_differences_of_the_joint_posterior(judged, result) -> None:
    adapter, effects = judged.fitted_adapter(), result.effects
    best = best_shown(adapter)
    designs = [{**best, row.parameter: row.value} for row in effects.itertuples()]
    assert all(design["a"] + design["b"] <= 2 for design in designs)
    for name, value in best.items():
        effect = effects[(effects.parameter == name) & (effects.value == value)]
        assert effect[["change", "lower", "upper"]].to_numpy().tolist() == [[0, 0, 0]]
        assert len(effects[effects.parameter == name]) > 3
    points = adapter.points_of([best, *designs])
    draws = averaged_draws(adapter.botorch_model, points, 40_000)
    # In shares of the range that the summary has.
    drawn = (draws[:, 1:] - draws[:, :1]) / result.summary["value"]["expected range"]
    change = torch.tensor(effects["change"].to_numpy())
    assert ((drawn.mean(0) - change).abs() <= 4 * drawn.std(0) / 200 + 1e-6).all()
    lower, upper = (torch.tensor(effects[end].to_numpy()) for end in ("lower", "upper"))
    for name in best:
        of_parameter = torch.tensor((effects.parameter == name).to_numpy())
        curves = drawn[:, of_parameter]
        # Rounding moves draws of the change at the design's own value, which is 0.
        above, below = curves > lower[of_parameter] - 1e-6, curves < upper[of_parameter]
        inside = above & (below | (upper[of_parameter] == 0))
        within = float(inside.all(-1).double().mean())
        # Four errors of a share of draws, of which the band has 1,024 of each member.
        assert abs(within - 0.95) < 4 * (0.95 * 0.05 / 1024) ** 0.5, (name, within)
    # The sum is at most 2, and so no value is tried up to its own bound of 2.
    ends = effects.groupby("parameter")[["value", "limited"]].last()
    assert (ends["value"] < 2).all()
    assert ends["limited"].all(), "a constraint ends the values, and nothing says so"
    assert effects["limited"].sum() == 2, "what no constraint ends is called so"
    # Five answers say nothing of either.
    assert str(result).count("not known from these answers") == 2


@pytest.mark.slow
def test_differences_are_shares_of_the_range(judged, result) -> None:
    """Of the expected range of the utilities of options judged, from joint draws."""
    adapter = judged.fitted_adapter()
    draws = averaged_draws(adapter.botorch_model, adapter.datapoints, 40_000)
    extent = draws.amax(-1) - draws.amin(-1)
    # The report has 128 draws, and a member of the average has as many as each other.
    error = float(extent.std()) / 128**0.5
    unit = result.summary["value"]["expected range"]
    assert abs(unit - float(extent.mean())) < 4 * error
    means = result.options["mean"]
    shares = (means - means.loc[result.reference]) / unit
    assert result.options["difference"].to_numpy() == pytest.approx(shares.to_numpy())
    worst = result.options.iloc[-1]
    assert f"{worst.difference:.2f} ({worst.least:.2f} to {worst.most:.2f})" in (
        result.to_markdown()
    )


@pytest.mark.slow
def test_the_best_is_sought_among_what_was_judged(judged, result) -> None:
    best = by_option(result.options)["best"]
    assert math.isnan(best[E])
    adapter = judged.fitted_adapter()
    num = 100_000
    wins = averaged_draws(adapter.botorch_model, adapter.datapoints, num).argmax(-1)
    shares = torch.bincount(wins, minlength=4) / num
    for arm, share in zip(adapter.arms, shares.tolist(), strict=True):
        error = (share * (1 - share) * (1 / num + 1 / 4096)) ** 0.5
        assert abs(best[tuple(arm.parameters.values())] - share) < 4 * error


def test_parameters_are_called_otherwise_than_what_the_report_adds(tmp_path) -> None:
    """A parameter "wins" once ended in an error of pandas, and one "mean" was lost."""
    names = ["wins", "mean", "mean_parameter", "part", "name"]
    experiment = PreferenceExperiment.create(
        "report", parameters=[*map(real, names)], storage=tmp_path / "report.db"
    )
    first, second = (dict.fromkeys(names, x) for x in (0.25, 0.75))
    experiment.record([first, second], winner=1)
    options = experiment.report().options
    assert options["wins"].to_dict() == {"1 A": 0, "1 B": 1}
    assert options["part"].to_dict() == {"1 A": 0, "1 B": 0}
    assert options["mean"]["1 B"] > 0 > options["mean"]["1 A"]
    for column in (
        *("wins_parameter", "mean_parameter_parameter", "mean_parameter"),
        *("part_parameter", "name_parameter"),
    ):
        assert options[column].to_dict() == {"1 A": 0.25, "1 B": 0.75}


@pytest.mark.slow
def test_options_that_differ_by_one_value_are_no_copies(tmp_path) -> None:
    """Their distance is that of the smallest difference, but for rounding."""
    experiment = PreferenceExperiment.create(
        "beans",
        parameters=[
            *(real("dose"), choice("bean", ["a", "b", "c"], is_ordered=False)),
            *(choice("cup", [1, 3, 4, 9], is_ordered=True), whole("shots", 1, 7)),
        ],
        storage=tmp_path / "beans.db",
    )
    base = {"dose": 0.5, "bean": "a", "cup": 1, "shots": 2}
    changes = [{"bean": "b"}, {"bean": "c"}, {"cup": 3}]
    changes += [{"shots": n} for n in (1, 3, 4, 5, 6, 7)]
    for change in changes:
        experiment.record([base, base | change], winner=0)
    options = experiment.report().options
    assert "copy_of" not in options
    assert options["losses"].sum() == len(changes) == len(options) - 1


@pytest.mark.slow
def test_near_copies_have_one_entry(tmp_path) -> None:
    experiment = triangle(tmp_path / "triangle.db", smallest_difference=0.02)
    near, nearer = (A[0] + 0.02, A[1]), (A[0] + 0.01, A[1])
    for better, worse in ((A, B), (near, B), (B, C), (nearer, C)):
        tell(experiment, [better, worse], winner=0)
    options = experiment.report().options
    table = by_option(options)
    copies = table.loc[[A, near, nearer]]
    (place,) = copies.index[copies["best"].notna()]
    assert table.loc[place, "mean"] == copies["mean"].max()
    name = options.index[(options[["a", "b"]] == place).all(axis=1)][0]
    assert sorted(copies["copy_of"]) == ["", name, name]
    assert table["copy_of"][[B, C]].tolist() == ["", ""]
    assert table["best"].sum() == pytest.approx(1)
    adapter = experiment.fitted_adapter()
    alone = best_probability(adapter.utility, adapter.datapoints)
    designs = [tuple(arm.parameters.values()) for arm in adapter.arms]
    shares = sum(float(alone[designs.index(p)]) for p in (A, near, nearer))
    assert table["best"][place] == pytest.approx(shares)


@pytest.mark.slow
def test_answers_about_near_copies_join_options(tmp_path) -> None:
    """What one row stands for is one option in the graph of comparisons."""
    experiment = triangle(tmp_path / "triangle.db", smallest_difference=0.02)
    near, corner = (E[0] + 0.01, E[1]), (0.5, 0.0)
    for better, worse in ((A, B), (C, E), (near, corner)):
        tell(experiment, [better, worse], winner=0)
    part = by_option(short_report(experiment).options)["part"]
    assert part[C] == part[corner], "the row of E and its copy joins no options"
    assert part[C] != part[A], "no answer joins these two"


@pytest.mark.slow
def test_what_is_left_is_sought_all_over_the_space(judged, result) -> None:
    adapter = judged.fitted_adapter()
    anywhere = judged.recommend(anywhere=True)
    candidates = candidate_points(judged._stored.projection, adapter, anywhere)
    # The space is the unit square to the model, and the triangle its lower half.
    assert (candidates.sum(-1) <= 1 + 1e-12).all()
    cells = torch.unique((candidates * 8).floor(), dim=0)
    assert len(cells[cells.sum(-1) < 7]) == 28
    for datapoint in adapter.datapoints:
        assert (candidates == datapoint).all(-1).any()
    best = judged.recommend()
    point = torch.tensor([[best["a"], best["b"]]], dtype=torch.double) / 2
    # Of 256 points around it a third has deviations of 0.03 and a third of 0.01: the
    # larger coordinate of either is below 0.05 for 82 and 100 %, and some of them are
    # beyond the sides of the triangle.
    assert ((candidates - point).abs().amax(-1) < 0.05).sum() > 60
    model = adapter.botorch_model
    values = averaged_draws(model, torch.cat([point, candidates]), 4096)
    gains = values.amax(-1) - values[:, 0]
    value, error = result.summary["value"], float(gains.std()) / 64
    assert value["explanations of the answers"] == NUM_MODELS
    assert value["searched for the best"] == f"{len(candidates)} designs"
    gain = value["expected remaining gain"]
    assert abs(gain - float(gains.mean())) < 4 * 2**0.5 * error
    assert value["its standard error"] == pytest.approx(error, rel=0.2)
    chances = noticed(model, gains)
    error = float(chances.std()) / 64
    assert abs(value["chance of regret"] - float(chances.mean())) < 6 * error
    low = float((chances < 0.6).double().mean())
    assert abs(value["its probability to be low"] - low) < 6 * 0.5 / 64
    # The last candidates are the options that were judged.
    judged_values = values[:, -len(adapter.datapoints) :]
    extents = judged_values.amax(-1) - judged_values.amin(-1)
    share = float(gains.mean() / extents.mean())
    assert value["gain as a share of the range"] == pytest.approx(share, rel=0.05)
    small = float((gains < 0.1 * extents).double().mean())
    assert abs(value["probability of a small gain"] - small) < 6 * 0.5 / 64
    sure = max(value["its probability to be low"], value["probability of a small gain"])
    assert value["stop"] is (sure >= 0.75)
    assert result.summary["meaning"]["stop"]


@pytest.mark.slow
def test_recommendations_are_in_words(judged, result) -> None:
    best = judged.recommend(anywhere=True)
    text = result.summary["value"]["recommended of all"]
    values = dict(part.split(" = ") for part in text.split(", "))
    assert {name: float(value) for name, value in values.items()} == pytest.approx(best)
    assert result.summary["value"]["recommended of those shown"] != text


def test_what_the_search_finds_is_recommended_only_if_it_is_better(
    judged, monkeypatch
) -> None:
    """Rounding can make it worse."""
    adapter = judged.fitted_adapter()
    means, _ = adapter.generator.predict(adapter.datapoints)
    worst = adapter.arms[int(means.argmin())]
    result = GeneratorRun([worst.clone(clear_name=True)])
    monkeypatch.setattr(adapter, "gen", lambda *_, **__: result)
    assert best_anywhere(judged.log, adapter) == best_shown(adapter)
    assert best_shown(adapter) != worst.parameters


def test_recommendations_have_parameters_in_their_order(tmp_path) -> None:
    bean = choice("bean", ["a", "b", "c"], is_ordered=False)
    experiment = PreferenceExperiment.create(
        "order",
        parameters=[bean, real("grams", 0, 1)],
        storage=tmp_path / "order.db",
    )
    better, worse = {"bean": "a", "grams": 0.3}, {"bean": "b", "grams": 0.8}
    experiment.record([better, worse], winner=0)
    anywhere = experiment.recommend(anywhere=True)
    assert anywhere != better
    assert [*anywhere] == [*experiment.recommend()] == ["bean", "grams"]


@pytest.mark.slow
@pytest.mark.parametrize("best", ["1234.5", "1234.5678", "1000.0102"])
def test_what_is_recommended_can_be_set_by_the_report(best, tmp_path) -> None:
    experiment = PreferenceExperiment.create(
        "grams",
        parameters=[real("grams", 1000, 2000)],
        storage=tmp_path / "grams.db",
    )
    experiment.record([{"grams": float(best)}, {"grams": 1800}], winner=0)
    result = short_report(experiment)
    value = result.summary["value"]
    assert value["recommended of those shown"] == f"1 A: grams = {best}"
    assert "| 1800 " in str(result)
    assert "e+03" not in str(result)


def test_functions_are_followed_uphill_in_a_box(tmp_path) -> None:
    """The gain over the whole space, beside draws on a grid of all of it."""
    experiment = PreferenceExperiment.create(
        "box",
        parameters=[real("rate", 0.01, 100, scaling="log")],
        storage=tmp_path / "box.db",
    )
    for rates in ((0.1, 1.0), (1.0, 30.0), (0.1, 0.02)):
        experiment.record([{"rate": rate} for rate in rates], winner=0)
    value = experiment.report().summary["value"]
    assert value["searched for the best"] == "the whole space"
    adapter = experiment.fitted_adapter()
    grid = torch.linspace(0, 1, 201, dtype=torch.double).unsqueeze(-1)
    best = adapter.points_of([experiment.recommend()])
    share = math.log(experiment.recommend()["rate"] / 0.01) / math.log(1e4)
    assert best.item() == pytest.approx(share)
    points = torch.cat([best, adapter.datapoints, grid])
    model = adapter.botorch_model
    values = averaged_draws(model, points, 4096)
    gains = values.amax(-1) - values[:, 0]
    error = value["its standard error"]
    # Of 128 functions, and of 4,096 draws that a grid of 1/200 keeps below the maximum.
    assert error == pytest.approx(float(gains.std()) / 128**0.5, rel=0.4)
    gain, expected = value["expected remaining gain"], float(gains.mean())
    assert abs(gain - expected) < 4 * error + 0.01 * expected
    chances = noticed(model, gains)
    error = float(chances.std()) / 128**0.5
    assert abs(value["chance of regret"] - float(chances.mean())) < 4 * error + 0.01
    judged = values[:, 1 : 1 + len(adapter.datapoints)]
    extent = float((judged.amax(-1) - judged.amin(-1)).mean())
    share = value["gain as a share of the range"]
    assert share == pytest.approx(expected / extent, rel=0.5)


@pytest.mark.parametrize("constraints", [[], ["dose + shots <= 6"]])
def test_all_designs_of_a_finite_space_stand_for_it(constraints, tmp_path) -> None:
    experiment = PreferenceExperiment.create(
        "finite",
        parameters=[
            *(whole(name, 0, 5) for name in ("dose", "shots")),
            choice("bean", ["a", "b", "c"], is_ordered=False),
            choice("cup", [60]),
        ],
        parameter_constraints=constraints,
        storage=tmp_path / "finite.db",
    )
    first = {"dose": 1, "shots": 2, "bean": "a"}
    experiment.record([first, {**first, "bean": "b"}], winner=0)
    adapter = experiment.fitted_adapter()
    candidates = candidate_points(
        experiment._stored.projection, adapter, experiment.recommend()
    )
    expected = {
        (dose / 5, shots / 5, *map(float, bean))
        for dose in range(6)
        for shots in range(6)
        for bean in torch.eye(3).tolist()
        if not constraints or dose + shots <= 6
    }
    beans = sorted(c for c in adapter.parameters if c.startswith("bean"))
    order = [adapter.parameters.index(c) for c in ("dose", "shots", *beans)]
    result = [tuple(round(x, 9) for x in row) for row in candidates[:, order].tolist()]
    assert set(result) == expected
    # The recommended one and the two that were judged are there once more.
    assert len(result) == len(expected) + 3
    searched = experiment.report().summary["value"]["searched for the best"]
    assert searched == f"all {len(expected)} designs"
    assert not all_judged(adapter)


def test_a_space_of_two_designs_is_judged_by_one_duel(tmp_path) -> None:
    beans = choice("bean", ["a", "b"], is_ordered=False)
    cup = choice("cup", [60, 80, 100], is_ordered=True)
    for parameters, is_all in (([beans], True), ([beans, cup], False)):
        name = f"of {len(parameters)}"
        experiment = PreferenceExperiment.create(
            name, parameters=parameters, storage=tmp_path / f"{name}.db"
        )
        pair = [{"bean": "a", "cup": 60}, {"bean": "b", "cup": 60}]
        names = [parameter.name for parameter in parameters]
        designs = [{key: design[key] for key in names} for design in pair]
        experiment.record(designs, winner=0)
        assert all_judged(experiment.fitted_adapter()) is is_all


@pytest.mark.slow
def test_failures_and_sets_are_counted(tmp_path) -> None:
    experiment = triangle(tmp_path / "triangle.db")
    tell(experiment, [A, B, C], ranking=[2, 0, 1])
    tell(experiment, [A, B, D], best=1)
    tell(experiment, [A, E], invalid=[1])
    result = short_report(experiment)
    counts = by_option(result.options)[["wins", "losses", "ties", "failed"]]
    assert counts.loc[[A, B, C, D, E]].to_numpy().tolist() == [
        [1, 2, 0, 0],
        [2, 2, 0, 0],
        [2, 0, 0, 0],
        [0, 1, 0, 0],
        [0, 0, 0, 1],
    ]
    assert result.summary["value"]["pairs asked about again"] == 0
    assert math.isnan(result.summary["value"]["answered alike"])
    assert result.summary["value"]["options that stand alone"] == "none"


def test_a_report_says_that_the_best_option_only_failed(tmp_path) -> None:
    works = triangle(tmp_path / "works.db", fit_options=QUICK_FIT)
    tell(works, [A, B], invalid=[1])
    assert "This option failed" not in short_report(works).advice
    experiment = triangle(tmp_path / "failed.db", fit_options=QUICK_FIT)
    tell(experiment, [A, B], invalid=[0, 1])
    sentence = "This option failed once, and no answer prefers it"
    advice = short_report(experiment).advice
    assert sentence in advice
    assert "follows from what failed" in advice
    tell(experiment, [A, B], winner=0)
    tell(experiment, [A, C], winner=0)
    assert "This option failed" not in short_report(experiment).advice
    tied = triangle(tmp_path / "tied.db", fit_options=QUICK_FIT)
    tell(tied, [A, B], invalid=[0, 1])
    tell(tied, [A, B], tie=True)
    assert "This option failed" not in short_report(tied).advice


def test_a_report_says_that_nobody_saw_a_difference(tmp_path) -> None:
    experiment = triangle(tmp_path / "same.db", fit_options=QUICK_FIT)
    tell(experiment, [A, B], tie=True)
    tell(experiment, [A, C, D], tie=True)
    tell(experiment, [A, E], invalid=[1])
    assert "Nobody has seen a difference so far" in short_report(experiment).advice
    tell(experiment, [A, D], winner=0)
    assert "Nobody" not in short_report(experiment).advice


def test_only_answers_that_name_a_failure_say_invalid(tmp_path) -> None:
    experiment = triangle(tmp_path / "worked.db", fit_options=QUICK_FIT)
    tell(experiment, [A, B], winner=0, invalid=[])
    tell(experiment, [A, C], invalid=[1])
    name = experiment.experiment.name
    again = PreferenceExperiment.resume(name, storage=tmp_path / "worked.db")
    for tested in (experiment, again):
        value = short_report(tested).summary["value"]
        assert value["answers"] == 2
        assert value["that say invalid"] == 1


def test_a_chance_of_one_draw_is_printed_as_none() -> None:
    summary = DataFrame({"value": [1]}, index=["answers"])
    options = DataFrame({"mean": [0.000244], "best": [0.000244]}, index=["1 A"])
    table, _ = report.Report(summary, options).to_markdown().split("\n\n")
    _, _, row = table.splitlines()
    assert row.split() == ["|", "1", "A", "|", "0.000244", "|", "0", "|"]


def test_of_many_options_the_best_are_printed() -> None:
    summary = DataFrame({"value": [1]}, index=["answers"])
    options = DataFrame({"mean": range(480, 0, -1)}, index=map(str, range(480)))
    sentences, table, _ = report.Report(summary, options).to_markdown().split("\n\n")
    assert sentences.startswith("The best 30 of 480 options;")
    _, _, *rows = table.splitlines()
    assert [row.split()[1] for row in rows] == [str(place) for place in range(30)]


def test_what_is_said_of_options_stands_above_their_table() -> None:
    summary = DataFrame({"value": [1]}, index=["answers"])
    options = DataFrame({"mean": range(480, 0, -1)}, index=map(str, range(480)))
    effects = DataFrame({"parameter": ["dose"] * 2, "value": [0, 1], "change": 0.0})
    effects = effects.assign(lower=-1.0, upper=1.0, matters=0.5, limited=False)
    text = report.Report(summary, options, effects=effects).to_markdown()
    legend, effect, sentence, table, _ = text.split("\n\n")
    assert legend.startswith("Change of utility"), "what is said of effects is first"
    assert effect.startswith("| effect of"), "effects come before options"
    assert sentence.startswith("The best 30 of 480 options;")
    assert "mean" in table, "the sentence on options is above another table"


def test_a_report_reads_well(result) -> None:
    text = str(result)
    assert text == repr(result) == result.to_markdown() == result._repr_markdown_()
    assert "nan" not in text.replace("answers", "")
    # What to take, how sure that is, and tables.
    best, advice, *parts = text.split("\n\n")
    values = result.summary["value"]
    assert best == f"The best option shown is {values['recommended of those shown']}."
    assert advice == f"Go on. {result.advice}"
    assert f"in {100 * values['chance of regret']:.0f} of 100" in advice
    assert f"by {100 * values['gain as a share of the range']:.0f} %" in advice
    of_effects, legend, of_checks = (p for p in parts if not p.startswith("|"))
    assert of_checks == "- Without a name: 1 of 2 repeated alike."
    assert parts[:1] == [of_effects], "the legend of effects is not above them"
    assert "of a near" in of_effects, "it is not said where a + b <= 2 ends a"
    table = parts[parts.index(legend) + 1]
    assert legend.startswith(f"Beside {result.reference}: "), "the legend is another's"
    assert f"beside {result.reference}" in table, "the legend is not above its table"
    tables = [part for part in parts if part.startswith("|")]
    lines = [line for part in tables for line in part.splitlines()]
    assert max(map(len, lines)) < 120, "\n".join(lines)
    (gain,) = (line for line in lines if "expected remaining gain" in line)
    assert f"{result.summary['value']['expected remaining gain']:.3g}" in gain


def test_names_stay_one_cell_of_one_row() -> None:
    names = DataFrame({"value": ["x|y"]}, index=["a|b\nc"])
    table, _ = report.Report(names, names).to_markdown().split("\n\n")
    _, _, row = table.splitlines()
    assert row.split() == ["|", r"a\|b", "c", "|", r"x\|y", "|"]


def test_there_is_no_report_before_the_first_answer(tmp_path) -> None:
    experiment = triangle(tmp_path / "triangle.db")
    show(experiment, A, B)
    with pytest.raises(ExperimentError, match="no answer yet"):
        experiment.report()


def test_answers_that_compare_nothing_are_not_said_to_be_none(tmp_path) -> None:
    experiment = triangle(tmp_path / "triangle.db")
    tell(experiment, [A, B], cannot_compare=True)
    with pytest.raises(ExperimentError, match="no answer yet that compares options"):
        experiment.report()


def test_what_others_follow_from_has_an_effect_too(tmp_path) -> None:
    dose = RangeParameterConfig(name="dose", parameter_type="float", bounds=(1, 9))
    double = DerivedParameterConfig(
        name="double", parameter_type="float", expression_str="2 * dose"
    )
    experiment = PreferenceExperiment.create(
        "derived", parameters=[dose, double], storage=tmp_path / "derived.db"
    )
    experiment.record([{"dose": 2.0}, {"dose": 7.0}], winner=0)
    effects = short_report(experiment).effects
    assert effects is not None
    assert effects["value"].tolist()[:3] == pytest.approx([1.0, 1.8, 2.0])
    assert effects["value"].iloc[-1] == 9
    assert set(effects["parameter"]) == {"dose"}
    # The loser, 7, is worse than the design that won.
    assert effects["change"].iloc[8] < 0
