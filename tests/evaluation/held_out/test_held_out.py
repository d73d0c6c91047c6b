import math

import pytest
import torch

from botorch_pref.datasets import ComparisonData
from botorch_pref.evaluation.held_out import (
    HeldOut,
    clustered_mean,
    coin,
    cross_validate,
)


def held_out(probabilities: list[float]) -> HeldOut:
    values = torch.tensor(probabilities).double().log()
    return HeldOut(values, torch.arange(len(values)))


def outside(folds: torch.Tensor) -> list[torch.Tensor]:
    return [(folds != fold).nonzero()[:, 0] for fold in folds.unique()]


def table(raters: torch.Tensor | None = None) -> ComparisonData:
    items = torch.arange(24.0).double().reshape(12, 2)
    return ComparisonData.from_pairs(items[:, :1], items[:, 1:], ("size",), raters)


def test_scores_by_hand() -> None:
    scores = held_out([0.8, 0.5, 0.1, 0.6])
    by_hand = -(math.log(0.8) + math.log(0.5) + math.log(0.1) + math.log(0.6)) / 4
    assert scores.log_loss == pytest.approx(by_hand)
    assert scores.accuracy == pytest.approx(2.5 / 4)


def test_a_coin_scores_log_two_and_one_half() -> None:
    folds = torch.arange(12) % 3
    scores = cross_validate(table(), folds, coin, outside(folds))
    assert scores.log_loss == pytest.approx(math.log(2))
    assert scores.accuracy == 0.5


def test_gain_is_positive_where_the_first_is_better() -> None:
    gain, error = held_out([0.8, 0.9, 0.6]).gain_over(held_out([0.5, 0.5, 0.5]))
    assert gain == pytest.approx(math.log(0.8 * 0.9 * 0.6 / 0.125) / 3)
    assert error > 0


def test_error_of_singletons_is_the_usual_one_and_copies_do_not_shrink_it() -> None:
    values = torch.randn(50, generator=torch.Generator().manual_seed(0)).double()
    _, alone = clustered_mean(values, torch.arange(50))
    assert alone == pytest.approx(float(values.std()) / math.sqrt(50))
    _, copied = clustered_mean(values.repeat(4), torch.arange(50).repeat(4))
    assert copied == pytest.approx(alone)
    assert clustered_mean(values, torch.zeros(50, dtype=torch.long))[1] == math.inf


def test_no_answer_of_a_fold_is_learnt_from() -> None:
    data, folds = table(torch.arange(12) // 2), torch.arange(12) % 3
    seen: list[set[float]] = []

    def spy(
        train: ComparisonData, first: torch.Tensor, second: torch.Tensor
    ) -> torch.Tensor:
        learnt = set(train.winners.flatten().tolist())
        asked = set(first.flatten().tolist())
        assert not learnt & asked
        assert len(learnt) + len(asked) == len(data)
        seen.append(asked)
        return -first[:, 0]

    scores = cross_validate(data, folds, spy, outside(folds))
    assert len(seen) == 3
    assert torch.equal(scores.log_probability, -data.winners[:, 0])
    assert scores.groups.tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]


def test_chosen_training_rows_are_those_learnt_from() -> None:
    def spy(
        train: ComparisonData, first: torch.Tensor, second: torch.Tensor
    ) -> torch.Tensor:
        assert len(train) == 2
        return first.new_zeros(len(first))

    folds = torch.arange(12) % 2
    cross_validate(table(), folds, spy, [rows[:2] for rows in outside(folds)])
