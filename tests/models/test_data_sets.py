"""Data sets of answers, ours and BoTorch's, and models built from them."""

import pytest
import torch
from botorch.utils.containers import SliceContainer
from botorch.utils.datasets import RankingDataset, SupervisedDataset
from draws import uniform
from hypothesis import given
from hypothesis import strategies as st

from botorch_pref.errors import FeedbackError, UnsupportedFeedbackError
from botorch_pref.feedback import (
    Choices,
    Comparisons,
    OrdinalRatings,
    Rankings,
    Validity,
)
from botorch_pref.models import EPPreferenceGP
from botorch_pref.models.training_data import FeedbackDataset, inputs_from_dataset

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
    X = uniform(5, 2, seed=1)
    expected, got = by_hand.posterior(X), built.posterior(X)
    assert torch.equal(got.mean, expected.mean)
    assert torch.equal(got.covariance_matrix, expected.covariance_matrix)


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


# --- BoTorch's data set of rankings

SIX_POINTS = torch.arange(12.0, dtype=torch.float64).reshape(6, 2)


def ranking_data_set(indices, ranks) -> RankingDataset:
    indices = torch.tensor(indices)
    return RankingDataset(
        X=SliceContainer(
            values=SIX_POINTS,
            indices=indices,
            event_shape=torch.Size([indices.shape[-1] * 2]),
        ),
        Y=torch.tensor(ranks),
        feature_names=["a", "b"],
        outcome_names=["preference"],
    )


@given(order=st.permutations(range(6)), size=st.integers(3, 6), data=st.data())
def test_any_presentation_of_a_ranking_gives_that_ranking(order, size, data) -> None:
    best_first = list(order[:size])
    draw = data.draw(st.permutations(best_first))
    ranks = [best_first.index(item) for item in draw]
    (block,) = inputs_from_dataset(ranking_data_set([draw], [ranks]))["feedback"]
    assert block.orders.tolist() == [best_first]


@pytest.mark.parametrize("orders", [[], [[0, 1]]])
def test_two_equal_ranks_are_a_tie(orders) -> None:
    indices = [[3, 1], [0, 2]][: 1 + len(orders)]
    data_inputs = inputs_from_dataset(ranking_data_set(indices, [[0, 0], *orders]))
    block = data_inputs["comparisons"]
    assert block.ties.tolist() == [[3, 1]]
    assert (block.pairs is None) == (not orders)
    assert not orders or block.pairs.tolist() == [[0, 2]]
    model = EPPreferenceGP(data_inputs["datapoints"], block)
    assert model.feedback == (block,)


@pytest.mark.parametrize(("ranks", "pair"), [([0, 1], [3, 1]), ([1, 0], [1, 3])])
def test_pairs_stay_comparisons(ranks, pair) -> None:
    inputs = inputs_from_dataset(ranking_data_set([[3, 1]], [ranks]))
    assert set(inputs) == {"datapoints", "comparisons"}
    assert inputs["comparisons"].tolist() == [pair]


def test_ties_among_three_are_comparisons_and_ties() -> None:
    data = ranking_data_set([[3, 1, 5], [0, 2, 4]], [[2, 0, 1], [0, 2, 0]])
    strict, shared = inputs_from_dataset(data)["feedback"]
    assert strict.orders.tolist() == [[1, 5, 3]]
    assert sorted(shared.pairs.tolist()) == [[0, 2], [4, 2]]
    assert shared.ties.tolist() == [[0, 4]]


def test_another_data_set_is_refused() -> None:
    data = SupervisedDataset(
        SIX_POINTS, SIX_POINTS[:, :1], feature_names=["a", "b"], outcome_names=["y"]
    )
    with pytest.raises(UnsupportedFeedbackError, match="SupervisedDataset"):
        inputs_from_dataset(data)
