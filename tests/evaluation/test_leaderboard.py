"""Leaderboards against closed forms, plain draws and counts by hand."""

import math
from types import SimpleNamespace

import pytest
import torch
from botorch.models.model import Model
from botorch.posteriors import GPyTorchPosterior
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import LinearKernel
from scipy import stats
from torch import Tensor

from botorch_pref import (
    Comparisons,
    EPPreferenceGP,
    LaplacePreferenceGP,
    PairwiseLogitLikelihood,
    PairwiseProbitLikelihood,
    RaoKupperLikelihood,
    Ratings,
    SkewPreferenceGP,
    VariationalPreferenceGP,
)
from botorch_pref.errors import BotorchPrefError, UnsupportedFeedbackError
from botorch_pref.evaluation import leaderboard
from botorch_pref.evaluation.answer_effects import position_bias
from botorch_pref.evaluation.leaderboard import (
    _drawn_ranks,
    _shared_ranks,
    rank_interval,
)
from botorch_pref.evaluation.progress import NUM_SAMPLES
from botorch_pref.models import GroupUtility, rater_covar_module
from botorch_pref.plotting import plot_probabilities
from botorch_pref.simulation.duel_loop import predict_win


class Independent(Model):
    """Independent utilities, whose means are ``x`` and whose deviations are 1."""

    num_outputs = 1
    batch_shape = torch.Size()
    likelihood = PairwiseProbitLikelihood(noise=0.5)

    def posterior(self, X: Tensor, **_: object) -> GPyTorchPosterior:
        eye = torch.eye(X.shape[-2], dtype=X.dtype)
        return GPyTorchPosterior(MultivariateNormal(X.squeeze(-1), eye))


def column(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.double).unsqueeze(-1)


def test_two_items_in_closed_form() -> None:
    board = leaderboard(Independent(), column(0.0, 1.0), ["a", "b"], top=1)
    assert board.index.tolist() == ["b", "a"]
    assert board["rank"].tolist() == [1, 2]
    assert board["utility"].tolist() == [1, 0]
    half = stats.norm.ppf(0.975)
    assert board["lower"].tolist() == pytest.approx([1 - half, -half])
    assert board["upper"].tolist() == pytest.approx([1 + half, half])
    assert board[["rank_lower", "rank_upper"]].to_numpy().tolist() == [[1, 2]] * 2
    better = stats.norm.cdf(1 / math.sqrt(2))
    # Sobol draws of two normals: 4,096 of them.
    assert board["best"].tolist() == pytest.approx([better, 1 - better], abs=5e-3)
    assert board["top"].tolist() == pytest.approx(board["best"].tolist())
    # Two noises of 1/2, and the variance of the difference, 2.
    win = stats.norm.cdf(1 / math.sqrt(3))
    assert board["win_rate"].tolist() == pytest.approx([win, 1 - win])


def test_half_of_a_tie_is_won() -> None:
    likelihood = PairwiseProbitLikelihood(noise=0.5, tie_threshold=0.7)
    model = type("Tied", (Independent,), {"likelihood": likelihood})()
    win_rate = leaderboard(model, column(0.0, 1.0))["win_rate"].sort_index()
    won, lost = stats.norm.cdf(0.3 / math.sqrt(3)), stats.norm.cdf(-1.7 / math.sqrt(3))
    share = won + 0.5 * (1 - won - lost)
    assert win_rate.tolist() == pytest.approx([1 - share, share])
    assert predict_win(model, column(1.0)[0], column(0.0)[0]) == pytest.approx(share)


def test_intervals_of_ranks_are_shortest_runs_with_the_level() -> None:
    generator = torch.Generator().manual_seed(0)
    # Of any distribution, with runs of ranks that no draw has.
    chance = torch.rand(12, 9, generator=generator, dtype=torch.double) ** 6
    ranks = 1 + chance.multinomial(400, replacement=True, generator=generator).mT
    ranks = torch.cat([ranks, torch.full((400, 1), 13)], dim=-1)
    low, high = rank_interval(ranks, 0.9)
    for column, first, last in zip(ranks.mT, low.tolist(), high.tolist(), strict=True):
        runs = [(i, j) for i in range(1, 14) for j in range(i, 14)]
        held = {(i, j): int(((column >= i) & (column <= j)).sum()) for i, j in runs}
        shortest = min(j - i for (i, j), number in held.items() if number >= 360)
        assert last - first == shortest
        assert held[first, last] == max(
            held[i, i + shortest] for i in range(1, 14 - shortest)
        )


