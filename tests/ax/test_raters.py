"""Raters who share: each with a utility, from one model of all answers."""

from dataclasses import replace

import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from espresso import QUICK_FIT
from gpytorch.kernels import ProductKernel
from pandas.testing import assert_frame_equal
from showing import A, B, C, D, short_report, triangle

from botorch_pref import (
    DuelKernel,
    EPPreferenceGP,
    LapsingProbitLikelihood,
    PreferenceMarginalLogLikelihood,
)
from botorch_pref.acquisition import incumbent
from botorch_pref.ax import PreferenceExperiment
from botorch_pref.ax.generation.question_choice import next_options
from botorch_pref.ax.naming import duel_classes
from botorch_pref.ax.report import Report
from botorch_pref.errors import ExperimentError
from botorch_pref.evaluation import rater_agreement, rater_reliability
from botorch_pref.models import GroupUtility, rater_covar_module

DESIGNS = (A, B, C, D)
# Ann likes a small `a`, Bob a large one.
ANSWERS = [("ann", A, B), ("bob", B, A), ("ann", C, B), ("bob", B, C), ("bob", D, A)]


def options(*points: tuple[float, float]) -> list[dict[str, float]]:
    return [{"a": a, "b": b} for a, b in points]


def answered(path, **settings) -> PreferenceExperiment:
    experiment = triangle(path, raters="share", initial=1, **settings)
    for rater, better, worse in ANSWERS:
        experiment.record(options(better, worse), winner=0, rater=rater)
    return experiment


@pytest.fixture(scope="module")
def judged(tmp_path_factory) -> PreferenceExperiment:
    return answered(tmp_path_factory.mktemp("judged") / "triangle.db")


@pytest.mark.slow
def test_the_model_is_that_of_stimuli_and_raters(judged) -> None:
    model = judged.fitted_adapter().botorch_model
    assert isinstance(model, GroupUtility)
    # The space is the unit square to the model.
    rows = {(p, r) for rater, *pair in ANSWERS for p in pair for r in [rater]}
    ordered = sorted(rows)
    numbers = {"ann": 0.0, "bob": 1.0}
    X = torch.tensor(
        [[a / 2, b / 2, numbers[r]] for (a, b), r in ordered], dtype=torch.double
    )
    place = {row: i for i, row in enumerate(ordered)}
    pairs = [[place[w, r], place[v, r]] for r, w, v in ANSWERS]
    kernel = rater_covar_module(2, stimulus=DuelKernel(2)).double()
    kernel.load_state_dict(model.rater_model.covar_module.state_dict())
    law = LapsingProbitLikelihood.default_for(None)
    law.load_state_dict(model.rater_model.likelihood.state_dict())
    truth = EPPreferenceGP(
        X, torch.tensor(pairs), covar_module=kernel, likelihood=law
    ).eval()
    stimuli = torch.tensor(DESIGNS, dtype=torch.double) / 2
    for rater, number in numbers.items():
        rater_model = judged.fitted_adapter(rater=rater).botorch_model
        rater_points = torch.cat([stimuli, torch.full((4, 1), number).double()], dim=-1)
        for posterior, expected in (
            (rater_model.posterior(stimuli), truth.posterior(rater_points)),
        ):
            torch.testing.assert_close(posterior.mean, expected.mean, atol=1e-5, rtol=0)
            torch.testing.assert_close(
                posterior.variance, expected.variance, atol=1e-5, rtol=0
            )
    means = [
        judged.fitted_adapter(rater=rater).botorch_model.posterior(stimuli).mean
        for rater in numbers
    ]
    torch.testing.assert_close(model.posterior(stimuli).mean, sum(means) / 2)


@pytest.mark.slow
def test_each_rater_has_a_recommendation_of_one_s_own(judged) -> None:
    assert judged.raters == ["ann", "bob"]
    ann, bob = judged.recommend(rater="ann"), judged.recommend(rater="bob")
    assert ann["a"] < bob["a"]
    assert judged.recommend() in options(*DESIGNS)
    with pytest.raises(ExperimentError, match=r"no answers of 'cem'.*'ann', 'bob'"):
        judged.recommend(rater="cem")


