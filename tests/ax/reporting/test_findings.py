"""Tables and sentences of findings, beside what was counted by hand."""

import pandas
import pytest
import torch
from draws import uniform
from gpytorch.kernels import RBFKernel
from pandas import DataFrame
from showing import A, B, C, short_report, tell, triangle

from botorch_pref import DuelKernel, EPPreferenceGP, LapsingProbitLikelihood
from botorch_pref.ax import PreferenceExperiment, report, summary
from botorch_pref.ax.findings import (
    BASELINE_ROWS,
    NOT_KNOWN,
    advice_in_words,
    distinct_options,
    effect_caption,
    effects_legend,
    look_like_guesses,
    options_legend,
    printed_effects,
    printed_options,
    printed_raters,
    printed_summary,
    unit_of_differences,
)
from botorch_pref.ax.summary import guesses
from botorch_pref.evaluation.scores import fit_by_evidence
from botorch_pref.models import averaged_utility
from botorch_pref.models.plausible import GUESSERS
from botorch_pref.web.worker import findings_of, packed_state

OPTIONS = DataFrame(
    {
        "dose": [17.1934, 17.19, 20.0],
        "mean": [1.0, 0.9, -2.0],
        "lower": [-1.0, -1.1, -4.0],
        "upper": [3.0, 2.9, 0.0],
        "best": [0.7, float("nan"), 0.3],
        "wins": [2, 3, 0],
        "losses": [0, 1, 4],
        "ties": [1, 1, 0],
        "failed": [0, 0, 1],
        "copy_of": ["", "1 A", ""],
        "part": [0, 0, 0],
        "difference": [0.0, -0.1, -3.0],
        "least": [0.0, -0.3, -4.0],
        "most": [0.0, 0.1, -2.0],
        "better": [0.5, 0.2, 0.00012],
        "preferred": [0.5, 0.49, 0.1],
    },
    index=["1 A", "2 A", "1 B"],
)
VALUES = {
    "chance of regret": 0.6,
    "gain as a share of the range": 0.2,
    "stop": False,
}


def test_options_that_nobody_can_tell_apart_are_one_row() -> None:
    table = distinct_options(OPTIONS)
    assert table.index.to_list() == ["1 A", "1 B"]
    counts = table[["wins", "losses", "ties", "failed"]]
    assert counts.to_numpy().tolist() == [[5, 1, 2, 0], [0, 4, 0, 1]]
    alone = OPTIONS.drop(columns="copy_of")
    assert distinct_options(alone) is alone


def test_options_are_printed_beside_the_best() -> None:
    table = printed_options(OPTIONS, "1 A")
    assert table["dose"].to_list() == ["17.1934", "20"]
    beside = table[["beside 1 A", "P(better)", "preferred", "P(best)"]]
    assert beside.to_numpy().tolist() == [
        ["", 0.5, 0.5, 0.7],
        ["-3.00 (-4.00 to -2.00)", 0.0, 0.1, 0.3],
    ]
    # The level of utilities, and one part of all, say nothing.
    assert not {"mean", "lower", "upper", "part"} & {*table.columns}


def test_a_parameter_is_best_somewhere_only_if_its_band_excludes_zero() -> None:
    effects = DataFrame(
        {
            "parameter": [*"aaabbccdd"],
            "value": [1, 2, 3, "x", "y", 0.1, 1 / 3, 0, 1],
            "change": [-1.0, 0.0, 0.5, -3.0, 0.0, 0.0, 2.0, 0.0, 0.1],
            "lower": [-2.0, 0.0, 0.1, -7.0, 0.0, 0.0, 0.5, 0.0, -8.0],
            "upper": [0.5, 0.0, 0.9, 1.0, 0.0, 0.0, 3.5, 0.0, 8.0],
            "matters": [0.9] * 3 + [0.124] * 2 + [0.999] * 2 + [float("nan")] * 2,
            "limited": False,
        }
    )
    table = printed_effects(effects)
    assert table.index.to_list() == ["c", "a", "b", "d"]
    assert table.loc["c"].to_list() == ["0.333333333333", "0.1", "2.00", "3.50", "1.00"]
    assert table.loc["a"].to_list() == [3, 1, "1.50", "2.90", "0.90"]
    # It has the largest change of all, and may have none.
    assert table.loc["b"].to_list() == ["", "", NOT_KNOWN, "8.00", "0.12"]
    captions = {name: effect_caption(e) for name, e in effects.groupby("parameter")}
    assert captions["a"] == (
        "best at 3, worst at 1, difference 1.50, at most 2.90, P(matters) 0.90"
    )
    assert captions["b"] == f"{NOT_KNOWN}, at most 8.00, P(matters) 0.12"
    assert captions["d"] == f"{NOT_KNOWN}, at most 16.00"
    # It matters, though at no single value surely by how much: 0.95 as it is printed.
    for matters in (0.95, 0.9451):
        certain = effects.assign(matters=matters)
        assert printed_effects(certain).loc["b"].to_list()[:3] == ["y", "x", "3.00"]
    doubtful = printed_effects(effects.assign(matters=0.9449))
    assert doubtful.loc["b", "difference"] == NOT_KNOWN


