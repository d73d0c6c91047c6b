"""The loop of duels by any rule."""

import pytest
import torch
from botorch.acquisition import AcquisitionFunction
from botorch.models.pairwise_gp import PairwiseGP
from torch import Tensor

from benchmarks.suite.runs.models import with_validity
from benchmarks.suite.runs.players import RandomChallengers
from botorch_pref.feedback import Comparisons, Validity
from botorch_pref.models import EPPreferenceGP, PreferenceGP
from botorch_pref.simulation.duel_loop import (
    ChosenDuels,
    Proposal,
    index_pairs,
    predict_win,
    run_duels,
)

POINTS = torch.tensor([[0.1], [0.5], [0.9], [0.3]], dtype=torch.double)


def king_of_the_hill(
    number: int, model: PreferenceGP | None, best: Tensor | None
) -> Proposal:
    return Proposal(POINTS[number + 1], POINTS[0], "listed")


def larger_wins(first: Tensor, second: Tensor) -> bool:
    return bool(first > second)


def test_each_duel_is_predicted_from_the_answers_before_it() -> None:
    sizes: list[int] = []

    def fit(datapoints: Tensor, comparisons: Comparisons) -> PreferenceGP:
        sizes.append(len(comparisons.pairs))
        return EPPreferenceGP(datapoints, comparisons)

    duels = list(run_duels(king_of_the_hill, larger_wins, fit, 3))
    assert sizes == [1, 2, 3]
    assert [duel.number for duel in duels] == [0, 1, 2]
    assert duels[0].probability == 0.5

    for duel in duels[1:]:
        before = [earlier.proposal for earlier in duels[: duel.number]]
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


def test_a_rule_is_told_the_incumbent_of_the_answers_so_far() -> None:
    incumbents: list[Tensor | None] = []

    def propose(
        number: int, model: PreferenceGP | None, best: Tensor | None
    ) -> Proposal:
        incumbents.append(best)
        return king_of_the_hill(number, model, best)

    duels = list(run_duels(propose, larger_wins, EPPreferenceGP, 3))
    assert incumbents[0] is None
    assert incumbents[1:] == [duel.incumbent for duel in duels[:-1]]
    assert incumbents[1].tolist() == [0.5]


def test_a_tie_is_kept_as_one_and_winners_come_first() -> None:
    told: list[Comparisons] = []

    def fit(datapoints: Tensor, comparisons: Comparisons) -> PreferenceGP:
        told.append(comparisons)
        return EPPreferenceGP(datapoints, comparisons)

    answers = iter([None, False, True])
    duels = list(run_duels(king_of_the_hill, lambda a, b: next(answers), fit, 3))
    assert [duel.challenger_won for duel in duels] == [None, False, True]
    assert told[0].pairs is None
    # In order 0.1, 0.3, 0.5, 0.9: the second duel lost to 0.1, the third won from it.
    assert told[2].pairs.tolist() == [[0, 3], [1, 0]]
    assert sorted(told[2].ties.flatten().tolist()) == [0, 2]


def test_a_model_of_botorch_is_predicted_by_its_own_posterior() -> None:
    points, pairs = POINTS[:3], torch.tensor([[1, 0], [1, 2]])
    model = PairwiseGP(points, pairs).eval()
    posterior = model.posterior(points[:2])
    gap = posterior.mean[0] - posterior.mean[1]
    covar = posterior.covariance_matrix
    spread = (covar[0, 0] + covar[1, 1] - 2 * covar[0, 1] + 2.0).sqrt()
    expected = torch.special.ndtr(gap / spread).item()
    assert predict_win(model, points[0], points[1]) == pytest.approx(expected, abs=1e-9)


def test_points_that_fail_are_labelled_and_their_duels_not_answered() -> None:
    fits: list[tuple[Tensor, Comparisons, Validity]] = []

    def fit(points: Tensor, duels: Comparisons, labels: Validity) -> PreferenceGP:
        fits.append((points, duels, labels))
        return EPPreferenceGP(points, duels, feedback=[labels])

    # Against 0.1 come 0.5, 0.9 and 0.3, of which 0.5 fails; 0.9 wins, 0.3 loses.
    answers = iter([True, False])
    works = lambda X: (X != 0.5).all(-1)  # noqa: E731
    answer = lambda first, second: next(answers) if works(first) else None  # noqa: E731
    duels = list(run_duels(king_of_the_hill, answer, with_validity(fit, works), 3))
    assert [duel.challenger_won for duel in duels] == [None, True, False]
    # Before the first answer there is no model, and the challenger stands for it.
    assert duels[0].incumbent.tolist() == [0.5]
    assert [len(duel.pairs) for _, duel, _ in fits] == [1, 2]
    points, comparisons, labels = fits[-1]
    assert points.flatten().tolist() == [0.1, 0.3, 0.5, 0.9]
    assert comparisons.pairs.tolist() == [[3, 0], [0, 1]]
    assert comparisons.ties is None
    assert labels.indices.tolist() == [0, 1, 2, 3]
    assert labels.valid.tolist() == [True, True, False, True]