def test_an_arm_that_two_judged_is_one_datapoint(judged) -> None:
    adapter = judged.fitted_adapter()
    assert len(adapter.datapoints) == len(adapter.arms) == 4
    assert len(adapter.dataset.X) == 7
    pairs = adapter.feedback[0].pairs
    means = [
        [tuple(adapter.arms[i].parameters.values()) for i in pair]
        for pair in pairs.tolist()
    ]
    assert means == [[better, worse] for _, better, worse in ANSWERS]


@pytest.fixture(scope="module")
def report(judged) -> Report:
    return short_report(judged)


@pytest.mark.slow
def test_the_report_is_of_all_raters(report) -> None:
    value = report.summary["value"]
    assert value["raters"] == 2
    assert 0 < value["agreement of raters"] < 1
    # Ann and Bob were both asked about A and B, each of them once.
    assert value["pairs asked about again"] == 0
    wins = report.options.set_index(["a", "b"])["wins"]
    assert wins.loc[[A, B, C, D]].tolist() == [1, 2, 1, 1]


@pytest.mark.slow
def test_the_report_has_tables_of_raters_where_answers_are_pooled_too(
    report, tmp_path
) -> None:
    pooled = triangle(tmp_path / "pooled.db", initial=1)
    pooled.record(options(A, C), winner=0)
    for rater, better, worse in ANSWERS:
        pooled.record(options(better, worse), winner=0, rater=rater)
    rows = sorted({(p, r) for rater, *pair in ANSWERS for p in pair for r in [rater]})
    numbers = {"ann": 0.0, "bob": 1.0}
    X = torch.tensor(
        [[a / 2, b / 2, numbers[r]] for (a, b), r in rows], dtype=torch.double
    )
    place = {row: i for i, row in enumerate(rows)}
    pairs = torch.tensor([[place[w, r], place[v, r]] for r, w, v in ANSWERS])
    parts = rater_covar_module(2, noisy_raters=torch.arange(2)).kernels
    stimulus = DuelKernel(2)
    stimulus.active_dims = torch.arange(2)
    kernel = ProductKernel(stimulus, *parts[1:])
    truth = EPPreferenceGP(X, pairs, covar_module=kernel)
    fit_gpytorch_mll(PreferenceMarginalLogLikelihood(truth.likelihood, truth))
    expected = rater_reliability(truth, ["ann", "bob"])
    stimuli = torch.tensor(sorted(DESIGNS), dtype=torch.double) / 2
    agreement = rater_agreement(truth, stimuli, torch.arange(2), ["ann", "bob"])
    for tested in (report, short_report(pooled)):
        # Fits end within a hundredth of the same optimum, wherever rows stand.
        assert_frame_equal(tested.raters.loc[["ann", "bob"]], expected, rtol=0.02)
        assert_frame_equal(tested.agreement, agreement, atol=0.02, rtol=0)
        assert "| right " in str(tested)
        assert "bob" in str(tested)
    alone = triangle(tmp_path / "alone.db", initial=1)
    alone.record(options(A, C), winner=0, rater="ann")
    alone.record(options(B, C), winner=0)
    tested = short_report(alone)
    assert tested.raters is tested.agreement is None


def test_one_rater_alone_agrees_with_nobody(tmp_path) -> None:
    experiment = triangle(tmp_path / "one.db", initial=1, raters="share")
    experiment.record(options(A, B), winner=0, rater="ann")
    assert "agreement of raters" not in short_report(experiment).summary.index


def test_the_report_says_which_raters_look_alike(tmp_path) -> None:
    experiment = triangle(tmp_path / "triangle.db", initial=1)
    for rater, better, worse in (("Ann", A, B), ("ann", B, C), ("bob", A, C)):
        experiment.record(options(better, worse), winner=0, rater=rater)
    summary = short_report(experiment).summary
    assert summary.loc["raters who look alike", "value"] == "'Ann' and 'ann'"
    experiment = triangle(tmp_path / "two.db", initial=1)
    for rater, better, worse in (("Ann", A, B), ("bob", A, C)):
        experiment.record(options(better, worse), winner=0, rater=rater)
    assert "raters who look alike" not in short_report(experiment).summary.index


