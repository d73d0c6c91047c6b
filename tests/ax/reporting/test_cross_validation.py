"""Cross-validation against folds by hand and against Ax's own accuracy."""

import math
from dataclasses import asdict, replace
from functools import partial

import numpy as np
import pytest
import torch
from ax.adapter.cross_validation import (
    _pairwise_kfold_train_test_split,
    compute_pairwise_accuracy,
    cross_validate,
)
from ax.utils.common.random import with_rng_seed
from botorch.fit import fit_gpytorch_mll
from cases import in_turn
from espresso import QUICK_FIT
from scipy.stats import norm
from showing import A, B, C, D, E, show, tell, triangle

from botorch_pref import (
    DuelKernel,
    EPPreferenceGP,
    LapsingProbitLikelihood,
    PreferenceMarginalLogLikelihood,
)
from botorch_pref.ax import PreferenceExperiment, Settings, hooks
from botorch_pref.ax.best_designs import cross_validation
from botorch_pref.ax.log import Log
from botorch_pref.ax.stored_log import StoredLog
from botorch_pref.errors import ExperimentError
from botorch_pref.models.fully_bayesian import (
    FullyBayesianPreferenceGP,
)

DUELS = [(A, B), (C, D), (A, E), (B, C), (E, B)]


@pytest.fixture(scope="module")
def duels(tmp_path_factory) -> PreferenceExperiment:
    experiment = triangle(tmp_path_factory.mktemp("duels") / "triangle.db")
    for winner, loser in DUELS:
        tell(experiment, [loser, winner], winner=1)
    show(experiment, C, E)
    tell(experiment, [D, E], cannot_compare=True)
    return experiment


def win_probability_by_hand(train, winner, loser) -> float:
    """Computes a win under lapses, with a model fitted to the other answers."""
    points = list(dict.fromkeys(p for pair in train for p in reversed(pair)))
    X = torch.tensor(points, dtype=torch.float64) / 2
    index = torch.tensor([[points.index(p) for p in pair] for pair in train])
    law = LapsingProbitLikelihood.default_for(None)
    kernel = DuelKernel(X.shape[-1])
    model = EPPreferenceGP(X, index, covar_module=kernel, likelihood=law)
    fit_gpytorch_mll(PreferenceMarginalLogLikelihood(model.likelihood, model))
    pair = torch.tensor([winner, loser], dtype=torch.float64) / 2
    with torch.no_grad():
        posterior = model.eval().posterior(pair)
    mean, covariance = posterior.mean.flatten(), posterior.covariance_matrix
    variance = covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1]
    scale = (2 * law.noise.detach() + variance).sqrt()
    return 0.025 + 0.95 * float(norm.cdf((mean[0] - mean[1]) / scale))


@pytest.mark.slow
def test_each_answer_left_out_is_predicted_as_by_hand(duels) -> None:
    table = duels.cross_validate(num_folds=len(DUELS))
    chances = [
        win_probability_by_hand([d for d in DUELS if d != duel], *duel)
        for duel in DUELS
    ]
    losses = -np.log(chances)
    row = table.loc["duels"]
    assert table.index.tolist() == ["duels"]
    assert row["answers"] == row["scored"] == len(DUELS)
    assert row["log_loss"] == pytest.approx(losses.mean(), rel=1e-6)
    error = losses.std(ddof=1) / len(DUELS) ** 0.5
    assert row["standard_error"] == pytest.approx(error, rel=1e-6)
    assert row["accuracy"] == np.mean(np.array(chances) > 0.5)


@pytest.mark.slow
def test_accuracy_is_ax_s_over_the_same_folds(duels) -> None:
    adapter = duels.fitted_adapter()
    arms = adapter.arms
    answered = adapter.get_training_data().filter_by_trial_index(range(len(DUELS)))
    split = partial(_pairwise_kfold_train_test_split, 3)
    with with_rng_seed(5):
        results = cross_validate(adapter, fold_generator=lambda _: split(answered))
    with with_rng_seed(5):
        table = cross_validation(adapter, 3)
    theirs = compute_pairwise_accuracy(results, "pairwise_pref_query")
    assert table["accuracy"]["duels"] == pytest.approx(theirs)
    assert adapter.arms == arms


