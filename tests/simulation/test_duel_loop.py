import pytest
import torch
from torch import Tensor

from botorch_pref.models import EPPreferenceGP, PreferenceGP
from botorch_pref.simulation.duel_loop import Proposal, index_pairs, run_duels

POINTS = torch.tensor([[0.1], [0.5], [0.9], [0.3]], dtype=torch.double)


def king_of_the_hill(number: int, model: PreferenceGP | None) -> Proposal:
    return Proposal(POINTS[number + 1], POINTS[0], "listed")


def larger_wins(first: Tensor, second: Tensor) -> bool:
    return bool(first > second)


def test_index_pairs_stores_points_once() -> None:
    winners, losers = POINTS[[1, 2, 1]], POINTS[[0, 1, 3]]
    points, comparisons = index_pairs(winners, losers)
    assert len(points) == 4
    assert torch.equal(points[comparisons[:, 0]], winners)
    assert torch.equal(points[comparisons[:, 1]], losers)


def test_each_duel_is_predicted_from_the_answers_before_it() -> None:
    sizes: list[int] = []

    def fit(datapoints: Tensor, comparisons: Tensor) -> PreferenceGP:
        sizes.append(len(comparisons))
        return EPPreferenceGP(datapoints, comparisons)

    duels = list(run_duels(king_of_the_hill, larger_wins, fit, 3))
    assert sizes == [1, 2, 3]
    assert [duel.number for duel in duels] == [0, 1, 2]
    assert duels[0].probability == 0.5

    for duel in duels[1:]:
        before = [other.proposal for other in duels[: duel.number]]
        model = EPPreferenceGP(
            *index_pairs(
                torch.stack([proposal.challenger for proposal in before]),
                torch.stack([proposal.opponent for proposal in before]),
            )
        )
        expected = model.duel_probability(
            duel.proposal.challenger[None],
            duel.proposal.opponent[None],
            observation_noise=True,
        )
        assert duel.probability == pytest.approx(expected.item(), abs=1e-6)
    # By then 0.5 and 0.9 beat 0.1 beside it: 0.3 lies above the opponent.
    assert duels[2].probability > 0.5


def test_the_incumbent_follows_the_answers() -> None:
    duels = run_duels(king_of_the_hill, larger_wins, EPPreferenceGP, 1)
    assert next(duels).incumbent.tolist() == [0.5]
    duels = run_duels(
        king_of_the_hill, lambda a, b: not larger_wins(a, b), EPPreferenceGP, 1
    )
    assert next(duels).incumbent.tolist() == [0.1]