def test_copies_have_one_rank_and_share() -> None:
    board = leaderboard(
        Independent(), column(0.0, 9.0, 9.0, -9.0), list("abcd"), level=0.9
    )
    assert board.index.tolist() == ["b", "c", "a", "d"]
    assert board["rank"].tolist() == [1, 1, 3, 4]
    assert board["rank_lower"].tolist() == [1, 1, 3, 4]
    assert board["rank_upper"].tolist() == [1, 1, 3, 4]
    assert board["best"].tolist() == pytest.approx([0.5, 0.5, 0, 0])


ENGINES = [EPPreferenceGP, LaplacePreferenceGP, SkewPreferenceGP]


@pytest.mark.parametrize("kind", ENGINES)
def test_every_engine_against_plain_draws(kind) -> None:
    X = column(0.0, 0.2, 0.5, 0.8, 1.0)
    pairs = torch.tensor([[1, 0], [1, 2], [2, 3], [4, 3], [1, 4]])
    model = kind(X, pairs, likelihood=PairwiseProbitLikelihood(noise=0.3)).eval()
    board = leaderboard(model, top=2, level=0.8).sort_index()
    num = 40_000
    with torch.no_grad(), torch.random.fork_rng():
        torch.manual_seed(0)
        draws = model.posterior(X).rsample(torch.Size([num])).squeeze(-1)
    above = (draws.unsqueeze(-2) > draws.unsqueeze(-1)).sum(-1)
    error = 4 * 0.5 * math.sqrt(1 / num + 1 / 4096)
    for name, share in (("best", above == 0), ("top", above < 2)):
        gap = torch.tensor(board[name]) - share.double().mean(0)
        assert gap.abs().max() < error
    ends = board[["rank_lower", "rank_upper"]].to_numpy().tolist()
    for (low, high), ranks in zip(ends, (above + 1).mT, strict=True):
        share = [float((ranks == rank).double().mean()) for rank in range(6)]
        runs = [(i, j) for i in range(1, 6) for j in range(i, 6)]
        held = {(i, j): sum(share[i : j + 1]) for i, j in runs}
        assert held[low, high] > 0.8 - 3 * error
        # No shorter run holds as much by more than the error of the draws.
        shorter = [value for (i, j), value in held.items() if j - i < high - low]
        assert max(shorter, default=0.0) < 0.8 + 3 * error
    win = torch.special.ndtr((draws.unsqueeze(-1) - draws.unsqueeze(-2)) / 0.6**0.5)
    rates = (win.sum(-1) - 0.5).mean(0) / 4
    assert (torch.tensor(board["win_rate"]) - rates).abs().max() < 4 * 0.5 / 200
    assert board["win_rate"].mean() == pytest.approx(0.5)


def test_raters_rank_by_their_mean_utility() -> None:
    stimuli = torch.tensor([0.0, 0.5, 1.0] * 2, dtype=torch.double)
    numbers = torch.tensor([0.0] * 3 + [1.0] * 3, dtype=torch.double)
    model = EPPreferenceGP(
        torch.stack([stimuli, numbers], dim=-1),
        torch.tensor([[0, 1], [1, 2], [5, 4], [4, 3], [5, 4]]),
        covar_module=rater_covar_module(1).double(),
    )
    for raters in (column(0.0), column(0.0, 1.0)):
        group = GroupUtility(model, raters)
        board = leaderboard(model, raters=raters)
        assert board.equals(leaderboard(group, column(0.0, 0.5, 1.0)))
    first = leaderboard(model, column(0.0, 0.5, 1.0), "abc", torch.tensor([0.0]))
    second = leaderboard(model, column(0.0, 0.5, 1.0), "abc", torch.tensor([1.0]))
    assert first.index.tolist() == second.index.tolist()[::-1] == list("abc")


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"X": column(0.0)}, r"X is shape \(1, 1\)"),
        ({}, "X is nothing"),
        ({"X": column(0.0, 1.0), "names": ["a"]}, "2 items, and 1 names"),
        ({"X": column(0.0, 1.0), "names": ["a", "a"]}, "1 of them different"),
        ({"X": column(0.0, 1.0), "level": 1.0}, "level is 1.0"),
        ({"X": column(0.0, 1.0), "top": 0}, "top is 0"),
    ],
)
def test_what_cannot_be_ranked_is_refused(arguments, match) -> None:
    with pytest.raises(BotorchPrefError, match=match):
        leaderboard(Independent(), **arguments)