def test_nothing_is_said_of_what_cannot_move_by_itself() -> None:
    """Of shares that sum to 1 an effect has one row, that of the best design."""
    effects = DataFrame(
        {
            "parameter": [*"abb"],
            "value": [0.3, 0.1, 0.2],
            "change": [0.0, 0.0, -1.0],
            "lower": [0.0, 0.0, -2.0],
            "upper": [0.0, 0.0, -0.5],
            "matters": [float("nan"), 0.97, 0.97],
            "limited": [True, False, False],
        }
    )
    table = printed_effects(effects)
    assert table.index.to_list() == ["b", "a"]
    assert table.loc["a"].to_list()[:3] == ["", "", "moves with others only"]
    assert table.loc["a", ["at most", "P(matters)"]].to_list() == ["", ""]
    assert effect_caption(effects.iloc[:1]) == "moves with others only"


UNIT = unit_of_differences(VALUES)


def test_the_legend_explains_the_columns_that_are_printed() -> None:
    legend = options_legend(OPTIONS, "1 A", UNIT)
    columns = ["Beside 1 A", "P(better)", "preferred", "P(best)"]
    assert all(name in legend for name in columns), f"{columns} are not all in {legend}"
    assert "1 A is option A of question 1, where it was first shown." in legend
    without_best = OPTIONS.drop(columns="best")
    assert "P(best)" not in options_legend(without_best, "1 A", UNIT), (
        "a legend explains a column that the table lacks"
    )
    rows = OPTIONS.set_axis(["w1", "w2", "w3"])
    assert "is option" not in options_legend(rows, "w1", UNIT), "an id is no title"
    alone = OPTIONS.drop(columns="difference")
    assert options_legend(alone, "1 A", UNIT) == "", (
        "a table without differences has a legend"
    )


def test_differences_of_one_option_alone_are_no_shares() -> None:
    share = "as a share of the step from the worst option judged to the best"
    assert unit_of_differences({"expected range": 0.7}) == share
    alone = unit_of_differences({"expected range": 0.0})
    assert alone.startswith("in units of utility,"), alone
    effects = DataFrame({"parameter": ["a"] * 2, "value": [0, 1], "matters": 0.5})
    effects["limited"] = False
    for legend in (
        options_legend(OPTIONS, "1 A", alone),
        effects_legend(effects, alone),
    ):
        assert "share" not in legend, "one option has no step of which to be a share"
        assert "in units of utility," in legend


def test_it_is_said_where_constraints_end_the_values_of_a_parameter() -> None:
    effects = DataFrame(
        {
            "parameter": [*"aaabbccd"],
            "value": [0.2, 0.6, 1.4, 1, 2, "x", "y", 7],
            "lower": -1.0,
            "upper": 1.0,
            "matters": float("nan"),
            "limited": [True, False, True, False, False, True, True, True],
        }
    )
    captions = {name: effect_caption(e) for name, e in effects.groupby("parameter")}
    known = f"{NOT_KNOWN}, at most 2.00"
    assert captions == {
        "a": f"{known}, constraints end it near 0.2 and 1.4",
        "b": known,
        "c": f"{known}, constraints end it before other choices",
        "d": "moves with others only",
    }
    legend = effects_legend(effects, UNIT)
    ends = "of a near 0.2 and 1.4, of c before other choices."
    assert legend.endswith(f" Constraints end the values tried {ends}"), legend
    assert "P(matters)" not in legend, "nothing is known of what matters"
    assert "P(matters)" not in printed_effects(effects.assign(change=0.0)).columns
    free = effects_legend(effects.assign(limited=False), UNIT)
    assert "Constraints" not in free, "no constraint ends a scale"