TARGET = torch.tensor([0.25, 0.75]).double()


class Near(AcquisitionFunction):
    """Largest at one point."""

    def __init__(self, model: PreferenceGP, target: Tensor, X_ref: Tensor) -> None:
        super().__init__(model)
        self.target, self.X_ref = target, X_ref

    def forward(self, X: Tensor) -> Tensor:
        return -(X.squeeze(-2) - self.target).square().sum(-1)


def near_target(model: PreferenceGP, X_ref: Tensor) -> Near:
    assert X_ref.shape == (1, 2)
    return Near(model, TARGET, X_ref)


def chosen_duels(seed: int = 0, make=near_target) -> ChosenDuels:
    return ChosenDuels(2, 3, "near", make, torch.Generator().manual_seed(seed))


CORNERS = torch.tensor([[0.0, 1.0], [1.0, 0.0]]).double()
OF_TWO = EPPreferenceGP(CORNERS, torch.tensor([[0, 1]])), CORNERS[0]
"""A model of the duel that the first corner won, and its incumbent."""


def test_random_at_first_then_the_best_against_the_incumbent() -> None:
    propose = chosen_duels()
    assert propose(0, None, None).source == "random"
    assert propose(2, *OF_TWO).source == "random"
    chosen = propose(3, *OF_TWO)
    assert chosen.source == "near"
    assert torch.allclose(chosen.challenger, TARGET, atol=1e-3)
    assert chosen.opponent.tolist() == [0.0, 1.0]


def test_the_acquisition_function_may_name_the_opponent() -> None:
    opponent = torch.tensor([[0.5, 0.5]]).double()
    propose = chosen_duels(make=lambda fitted, X_ref: Near(fitted, TARGET, opponent))
    chosen = propose(3, *OF_TWO)
    assert torch.equal(chosen.opponent, opponent[0])
    assert torch.allclose(chosen.challenger, TARGET, atol=1e-3)


class Apart(AcquisitionFunction):
    """Largest at a pair of opposite corners."""

    def forward(self, X: Tensor) -> Tensor:
        return (X[..., 0, :] - X[..., 1, :]).square().sum(-1)


def test_without_a_reference_both_points_are_chosen() -> None:
    chosen = chosen_duels(make=lambda fitted, X_ref: Apart(fitted))(3, *OF_TWO)
    assert chosen.source == "near"
    distance = (chosen.challenger - chosen.opponent).abs()
    assert torch.allclose(distance, torch.ones(2).double(), atol=1e-3)


def test_random_points_fill_the_cube() -> None:
    propose = chosen_duels()
    points = torch.stack([propose(0, None, None).challenger for _ in range(200)])
    assert points.min() >= 0
    assert points.max() <= 1
    # Means of 200 uniform draws: sd 0.0204.
    assert torch.all((points.mean(0) - 0.5).abs() < 4 * 0.0204)


def test_the_generator_alone_decides_and_the_global_one_is_untouched() -> None:
    torch.manual_seed(1)
    state = torch.get_rng_state()
    first = chosen_duels(seed=7)(3, *OF_TWO)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(2)
    again = chosen_duels(seed=7)(3, *OF_TWO)
    assert torch.equal(first.challenger, again.challenger)


def test_a_challenger_equal_to_the_incumbent_is_replaced_and_said_so() -> None:
    propose = chosen_duels(make=lambda fitted, X_ref: Near(fitted, X_ref[0], X_ref))
    proposal = propose(3, *OF_TWO)
    assert not torch.equal(proposal.challenger, proposal.opponent)
    near = torch.linalg.vector_norm(proposal.challenger - proposal.opponent) < 1e-3
    assert proposal.source == ("near" if near else "random")


def test_random_challengers_start_as_all_rules_do_and_meet_the_incumbent() -> None:
    propose = RandomChallengers(2, 3, torch.Generator().manual_seed(7))
    rule_duels = chosen_duels(seed=7)
    for number in range(3):
        mine, theirs = propose(number, *OF_TWO), rule_duels(number, *OF_TWO)
        assert torch.equal(mine.challenger, theirs.challenger)
        assert torch.equal(mine.opponent, theirs.opponent)
    later = propose(3, *OF_TWO)
    assert later.opponent.tolist() == [0.0, 1.0]
    assert later.challenger.tolist() != mine.challenger.tolist()
