"""Answers of which a filter leaves nothing say what no answers say."""

import pytest
import torch

from botorch_pref import EPPreferenceGP
from botorch_pref.evaluation.progress import answer_agreement
from botorch_pref.feedback import (
    Choices,
    Comparisons,
    OrdinalRatings,
    Rankings,
    Ratings,
    Strengths,
    Validity,
)
from botorch_pref.models.training_data import TrainingSet

POINTS = torch.tensor([[0.1], [0.5], [0.8]], dtype=torch.float64)
PAIRS = torch.tensor([[0, 1], [2, 1]])
NONE = torch.zeros(0, dtype=torch.long)
NO_PAIRS, NO_SETS = NONE.view(0, 2), NONE.view(0, 3)
NO_NUMBERS = torch.zeros(0, dtype=torch.float64)
EMPTY = [
    Comparisons(NO_PAIRS),
    Comparisons(torch.tensor([])),
    Comparisons(None, NO_PAIRS),
    Comparisons(NO_PAIRS, torch.tensor([]), pair_counts=NONE, tie_counts=NONE),
    Comparisons(NO_PAIRS, covariates=torch.zeros(0, 1)),
    Choices(NO_SETS, NONE, counts=NONE),
    Rankings(NO_SETS),
    Rankings(torch.tensor([])),
    Strengths(NO_PAIRS, NO_NUMBERS),
    Validity(NONE, torch.zeros(0, dtype=torch.bool)),
    OrdinalRatings(NONE, NONE, 3),
    Ratings(NONE, NO_NUMBERS),
]


def test_a_model_takes_a_block_without_rows_for_none() -> None:
    assert TrainingSet(POINTS, tuple(EMPTY[-5:])).feedback == ()
    alone = EPPreferenceGP(POINTS, PAIRS)
    for block in EMPTY:
        assert block.num_rows == 0
        assert block.answer_counts.numel() == 0
        assert EPPreferenceGP(POINTS, feedback=[block]).feedback == ()
        if isinstance(block, Comparisons):
            assert EPPreferenceGP(POINTS, block).feedback == ()
            joined = EPPreferenceGP(POINTS, Comparisons(PAIRS).followed_by(block))
        else:
            joined = EPPreferenceGP(POINTS, PAIRS, feedback=[block])
        assert [type(b) for b in joined.feedback] == [Comparisons]
        # Counts of one put rows in another order, and sums are rounded otherwise.
        evidences = joined.log_evidence(), alone.log_evidence()
        torch.testing.assert_close(*evidences, rtol=1e-10, atol=0)
    assert EPPreferenceGP(POINTS, NO_PAIRS).feedback == ()


@pytest.mark.parametrize("nothing", [NO_PAIRS, torch.tensor([])])
def test_no_ties_beside_pairs_and_no_pairs_beside_ties(nothing) -> None:
    counts = torch.tensor([3, 1])
    won = Comparisons(PAIRS, nothing, pair_counts=counts, tie_counts=NONE)
    assert won.ties is None
    assert won.tie_counts is None
    assert won.tables.keys() == {"pair_counts"}
    assert won.answer_counts.tolist() == [3, 1]
    tied = Comparisons(nothing, PAIRS, tie_counts=counts)
    assert tied.pairs is None
    assert tied.answer_counts.tolist() == [3, 1]
    covariates = torch.tensor([[0.5], [-0.5]], dtype=torch.float64)
    wins = Comparisons(PAIRS, nothing, covariates=covariates)
    assert wins.pair_covariates.equal(covariates)
    model = EPPreferenceGP(POINTS, Comparisons(PAIRS, nothing))
    assert model.log_evidence().equal(EPPreferenceGP(POINTS, PAIRS).log_evidence())


def test_nothing_was_repeated_where_nothing_was_said() -> None:
    repeated, agreement = answer_agreement(POINTS, Comparisons(NO_PAIRS))
    assert repeated == 0
    assert agreement != agreement


def test_conditioning_on_no_answers_changes_nothing() -> None:
    model = EPPreferenceGP(POINTS, PAIRS).eval()
    X = torch.tensor([[0.3]], dtype=torch.float64)
    after = model.condition_on_observations(X, Comparisons(NO_PAIRS))
    expected, got = model.posterior(POINTS), after.posterior(POINTS)
    torch.testing.assert_close(got.mean, expected.mean, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(got.variance, expected.variance, rtol=1e-9, atol=1e-12)