def test_a_summary_writes_shares_as_the_table_of_options_does() -> None:
    value = {"expected range": 13.4321, "gain as a share of the range": 0.04192}
    value |= dict(zip(BASELINE_ROWS, (-0.2414, -0.6778, -0.0031), strict=True))
    value |= {"stop": False, "answers": 7, "answered alike": float("nan")}
    summary = DataFrame({"value": value, "meaning": "m"}, dtype=object)
    texts = printed_summary(summary)
    assert texts["value"].to_list() == [
        *("13.4", "0.04", "-0.24", "-0.68", "-0.003", "no", "7", ""),
    ], "a value is not written as elsewhere"
    assert texts["meaning"].to_list() == ["m"] * 8
    assert summary["value"].to_dict()["answers"] == 7, "the summary itself is changed"


def test_noises_of_raters_have_their_intervals_in_brackets() -> None:
    row = {"answers": 1234, "noise": 0.9071, "lower": 0.2414, "upper": 13.41}
    raters = DataFrame([row | {"names_better": 0.771, "outlier": True}], index=["ann"])
    table = printed_raters(raters)
    assert table.loc["ann"].to_list() == [1234, "0.907 (0.241 to 13.4)", "77 %", True]


def test_captions_have_no_powers_of_ten() -> None:
    effect = DataFrame({"value": [0, 1], "lower": [-123.0, 0.0], "upper": [0.0, 0.0]})
    effect["limited"] = False
    caption = effect_caption(effect.assign(parameter="a", change=0.0, matters=0.5))
    assert caption == f"{NOT_KNOWN}, at most 123.00, P(matters) 0.50"


def test_it_is_said_which_option_is_the_best_more_probably() -> None:
    assert "of all" not in advice_in_words(VALUES, OPTIONS, "1 A")
    chances = OPTIONS.assign(best=[0.22, float("nan"), 0.31])
    advice = advice_in_words(VALUES, chances, "1 A")
    assert "1 B is the best of all with a larger probability than 1 A (0.31, 0.22)" in (
        advice
    )
    rival = chances.assign(better=[0.5, 0.2, 0.4226])
    advice = advice_in_words(VALUES, rival, "1 A")
    assert advice.endswith("lower. It is better than 1 A with a probability of 0.423.")
    # Beside a baseline the column is of the baseline.
    baseline = rival.assign(difference=[1.0, 0.9, -2.0])
    assert "It is better" not in advice_in_words(VALUES, baseline, "1 A")
    equals = OPTIONS.assign(best=[0.22, float("nan"), 0.25])
    assert "of all" not in advice_in_words(VALUES, equals, "1 A")


def test_half_of_the_answers_without_a_difference_count() -> None:
    ties = {**VALUES, "that say tie": 3, "that say winner": 1}
    sentence = "as good as equal, and half of those without a difference count."
    assert sentence in advice_in_words(ties, OPTIONS, "1 A")
    assert sentence not in advice_in_words(VALUES, OPTIONS, "1 A")


def test_a_peak_can_hide_only_where_designs_were_not_judged() -> None:
    stop = {**VALUES, "stop": True}
    assert "narrow peak" in advice_in_words(stop, OPTIONS, "1 A")
    assert "narrow peak" not in advice_in_words(stop, OPTIONS, "1 A", all_judged=True)
    assert "narrow peak" not in advice_in_words(VALUES, OPTIONS, "1 A")


def test_a_failure_is_no_news_where_a_copy_was_preferred() -> None:
    counts = {"wins": [0, 3, 0], "ties": [0, 0, 0], "failed": [1, 0, 0]}
    options = OPTIONS.assign(**counts)
    assert "failed" not in advice_in_words(VALUES, options, "1 A")
    apart = options.drop(columns="copy_of")
    assert "This option failed once" in advice_in_words(VALUES, apart, "1 A")


def test_it_is_said_where_answers_only_say_what_failed() -> None:
    failed = {**VALUES, "that say invalid": 2}
    sentence = "No answer says so far which of two options is better"
    assert sentence in advice_in_words(failed, OPTIONS, "1 A")
    for kind in ("winner", "tie", "ratings"):
        more = {**failed, f"that say {kind}": 1}
        assert sentence not in advice_in_words(more, OPTIONS, "1 A")
    assert sentence not in advice_in_words(VALUES, OPTIONS, "1 A")


def test_what_rounding_leaves_of_no_difference_is_printed_as_none() -> None:
    options = OPTIONS.assign(difference=[0.0, -0.1, -2.3e-18], most=[0.0, 0.1, 4.0])
    table = printed_options(options, "1 A")
    assert table.loc["1 B", "beside 1 A"] == "0.00 (-4.00 to 4.00)"


