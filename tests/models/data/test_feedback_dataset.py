"""The data set of every kind of answer, and models built from it."""

import pytest
import torch

from botorch_pref.errors import FeedbackError, UnsupportedFeedbackError
from botorch_pref.feedback import (
    Choices,
    Comparisons,
    OrdinalRatings,
    Rankings,
    Strengths,
    Validity,
)
from botorch_pref.models import EPPreferenceGP, LaplacePreferenceGP
from botorch_pref.models.feedback_dataset import FeedbackDataset

POINTS = torch.tensor(
    [[0.0, 0.1], [0.9, 0.2], [0.4, 0.8], [0.7, 0.6]], dtype=torch.float64
)
ANSWERS = (
    Comparisons(torch.tensor([[0, 1], [2, 3]]), ties=torch.tensor([[1, 3]])),
    Rankings(torch.tensor([[2, 0, 1]])),
    Choices(torch.tensor([[0, 1, 3]]), torch.tensor([3])),
    Validity(torch.tensor([0, 2]), torch.tensor([True, False])),
    OrdinalRatings(torch.tensor([1, 2]), torch.tensor([0, 2]), num_levels=3),
)


def data_set(answers=ANSWERS, points=POINTS) -> FeedbackDataset:
    return FeedbackDataset(
        points, answers, feature_names=["a", "b"], outcome_names=["preference"]
    )


def test_a_model_of_the_data_set_is_the_model_of_its_answers() -> None:
    by_hand = EPPreferenceGP(POINTS, feedback=ANSWERS)
    built = EPPreferenceGP(**EPPreferenceGP.construct_inputs(data_set()))
    X = torch.rand(
        5, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1)
    )
    expected, got = by_hand.posterior(X), built.posterior(X)
    assert torch.equal(got.mean, expected.mean)
    assert torch.equal(got.covariance_matrix, expected.covariance_matrix)


def test_strengths_reach_the_model() -> None:
    def mean(strength: float) -> torch.Tensor:
        block = Strengths(torch.tensor([[0, 1]]), torch.tensor([strength]))
        inputs = LaplacePreferenceGP.construct_inputs(data_set([block]))
        return LaplacePreferenceGP(**inputs).posterior(POINTS[:2]).mean.squeeze(-1)

    assert mean(0.9)[0] > mean(0.6)[0] > mean(0.6)[1] > mean(0.9)[1]


def test_equal_data_sets_and_those_that_differ_in_one_answer() -> None:
    assert data_set() == data_set()
    assert data_set().clone() == data_set().clone(deepcopy=True)
    assert data_set() != data_set(ANSWERS[:-1])
    assert data_set() != data_set(ANSWERS[::-1])
    assert data_set() != data_set(points=POINTS + 1e-9)
    level = OrdinalRatings(torch.tensor([1, 2]), torch.tensor([0, 1]), num_levels=3)
    assert data_set() != data_set((*ANSWERS[:-1], level))
    scale = OrdinalRatings(torch.tensor([1, 2]), torch.tensor([0, 2]), num_levels=4)
    assert data_set() != data_set((*ANSWERS[:-1], scale))
    no_ties = Comparisons(torch.tensor([[0, 1], [2, 3]]))
    assert data_set() != data_set((no_ties, *ANSWERS[1:]))


def test_deep_copies_share_no_memory() -> None:
    original = data_set()
    copied = original.clone(deepcopy=True)
    copied.X[0, 0] = 5
    copied.feedback[0].pairs[0, 0] = 3
    assert original == data_set()


def test_answers_about_points_that_are_not_there_are_refused() -> None:
    with pytest.raises(FeedbackError, match="but there are 4 datapoints"):
        data_set([Comparisons(torch.tensor([[0, 4]]))])


def test_leaving_out_datapoints_is_refused() -> None:
    with pytest.raises(UnsupportedFeedbackError, match="leave out answers"):
        data_set().clone(mask=torch.tensor([True, False, True, True]))
