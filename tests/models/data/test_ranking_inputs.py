"""BoTorch's data set of rankings as feedback."""

import pytest
import torch
from botorch.utils.containers import SliceContainer
from botorch.utils.datasets import RankingDataset, SupervisedDataset
from hypothesis import given
from hypothesis import strategies as st

from botorch_pref.errors import UnsupportedFeedbackError
from botorch_pref.feedback import Rankings
from botorch_pref.models.feedback_dataset import inputs_from_ranking

POINTS = torch.arange(12.0, dtype=torch.float64).reshape(6, 2)


def data_set(indices, ranks) -> RankingDataset:
    indices = torch.tensor(indices)
    return RankingDataset(
        X=SliceContainer(
            values=POINTS,
            indices=indices,
            event_shape=torch.Size([indices.shape[-1] * 2]),
        ),
        Y=torch.tensor(ranks),
        feature_names=["a", "b"],
        outcome_names=["preference"],
    )


def test_rank_zero_is_the_best() -> None:
    inputs = inputs_from_ranking(
        data_set([[3, 1, 5], [0, 2, 4]], [[2, 0, 1], [1, 2, 0]])
    )
    assert set(inputs) == {"datapoints", "feedback"}
    (block,) = inputs["feedback"]
    assert isinstance(block, Rankings)
    assert block.orders.tolist() == [[1, 5, 3], [4, 0, 2]]
    assert torch.equal(inputs["datapoints"], POINTS)


@given(order=st.permutations(range(6)), size=st.integers(3, 6), data=st.data())
def test_any_presentation_of_a_ranking_gives_that_ranking(order, size, data) -> None:
    best_first = list(order[:size])
    shown = data.draw(st.permutations(best_first))
    ranks = [best_first.index(item) for item in shown]
    (block,) = inputs_from_ranking(data_set([shown], [ranks]))["feedback"]
    assert block.orders.tolist() == [best_first]


@pytest.mark.parametrize(("ranks", "pair"), [([0, 1], [3, 1]), ([1, 0], [1, 3])])
def test_pairs_stay_comparisons(ranks, pair) -> None:
    inputs = inputs_from_ranking(data_set([[3, 1]], [ranks]))
    assert set(inputs) == {"datapoints", "comparisons"}
    assert inputs["comparisons"].tolist() == [pair]


def test_ties_among_three_are_refused() -> None:
    data = data_set([[3, 1, 5], [0, 2, 4]], [[2, 0, 1], [0, 2, 0]])
    with pytest.raises(
        UnsupportedFeedbackError, match=r"Y\[1\] = \[0, 2, 0\] has equal ranks.*pairs"
    ):
        inputs_from_ranking(data)


def test_another_data_set_is_refused() -> None:
    data = SupervisedDataset(
        POINTS, POINTS[:, :1], feature_names=["a", "b"], outcome_names=["y"]
    )
    with pytest.raises(UnsupportedFeedbackError, match="SupervisedDataset"):
        inputs_from_ranking(data)