def test_of_ties_and_failures_not_any_option_will_do() -> None:
    tied = {**VALUES, "that say tie": 2}
    advice = advice_in_words(tied, OPTIONS, "1 A")
    assert advice.startswith("Nobody has seen a difference so far"), advice
    assert advice.endswith("or take any."), f"more is said of ties alone: {advice}"
    assert look_like_guesses(tied), "ties alone are no reason to stop"
    assert not look_like_guesses({**tied, "that say winner": 1})
    failed = advice_in_words({**tied, "that say invalid": 1}, OPTIONS, "1 A")
    assert "or take any that did not fail." in failed


def test_guesses_are_called_guesses_where_a_coin_is_probable_and_nothing_else() -> None:
    usual = advice_in_words(VALUES, OPTIONS, "1 A")
    assert advice_in_words({**VALUES, "guessed": 0.5}, OPTIONS, "1 A") == usual
    said = advice_in_words({**VALUES, "guessed": 0.914}, OPTIONS, "1 A")
    assert said == (
        "The answers look like guesses: the probability that a coin gave them all is "
        "0.91, where before them it was 0.10. Ask about options that differ more, or "
        "whether the person sees a difference."
    )
    # A coin calls nothing equal, and so gave no tie.
    ties = {**VALUES, "guessed": 0.99, "that say tie": 6}
    said = advice_in_words(ties, OPTIONS, "1 A")
    assert said.startswith("Nobody has seen a difference so far"), said
    assert "coin" not in said


@pytest.mark.parametrize(("probability", "stop"), [(0.5, True), (0.51, False)])
def test_nobody_is_told_to_stop_for_guesses(
    probability: float, stop: bool, tmp_path, monkeypatch
) -> None:
    experiment = triangle(tmp_path / "triangle.db", initial=1)
    tell(experiment, [A, B], winner=0)
    usual = report.progress_rows
    monkeypatch.setattr(
        report, "progress_rows", lambda *among: {**usual(*among), "stop": True}
    )
    monkeypatch.setattr(summary, "guesses", lambda model: {"guessed": probability})
    found = short_report(experiment)
    assert found.summary["value"]["stop"] is stop
    assert ("Stop. " in str(found)) is stop
    assert found.advice.startswith("The answers look like guesses") is not stop


def test_the_answers_of_a_coin_are_guesses_and_those_of_a_person_are_not() -> None:
    X = uniform(48, 2, seed=2)
    pairs = torch.arange(48).reshape(24, 2)
    by_first = pairs.gather(-1, X[:, 0][pairs].argsort(-1, descending=True))
    law = LapsingProbitLikelihood.default_for

    def guessed(duels: torch.Tensor) -> dict[str, float]:
        kernel = DuelKernel(2)
        model = EPPreferenceGP(X, duels, covar_module=kernel, likelihood=law(None))
        fit_by_evidence(model)
        return guesses(averaged_utility(model)[0])

    # A coin explains them better.
    assert guessed(pairs).get("guessed", 0.0) > GUESSERS
    assert guessed(by_first) == {}
    # A fixed noise beside a fixed output scale does not tell.
    kernel = RBFKernel().double()
    assert (
        guesses(averaged_utility(EPPreferenceGP(X, pairs, covar_module=kernel))[0])
        == {}
    )


def test_it_is_said_who_parts_from_the_others() -> None:
    columns = {"favourite": ["1 A", "1 B"], "better": [0.5, 0.96]}
    favourites = DataFrame(columns, index=["ann", "bob"])
    advice = advice_in_words(VALUES, OPTIONS, "1 A", favourites)
    assert "bob parts from the others: for bob 1 B is better than 1 A, with a" in advice
    assert "ann" not in advice
    assert "with a probability of 0.96." in advice
    sure = favourites.assign(better=[0.5, 1.0])
    advice = advice_in_words(VALUES, OPTIONS, "1 A", sure)
    assert "with a probability of more than 0.999." in advice
    unsure = favourites.assign(better=[0.5, 0.94])
    assert "parts" not in advice_in_words(VALUES, OPTIONS, "1 A", unsure)