def test_a_model_of_ratings_has_a_board_without_win_rates() -> None:
    """Ranks, utilities and intervals need no link."""
    X = column(0.0, 0.4, 1.0)
    ratings = Ratings(torch.arange(3), torch.tensor([0.2, 0.5, 0.9]).double())
    model = LaplacePreferenceGP(X, feedback=[ratings]).eval()
    board = leaderboard(model, X, "abc")
    assert board.index.tolist() == list("cba")
    assert board["rank"].tolist() == [1, 2, 3]
    with torch.no_grad():
        mean = model.posterior(X).mean.squeeze(-1)
    assert board["utility"].tolist() == pytest.approx(mean.flip(0).tolist())
    assert "win_rate" not in board.columns
    assert board["best"].sum() == pytest.approx(1)
    with pytest.raises(UnsupportedFeedbackError, match="a likelihood of comparisons"):
        plot_probabilities(model, X)


# One first, one last, and three between them that beat each other in a circle.
MIDDLE = [[0, i] for i in range(1, 5)] + [[i, 4] for i in range(1, 4)]
MIDDLE += [[1, 2], [2, 3], [3, 1]]


@pytest.mark.parametrize("kind", [*ENGINES, VariationalPreferenceGP])
def test_equals_share_a_rank_under_every_engine(kind) -> None:
    logistic = kind is VariationalPreferenceGP
    likelihood = PairwiseLogitLikelihood() if logistic else PairwiseProbitLikelihood()
    for pairs, ranks in (
        ([[0, 1], [1, 2], [2, 0]], [1, 1, 1]),
        (MIDDLE, [1, 2, 2, 2, 5]),
    ):
        X = torch.eye(len(ranks), dtype=torch.double)
        kernel = LinearKernel().double()
        kernel.variance = 4.0
        model = kind(X, torch.tensor(pairs), likelihood=likelihood, covar_module=kernel)
        board = leaderboard(model.eval())
        assert board["rank"].tolist() == ranks
        # Intervals are those of draws, in which no two are equal.
        drawn = rank_interval(_drawn_ranks(model, X, NUM_SAMPLES, 0)[0], 0.95)
        ends = board.sort_index()[["rank_lower", "rank_upper"]].to_numpy().T
        assert ends.tolist() == [end.tolist() for end in drawn]


def test_ties_of_everybody_with_everybody_share_the_first_rank() -> None:
    X = torch.eye(5, dtype=torch.double)
    ties = Comparisons(None, ties=torch.combinations(torch.arange(5)))
    likelihood = RaoKupperLikelihood(items=torch.arange(5))
    model = EPPreferenceGP(
        X, ties, likelihood=likelihood, covar_module=LinearKernel().double()
    )
    assert leaderboard(model.eval())["rank"].tolist() == [1] * 5


def test_small_steps_do_not_add_up_to_one_rank() -> None:
    """Each item is not resolved from the next one, but from the next but one."""
    mean = column(4.0, 3.0, 2.0, 1.0, -7.0).squeeze(-1)
    ranks = _shared_ranks(mean, torch.full((5, 5), 1.5).double())
    assert ranks.tolist() == [1, 1, 3, 3, 5]
    # In any order of the items.
    shuffled = torch.tensor([3, 0, 4, 2, 1])
    ranks = _shared_ranks(mean[shuffled], torch.full((5, 5), 1.5).double())
    assert ranks.tolist() == [3, 1, 5, 3, 1]


def test_utilities_that_an_engine_resolves_have_ranks_of_their_own() -> None:
    """A thousandth of a deviation is more than any error of these engines."""
    step = 1e-3
    board = leaderboard(Independent(), column(0.0, step, 2 * step))
    assert board["rank"].tolist() == [1, 2, 3]
    # Means are known to half of their digits, in deviations of their difference.
    board = leaderboard(Independent(), column(0.0, 1e-9, 2e-9))
    assert board["rank"].tolist() == [1, 1, 1]


def test_the_share_that_the_first_of_two_equals_wins_leaves_out_ties() -> None:
    mean, deviation, noise, threshold = 0.7, 0.3, 0.8, 0.5
    normal = MultivariateNormal(torch.tensor([mean]), torch.tensor([[deviation**2]]))
    biased = SimpleNamespace(
        likelihood=PairwiseProbitLikelihood(noise, tie_threshold=threshold),
        covariate_posterior=lambda: GPyTorchPosterior(normal),
    )
    bias = position_bias(biased, 0.95)
    weights = [mean + z * deviation for z in (0.0, -1.959963985, 1.959963985)]
    assert bias.utility == pytest.approx(weights, abs=1e-5)
    for weight, share in zip(weights, bias.share, strict=True):
        won, lost = stats.norm.cdf(
            [(side * weight - threshold) / (2 * noise) ** 0.5 for side in (1, -1)]
        )
        assert share == pytest.approx(won / (won + lost), abs=1e-5)