@pytest.mark.slow
@pytest.mark.parametrize("acquisition", sorted(duel_classes()))
def test_every_acquisition_function_asks_one_rater(
    acquisition, judged, monkeypatch
) -> None:
    settings = replace(
        judged.settings, acquisition=acquisition, fit_options=QUICK_FIT, repeat_rate=0
    )
    monkeypatch.setattr(judged.log, "settings", settings)
    chosen = next_options(judged._stored.projection, 2, "ann")
    assert chosen.chosen_by == "Preference"
    first, second = chosen.options
    assert first != second
    assert all(map(judged.log.space.check_membership, chosen.options))


@pytest.mark.slow
def test_a_challenger_meets_the_best_of_who_is_asked(judged, monkeypatch) -> None:
    settings = replace(judged.settings, acquisition="DuelingEIIG", repeat_rate=0)
    monkeypatch.setattr(judged.log, "settings", settings)
    met = []
    for rater in ("ann", "bob"):
        model = judged.fitted_adapter(rater=rater).botorch_model
        reference, _ = next_options(judged._stored.projection, 2, rater).options
        met.append([*reference.values()])
        # The space is the unit square to the model.
        assert met[-1] == pytest.approx((2 * incumbent(model)[0]).tolist())
    assert met[0][0] < met[1][0]


def test_somebody_new_is_none_of_those_who_have_answered(judged) -> None:
    numbers = [judged.log.number_of_rater(name) for name in ("ann", "bob", "new", None)]
    assert numbers == [0, 1, 2, None]


@pytest.mark.slow
def test_raters_who_agree_stand_beside_each_other_in_the_report(tmp_path) -> None:
    experiment = triangle(tmp_path / "four.db", initial=1, fit_options=QUICK_FIT)
    for better, worse in ((A, B), (C, B), (A, D), (C, D), (C, A)):
        for rater in ("ann", "bob", "cem", "dan"):
            winner = 0 if rater in ("ann", "cem") else 1
            experiment.record(options(better, worse), winner=winner, rater=rater)
    place = short_report(experiment).raters.index.get_loc
    assert abs(place("ann") - place("cem")) == abs(place("bob") - place("dan")) == 1


@pytest.mark.slow
def test_questions_are_for_whom_they_are_asked_of(tmp_path) -> None:
    path = tmp_path / "triangle.db"
    experiment = answered(path, fit_options=QUICK_FIT)
    questions = [experiment.ask(2, rater=rater) for rater in ("ann", "new", None)]
    again = PreferenceExperiment.resume("triangle", storage=path)
    assert again.pending == questions
    again.tell(questions[1], winner=0)
    assert again.raters == ["ann", "bob", "new"]
    with pytest.raises(ExperimentError, match="the answer has no rater"):
        again.tell(questions[2], winner=0)


def test_who_answers_must_be_known(tmp_path) -> None:
    experiment = triangle(tmp_path / "triangle.db", raters="share")
    with pytest.raises(ExperimentError, match="the answer has no rater"):
        experiment.record(options(A, B), winner=0)
    assert len(experiment.experiment.trials) == 0


@pytest.mark.slow
def test_answers_are_foreseen_by_who_gives_them(tmp_path) -> None:
    shared = triangle(tmp_path / "shared.db", raters="share")
    pooled = triangle(tmp_path / "pooled.db")
    points = [(0.2 * i, 0.1) for i in range(6)]
    for first, second in zip(points, points[2:] + points[:2], strict=True):
        for rater in ("ann", "bob"):
            likes_less = rater == "ann"
            winner = int((second[0] < first[0]) == likes_less)
            for experiment in (shared, pooled):
                pair = options(first, second)
                experiment.record(pair, winner=winner, rater=rater)
    # What one likes the other does not: pooled, nothing can be foreseen.
    assert shared.cross_validate(4).loc["duels", "accuracy"] > 0.8
    assert pooled.cross_validate(4).loc["duels", "accuracy"] < 0.6
    with pytest.raises(ExperimentError, match="are pooled"):
        pooled.recommend(rater="ann")


@pytest.mark.slow
def test_ax_client_goes_on_beside_questions_of_its_own(tmp_path) -> None:
    client = answered(tmp_path / "client.db", fit_options=QUICK_FIT).client()
    first = client.get_next_trials(max_trials=1)
    second = client.get_next_trials(max_trials=1)
    assert [*first, *second] == [len(ANSWERS), len(ANSWERS) + 1]
