"""Models that average over their hyper-parameters: the mean over their members."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from acquisition.contract.closed_forms import each, points
from botorch.acquisition.acquisition import AcquisitionFunction
from entries import Acquisition
from gpytorch.priors import GammaPrior
from torch import Generator, Tensor

from botorch_pref import PairwiseProbitLikelihood
from botorch_pref.acquisition import (
    DistinctOptions,
    DuelingBALD,
    DuelingEUBO,
    DuelingJointKG,
    HallucinatedModel,
    informative_pairs,
    knowledge_gradient,
    likely_best,
)
from botorch_pref.acquisition.duels import better_probability
from botorch_pref.evaluation import best_probability, leaderboard
from botorch_pref.models import (
    EPPreferenceGP,
    GroupUtility,
    PreferenceGP,
    rater_covar_module,
)

pytest.importorskip("numpyro")

from botorch_pref.models import FullyBayesianEPPreferenceGP

PAIRS = torch.tensor([[2, 0], [2, 1], [3, 1], [2, 3]])


def made(kind: type[PreferenceGP], of_raters: bool = False) -> Any:
    kernel = rater_covar_module(1) if of_raters else None
    likelihood = PairwiseProbitLikelihood(noise_prior=GammaPrior(2.0, 2.0))
    return kind(points(4), PAIRS, likelihood=likelihood, covar_module=kernel)


def ensemble(
    count: int = 3, of_raters: bool = False, spread: float = 1.0
) -> FullyBayesianEPPreferenceGP:
    model = made(FullyBayesianEPPreferenceGP, of_raters)
    generator = Generator().manual_seed(5)
    draws = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            step = spread * torch.randn(count, *parameter.shape, generator=generator)
            draws[name] = parameter.detach() + step.double()
    model.load_mcmc_samples(draws)
    return model.eval()


def members(
    model: FullyBayesianEPPreferenceGP, of_raters: bool = False
) -> list[EPPreferenceGP]:
    member_models = []
    for i in range(model.num_mcmc_samples):
        member = made(EPPreferenceGP, of_raters)
        for name, parameter in member.named_parameters():
            if parameter.requires_grad:
                parameter.data = model.get_parameter(name).detach()[i]
        member_models.append(member.eval())
    return member_models


def assert_mean_over_members(
    make: Callable[[EPPreferenceGP], AcquisitionFunction], pending: Tensor | None = None
) -> None:
    model = ensemble()

    def value(single_model: EPPreferenceGP) -> Tensor:
        acquisition = make(single_model)
        acquisition.set_X_pending(pending)
        return acquisition(points(5, 2, seed=6))

    alone = torch.stack([value(member) for member in members(model)]).mean(0)
    torch.testing.assert_close(value(model), alone, rtol=1e-4, atol=1e-5)


@each()
def test_values_are_the_mean_over_members(kind: Acquisition) -> None:
    reference, pending = points(1, seed=9), points(1, seed=8)
    assert_mean_over_members(lambda member: kind(member, reference), pending)


@each(pairs=True)
def test_open_questions_are_those_of_each_member(kind: Acquisition) -> None:
    assert_mean_over_members(kind, points(3, seed=8))


def test_the_chance_to_be_better_is_the_mean_over_members() -> None:
    model, X, reference = ensemble(), points(5, seed=6), points(1, seed=9)
    alone = [better_probability(member, X, reference) for member in members(model)]
    chance = better_probability(model, X, reference)
    torch.testing.assert_close(chance, torch.stack(alone).mean(0))


def test_each_member_believes_a_draw_of_its_own() -> None:
    model, X = ensemble(), points(5, 3, seed=6)
    believed = HallucinatedModel(model, Generator().manual_seed(0))
    ours = believed.posterior(X).distribution.covariance_matrix
    assert ours.shape == (5, 3, 3, 3)
    for i, member in enumerate(members(model)):
        alone = HallucinatedModel(member).posterior(X).distribution.covariance_matrix
        torch.testing.assert_close(ours[:, i], alone, rtol=1e-3, atol=1e-4)


def test_pairs_of_a_catalogue_say_most_in_the_mean_over_members() -> None:
    model, pairs = ensemble(), [*itertools.combinations(range(4), 2)]
    values = {pair: DuelingBALD(model)(points(4)[[*pair]]).item() for pair in pairs}
    # Three pairs connect four items where all four are among them.
    trees = (t for t in itertools.combinations(pairs, 3) if len({*sum(t, ())}) == 4)
    best = max(trees, key=lambda tree: sum(values[pair] for pair in tree))
    chosen = [tuple(sorted(pair)) for pair in informative_pairs(model).tolist()]
    assert chosen == sorted(best, key=lambda pair: -values[pair])
    alike, pending = ensemble(spread=0.0), torch.tensor([[0, 1], [1, 2]])
    first, second = (
        informative_pairs(believer, pairs_pending=pending)
        for believer in (alike, members(alike)[0])
    )
    assert torch.equal(first, second)


def test_win_rates_are_means_over_members() -> None:
    """Also where members are as many as the others that an item meets."""
    model = ensemble()
    alone = [leaderboard(member)["win_rate"].sort_index() for member in members(model)]
    win_rate = leaderboard(model)["win_rate"].sort_index()
    assert win_rate.tolist() == pytest.approx((sum(alone) / 3).tolist(), abs=1e-5)


def test_ranks_are_those_of_draws_of_all_members() -> None:
    model = ensemble(spread=2.0)
    # The three members share the draws.
    alone = [
        leaderboard(member, top=2, num_samples=1500).sort_index()
        for member in members(model)
    ]
    board = leaderboard(model, top=2, num_samples=4500).sort_index()
    for name in ("best", "top"):
        columns = [member[name].to_numpy() for member in alone]
        mean = sum(columns) / len(columns)
        assert board[name].tolist() == pytest.approx(mean.tolist(), abs=1e-3)
        assert abs(columns[0] - mean).max() > 0.01


def test_a_group_of_raters_of_an_ensemble_is_an_ensemble() -> None:
    model, raters = ensemble(of_raters=True), points(2, seed=3)[:, 1]
    group = GroupUtility(model, raters)
    alone = [GroupUtility(member, raters) for member in members(model, of_raters=True)]
    X, reference = points(5, 1, seed=6)[..., :1], points(1, seed=9)[:, :1]
    values = [DuelingEUBO(member, reference)(X) for member in alone]
    actual = DuelingEUBO(group, reference)(X)
    torch.testing.assert_close(actual, sum(values) / 3, rtol=1e-4, atol=1e-5)
    items = X[:, 0]
    for noisy in (False, True):
        duels = items[:2], items[2:4]
        probabilities = [
            member.duel_probability(*duels, observation_noise=noisy) for member in alone
        ]
        won = group.duel_probability(*duels, observation_noise=noisy)
        torch.testing.assert_close(won, sum(probabilities) / 3, rtol=1e-4, atol=1e-5)
    # The three members share the draws.
    chances = [best_probability(member, items, num_samples=1500) for member in alone]
    shared = best_probability(group, items, num_samples=4500)
    torch.testing.assert_close(shared, sum(chances) / 3, rtol=0, atol=2e-3)


def test_the_gain_of_a_choice_is_the_mean_over_members() -> None:
    reference, choices = points(1, seed=9), points(3, seed=8)
    assert_mean_over_members(
        lambda member: DuelingJointKG(
            member, reference, Generator().manual_seed(0), choices
        )
    )


@pytest.mark.parametrize("count", [2, 3])
def test_each_t_batch_has_a_reference_of_its_own(count: int) -> None:
    """Also where there are as many as members."""
    model, references = ensemble(), points(count, 1, seed=9)
    X = references + 1e-3
    alone = [
        DistinctOptions(DuelingEUBO(model, reference))(x)
        for reference, x in zip(references, X, strict=True)
    ]
    actual = DistinctOptions(DuelingEUBO(model, references))(X)
    torch.testing.assert_close(actual, torch.cat(alone))


def test_members_say_equally_often_what_is_likely_best() -> None:
    model, X, count = ensemble(), points(1, 4, seed=6), 2**12
    source = Generator().manual_seed(0)
    likely_points = likely_best(model, X, 3 * count + 1, source).squeeze(0)
    counted = (likely_points[:, None] == X[0]).all(-1).sum(0)
    with torch.no_grad():
        drawn = [
            member.posterior(X[0]).rsample(torch.Size([count])).squeeze(-1).argmax(-1)
            for member in members(model)
        ]
    expected = torch.bincount(torch.cat(drawn), minlength=4)
    # Two binomial counts, the larger of them by the maximum of the mean.
    error = 4 * (2 * expected.clamp_min(1)).sqrt() + 1
    assert ((counted - expected).abs() < error).all()


def test_likely_best_points_are_no_more_than_asked_for() -> None:
    model, X = ensemble(count=8), points(3, 60, seed=6)
    for number in (1, 2, 5, 12):
        assert likely_best(model, X, number).shape == (3, number, 2)


def test_few_likely_best_points_are_those_of_members_far_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neighbours in a chain are alike: of eight members four are not the first four."""
    model, X = ensemble(count=8), points(8, seed=6)
    with torch.no_grad():
        mean = int(model.posterior(X).mixture_mean.argmax())
    # The point i is the best in the one draw of member i.
    drawn = torch.eye(8, dtype=torch.double).unsqueeze(0)
    monkeypatch.setattr(knowledge_gradient, "draw_utilities", lambda *_: drawn)
    is_likely = (likely_best(model, X, 5)[:, None] == X).all(-1).any(0)
    chosen = {*is_likely.nonzero().flatten().tolist()} - {mean}
    assert len(chosen) >= 3
    assert max(chosen) >= 6
    assert min(chosen) <= 1
