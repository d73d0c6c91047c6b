import torch
from botorch.acquisition import AcquisitionFunction
from torch import Tensor

from botorch_pref.models import EPPreferenceGP, PreferenceGP
from botorch_pref.simulation.duel_loop import (
    ChosenDuels,
    RandomChallengers,
    RecordedDuels,
)

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


def duels(seed: int = 0, make=near_target) -> ChosenDuels:
    return ChosenDuels(2, 3, "near", make, torch.Generator().manual_seed(seed))


def model() -> EPPreferenceGP:
    points = torch.tensor([[0.0, 1.0], [1.0, 0.0]]).double()
    return EPPreferenceGP(points, torch.tensor([[0, 1]]))


def test_random_at_first_then_the_best_against_the_incumbent() -> None:
    propose = duels()
    assert propose(0, None).source == "random"
    assert propose(2, model()).source == "random"
    chosen = propose(3, model())
    assert chosen.source == "near"
    assert torch.allclose(chosen.challenger, TARGET, atol=1e-3)
    assert chosen.opponent.tolist() == [0.0, 1.0]


def test_the_acquisition_function_may_name_the_opponent() -> None:
    other = torch.tensor([[0.5, 0.5]]).double()
    chosen = duels(make=lambda fitted, X_ref: Near(fitted, TARGET, other))(3, model())
    assert torch.equal(chosen.opponent, other[0])
    assert torch.allclose(chosen.challenger, TARGET, atol=1e-3)


class Apart(AcquisitionFunction):
    """Largest at a pair of opposite corners."""

    def forward(self, X: Tensor) -> Tensor:
        return (X[..., 0, :] - X[..., 1, :]).square().sum(-1)


def test_without_a_reference_both_points_are_chosen() -> None:
    chosen = duels(make=lambda fitted, X_ref: Apart(fitted))(3, model())
    assert chosen.source == "near"
    distance = (chosen.challenger - chosen.opponent).abs()
    assert torch.allclose(distance, torch.ones(2).double(), atol=1e-3)


def test_random_points_fill_the_cube() -> None:
    propose = duels()
    points = torch.stack([propose(0, None).challenger for _ in range(200)])
    assert points.min() >= 0
    assert points.max() <= 1
    # Means of 200 uniform draws: sd 0.0204.
    assert torch.all((points.mean(0) - 0.5).abs() < 4 * 0.0204)


def test_the_generator_alone_decides_and_the_global_one_is_untouched() -> None:
    torch.manual_seed(1)
    state = torch.get_rng_state()
    first = duels(seed=7)(3, model())
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(2)
    again = duels(seed=7)(3, model())
    assert torch.equal(first.challenger, again.challenger)


def test_a_challenger_equal_to_the_incumbent_is_replaced_and_said_so() -> None:
    propose = duels(make=lambda fitted, X_ref: Near(fitted, X_ref[0], X_ref))
    proposal = propose(3, model())
    assert not torch.equal(proposal.challenger, proposal.opponent)
    near = torch.linalg.vector_norm(proposal.challenger - proposal.opponent) < 1e-3
    assert proposal.source == ("near" if near else "random")


def test_random_challengers_start_as_all_rules_do_and_meet_the_incumbent() -> None:
    propose = RandomChallengers(2, 3, torch.Generator().manual_seed(7))
    others = duels(seed=7)
    for number in range(3):
        mine, theirs = propose(number, model()), others(number, model())
        assert torch.equal(mine.challenger, theirs.challenger)
        assert torch.equal(mine.opponent, theirs.opponent)
    later = propose(3, model())
    assert later.opponent.tolist() == [0.0, 1.0]
    assert later.challenger.tolist() != mine.challenger.tolist()


def test_recorded_duels_come_back_in_order() -> None:
    propose = duels()
    listed = [propose(0, None), propose(0, None)]
    assert RecordedDuels(listed)(1, None) is listed[1]
