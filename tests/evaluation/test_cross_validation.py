"""Cross-validation of a model against models that are made by hand."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from botorch.models.pairwise_gp import PairwiseGP

from botorch_pref import Choices, Comparisons, EPPreferenceGP, OrdinalRatings
from botorch_pref.errors import BotorchPrefError, FeedbackError
from botorch_pref.evaluation import cross_validate_model
from botorch_pref.evaluation.scores import (
    HeldOutAnswers,
    answer_scores,
    fit_by_evidence,
)

POINTS = torch.tensor([[0.0], [0.3], [0.6], [1.0]], dtype=torch.double)
PAIRS = torch.tensor([[1, 0], [1, 2], [2, 3], [0, 3]])


@pytest.mark.parametrize("fits", [False, True])
def test_each_answer_left_out_is_predicted_as_by_hand(fits) -> None:
    model = EPPreferenceGP(POINTS, PAIRS).eval()
    before = model.state_dict()
    fit = fit_by_evidence if fits else None
    (row,) = cross_validate_model(model, num_folds=4, fit=fit).itertuples()
    losses, right = [], []
    for out in range(4):
        leave_out_model = EPPreferenceGP(POINTS, PAIRS[torch.arange(4) != out])
        if fits:
            fit_by_evidence(leave_out_model)
        with torch.no_grad():
            posterior = leave_out_model.eval().posterior(POINTS[PAIRS[out]])
        mean, covariance = posterior.mean.squeeze(-1), posterior.covariance_matrix
        variance = covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1]
        win = torch.special.ndtr((mean[0] - mean[1]) / (2 + variance).sqrt())
        losses.append(-math.log(win))
        right.append(float(win > 0.5))
    assert row.Index == "duels"
    assert row.answers == 4
    assert row.scored == 4
    assert row.log_loss == pytest.approx(np.mean(losses), rel=1e-5)
    assert row.standard_error == pytest.approx(np.std(losses, ddof=1) / 2, rel=1e-4)
    assert row.accuracy == np.mean(right)
    assert all(torch.equal(before[k], v) for k, v in model.state_dict().items())
    assert torch.equal(model.comparisons, PAIRS)
    assert not model.training


def test_duels_that_a_model_knows_nothing_of_are_in_no_score() -> None:
    held_out = [Comparisons(PAIRS)]
    knows = HeldOutAnswers(EPPreferenceGP(POINTS, PAIRS).eval(), held_out, POINTS)
    ratings = OrdinalRatings(torch.tensor([0, 1, 2]), torch.tensor([0, 2, 1]), 3)
    rating_model = EPPreferenceGP(POINTS, feedback=[ratings]).eval()
    scores = answer_scores([knows, HeldOutAnswers(rating_model, held_out, POINTS)])
    alone = answer_scores([knows])
    assert scores.loc["duels", "answers"] == 2 * alone.loc["duels", "answers"]
    columns = ["scored", "log_loss", "standard_error", "accuracy"]
    assert scores.loc["duels", columns].equals(alone.loc["duels", columns])


def test_answers_of_all_kinds_are_scored() -> None:
    model = EPPreferenceGP(
        POINTS,
        Comparisons(PAIRS, ties=torch.tensor([[0, 2]])),
        feedback=[
            Choices(torch.tensor([[0, 1, 2], [1, 2, 3]]), torch.tensor([1, 1])),
            OrdinalRatings(torch.tensor([0, 1, 2]), torch.tensor([0, 2, 1]), 3),
        ],
    )
    state = torch.random.get_rng_state()
    table = cross_validate_model(model, num_folds=10, fit=None)
    assert torch.equal(state, torch.random.get_rng_state())
    assert table["answers"].to_dict() == {
        "duels": 4,
        "ties": 1,
        "choices": 2,
        "ordinalratings": 3,
    }
    assert table["scored"].drop("ties").tolist() == [4, 2, 3]
    again = cross_validate_model(model, num_folds=10, fit=None, seed=1)
    # Each answer by itself, whatever the deal.
    assert again["log_loss"].to_dict() == pytest.approx(
        table["log_loss"].to_dict(), nan_ok=True
    )


def test_the_deal_is_that_of_the_seed() -> None:
    model = EPPreferenceGP(POINTS, PAIRS).eval()
    losses = [
        cross_validate_model(model, 2, fit=None, seed=seed).loc["duels", "log_loss"]
        for seed in (0, 1, 2, 3, 0)
    ]
    assert losses[0] == losses[-1]
    assert len({*losses}) > 1


def test_what_cannot_be_left_out_is_refused() -> None:
    model = EPPreferenceGP(POINTS, PAIRS)
    with pytest.raises(BotorchPrefError, match="num_folds is 5, and there are 4"):
        cross_validate_model(model, num_folds=5)
    with pytest.raises(BotorchPrefError, match="num_folds is 1"):
        cross_validate_model(model, num_folds=1)
    with pytest.raises(BotorchPrefError, match="model is of the class PairwiseGP"):
        cross_validate_model(PairwiseGP(POINTS, PAIRS))
    batch = EPPreferenceGP(POINTS, PAIRS.expand(2, 4, 2))
    for tested in (EPPreferenceGP(), batch):
        with pytest.raises(BotorchPrefError, match="give one model, with answers"):
            cross_validate_model(tested)
    wrong: list[tuple[Any, str]] = [(0, "n_jobs is 0"), ("2", "n_jobs is '2'")]
    for arguments, match in wrong:
        with pytest.raises(FeedbackError, match=match):
            cross_validate_model(
                EPPreferenceGP(POINTS, PAIRS), num_folds=4, fit=None, n_jobs=arguments
            )