@pytest.mark.slow
def test_every_kind_of_answer_is_scored_and_none_is_split(
    tmp_path, monkeypatch
) -> None:
    experiment = triangle(tmp_path / "triangle.db", num_levels=3, fit_options=QUICK_FIT)
    tell(experiment, [A, B, C], ranking=[2, 0, 1])
    tell(experiment, [B, C, E], best=2)
    tell(experiment, [C, D], tie=True)
    tell(experiment, [A, E], winner=0, invalid=[], levels=[2, 0])
    adapter = experiment.fitted_adapter()
    designs = []
    original = adapter.dataset_of
    monkeypatch.setattr(
        adapter,
        "dataset_of",
        lambda part, *counts: designs.append(part) or original(part, *counts),
    )
    # What is predicted from what is tested above.
    monkeypatch.setattr(adapter, "model_of", lambda _: adapter.botorch_model)
    table = cross_validation(adapter, 4)
    assert table["answers"].to_dict() == {
        "rankings": 1,
        "choices": 1,
        "duels": 1,
        "ties": 1,
        "validity": 2,
        "ordinalratings": 2,
    }
    assert (table["scored"] == table["answers"]).all()
    assert np.isfinite(table["log_loss"]).all()
    assert table["accuracy"].notna().to_dict() == {k: k == "duels" for k in table.index}
    sizes = experiment.experiment.data.df.groupby("trial_index").size()
    for train, test in zip(designs[::2], designs[1::2], strict=True):
        rows = [
            part.observation_data["mean"].count(axis=1).groupby("trial_index").sum()
            for part in (train, test)
        ]
        assert len(rows[0]) == 3
        assert len(rows[1]) == 1
        assert all((sizes[row.index] == row).all() for row in rows)


@pytest.mark.slow
def test_an_answer_of_a_kind_that_is_left_nowhere_else_is_not_scored(tmp_path) -> None:
    experiment = triangle(tmp_path / "triangle.db")
    tell(experiment, [A, B], winner=0)
    tell(experiment, [C, D], tie=True)
    tell(experiment, [A, C], winner=1)
    table = experiment.cross_validate(num_folds=3)
    assert table.loc["ties", ["answers", "scored"]].tolist() == [1, 0]
    assert math.isnan(table["log_loss"]["ties"])
    assert table["scored"]["duels"] == 2


@in_turn("num_folds", [0, 1, len(DUELS) + 1, -1, 2.5, True])
def test_folds_that_cannot_be_are_refused(duels, num_folds) -> None:
    with pytest.raises(ExperimentError, match="5 answers"):
        duels.cross_validate(num_folds)


def test_one_answer_cannot_be_foreseen_from_others(tmp_path) -> None:
    experiment = triangle(tmp_path / "triangle.db")
    tell(experiment, [A, B], winner=0)
    with pytest.raises(ExperimentError, match="give two or more, where there is 1"):
        experiment.cross_validate(num_folds=2)


def two_draws(model: FullyBayesianPreferenceGP, **_options: object) -> None:
    """Loads hyper-parameters where they start and a little away from there."""
    model.load_mcmc_samples(
        {
            name: torch.stack([p.detach(), p.detach() + 0.5])
            for name, p in model.named_parameters()
            if p.requires_grad
        }
    )


@pytest.mark.slow
def test_an_ensemble_averages_over_its_members(duels, monkeypatch) -> None:
    monkeypatch.setattr(hooks, "fit_fully_bayesian_model_nuts", two_draws)
    settings = asdict(Settings(model="FullyBayesianLaplacePreferenceGP"))
    log = Log(replace(duels._stored.log.definition, settings=settings))
    for event in duels._stored.log.events:
        log.append(event)
    ensemble = PreferenceExperiment(StoredLog(log, None))
    row = ensemble.cross_validate(num_folds=2).loc["duels"]
    assert row["answers"] == row["scored"] == len(DUELS)
    # What is predicted is tested in tests/evaluation; none of these is sure.
    assert 0.2 < row["log_loss"] < 2.0