def test_it_is_said_of_one_utility_that_raters_disagree() -> None:
    pairs = [("ann", "bob"), ("ann", "cem"), ("bob", "cem")]
    columns = {
        "agreement": [-0.5, 0.9, -0.75],
        "lower": [-0.8, 0.7, -1.0],
        "upper": [-0.1, 1.0, -0.4],
    }
    agreement = DataFrame(columns, index=pandas.MultiIndex.from_tuples(pairs))
    sentence = (
        "Raters disagree: bob and cem (-0.75), ann and bob (-0.50). All answers count "
        'as one person\'s here; an experiment with raters="share" has a utility for '
        "each."
    )
    advice = advice_in_words(VALUES, OPTIONS, "1 A", agreement=agreement)
    assert advice.endswith(sentence)
    # Two who like opposite things look like one who guesses.
    guessed = {**VALUES, "guessed": 0.9}
    advice = advice_in_words(guessed, OPTIONS, "1 A", agreement=agreement)
    assert advice.endswith(f"sees a difference. {sentence}")
    unsure = agreement.assign(upper=0.1)
    advice = advice_in_words(VALUES, OPTIONS, "1 A", agreement=unsure)
    assert "disagree" not in advice
    # Where raters share, each has a favourite.
    favourites = DataFrame({"favourite": [], "better": []})
    advice = advice_in_words(VALUES, OPTIONS, "1 A", favourites, agreement)
    assert "disagree" not in advice


def test_of_many_pairs_who_disagree_the_first_are_named() -> None:
    pairs = [("ann", f"r{i}") for i in range(5)]
    columns = {"agreement": -0.5, "upper": -0.1}
    agreement = DataFrame(columns, index=pandas.MultiIndex.from_tuples(pairs))
    advice = advice_in_words(VALUES, OPTIONS, "1 A", agreement=agreement)
    assert "ann and r2 (-0.50) and 2 pairs more." in advice


@pytest.mark.slow
def test_two_who_like_opposite_things_are_named(tmp_path) -> None:
    experiment = triangle(tmp_path / "triangle.db", initial=1)
    for _ in range(4):
        for better, worse in ((A, B), (B, C), (A, C)):
            for rater, pair in (("ann", (better, worse)), ("bob", (worse, better))):
                designs = [{"a": a, "b": b} for a, b in pair]
                experiment.record(designs, winner=0, rater=rater)
    assert "Raters disagree: ann and bob (-" in short_report(experiment).advice


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> PreferenceExperiment:
    """Ann prefers a small `a` in all answers, and Bob a large one."""
    folder = tmp_path_factory.mktemp("shared")
    experiment = triangle(folder / "triangle.db", raters="share", initial=1)
    for _ in range(3):
        for rater, better, worse in (("ann", A, B), ("bob", B, A), ("bob", B, C)):
            designs = [{"a": a, "b": b} for a, b in (better, worse)]
            experiment.record(designs, winner=0, rater=rater)
    return experiment


@pytest.mark.slow
def test_raters_who_share_have_a_favourite_each(shared: PreferenceExperiment) -> None:
    favourites = short_report(shared).favourites
    assert favourites is not None
    best = shared.recommend()
    for rater, row in favourites.iterrows():
        arms = {title: name for name, title in shared.titles.items()}
        favourite = shared.experiment.arms_by_name[arms[row.favourite]].parameters
        assert favourite == shared.recommend(rater=rater)
        model = shared.fitted_adapter(rater=rater).botorch_model
        points = shared.fitted_adapter().points_of([favourite, best])
        if favourite == best:
            assert row.better == pytest.approx(0.5)
            continue
        posterior = model.posterior(points)
        mean = posterior.mean[0, 0] - posterior.mean[1, 0]
        contrast = torch.tensor([1.0, -1.0], dtype=torch.double)
        variance = contrast @ posterior.covariance_matrix @ contrast
        expected = torch.special.ndtr(mean / variance.sqrt())
        assert row.better == pytest.approx(expected.item(), abs=1e-4)


@pytest.mark.slow
def test_the_page_has_one_row_of_near_copies(tmp_path) -> None:
    experiment = triangle(tmp_path / "triangle.db", smallest_difference=0.02)
    near = (A[0] + 0.01, A[1])
    for better, worse in ((A, B), (near, B), (A, near)):
        tell(experiment, [better, worse], winner=0)
    findings = findings_of(packed_state(experiment))
    names = [option["name"] for option in findings["options"]]
    assert len(names) == 2
    assert "1 B" in names
    (name,) = {*names} - {"1 B"}
    assert findings["asked"][1]["options"] == [name, "1 B"]
    # The duel of the copies is none.
    assert findings["duels"] == [{"better": name, "worse": "1 B", "times": 2}]
    assert findings["reference"] == name
