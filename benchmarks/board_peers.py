"""One file of duels with ties, ranked by this library and by others.

    pip install choix evalica leaderbot
    pip install --no-deps arena-rank; pip install jax optax jaxtyping
    python benchmarks/board_peers.py [--sizes 100:20000 4000:20000]

Prints, of simulated duels whose ties follow Davidson (1970), the processor seconds of
each library that is installed; the log-loss in nats of as many new duels that are no
ties; the correlation of utilities with the truth; and the share of items whose true
rank lies in its 95 % interval, with the mean width of these. Ranks are free of units,
in which the models of ties differ. Rank intervals of arena-rank follow from those of
its ratings: an item is below all whose lower end is above its upper end. Libraries
without a model of ties see half a win for both. The bootstrap fits Bradley and Terry's
model, with a ridge that keeps items without a win finite, to 100 resamples.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from report import chosen_settings, print_table, start
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import rankdata

from botorch_pref.evaluation import ItemRanking, rank_items

SIZES = (("items", 100.0, 20_000.0), ("items", 4000.0, 20_000.0))
SPREAD, TIES = 1.3, 0.5
"""Deviation of the true utilities, and Davidson's factor of ties."""
RESAMPLES, RIDGE = 100, 1e-3
MOST_ITEMS = 1000
"""Items that choix and evalica's Newman fit in less than a minute.

The one has square matrices; the other does not end with 4,000 items, of which some won
or lost all.
"""

Array = NDArray[np.float64]


class Duels(NamedTuple):
    """Items by number, and 1, 0 or -1 for the first, a tie or the second, ``m``."""

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    outcome: NDArray[np.int64]

    @property
    def wins(self) -> tuple[NDArray[np.int64], NDArray[np.int64], Array]:
        """Winners, losers and weights, half of one for both sides of a tie."""
        one, other = self.outcome >= 0, self.outcome <= 0
        weight = np.where(self.outcome == 0, 0.5, 1.0)
        won = np.concatenate([self.first[one], self.second[other]])
        lost = np.concatenate([self.second[one], self.first[other]])
        return won, lost, np.concatenate([weight[one], weight[other]])


class Board(NamedTuple):
    """Utilities of items, the log odds of decided duels, and ends of ranks if any."""

    utility: Array
    log_odds: Callable[[Array], Array]
    ranks: tuple[Array, Array] | None = None


Fit = Callable[[int, Duels], Board]
"""A board by the number of items and their duels."""


def same(gap: Array) -> Array:
    """Gaps themselves, which are the log odds of most models."""
    return gap


def davidson(utility: Array, number: int, generator: np.random.Generator) -> Duels:
    """Draws duels of random pairs."""
    items = len(utility)
    first = generator.integers(0, items, number)
    second = (first + generator.integers(1, items, number)) % items
    gap = utility[first] - utility[second]
    weights = np.stack([np.exp(gap / 2), np.full(number, TIES), np.exp(-gap / 2)])
    level = generator.random(number) * weights.sum(0)
    outcome = 1 - (level[None] > weights.cumsum(0)).sum(0)
    return Duels(first, second, outcome)


def ours(items: int, duels: Duels) -> Board:
    """Ranks by `rank_items`."""
    swapped = duels.outcome < 0
    winner = np.where(swapped, duels.second, duels.first)
    loser = np.where(swapped, duels.first, duels.second)
    columns = {"winner": winner, "loser": loser, "tie": duels.outcome == 0}
    ranking = rank_items(pd.DataFrame(columns))
    board = ranking.board().reindex(range(items))
    lower, upper = (board[f"rank_{end}"].to_numpy() for end in ("lower", "upper"))
    if isinstance(ranking, ItemRanking):
        likelihood = next(iter(ranking.model.likelihoods.values()))
        threshold = float(likelihood.tie_threshold.detach())
    else:
        threshold = ranking.threshold

    def log_odds(gap: Array) -> Array:
        return np.logaddexp(0, gap + threshold) - np.logaddexp(0, threshold - gap)

    return Board(board["utility"].to_numpy(), log_odds, (lower, upper))


def bradley_terry(items: int, duels: Duels, counts: Array, begin: Array) -> Array:
    """The utilities that fit duels which count as often as is said."""
    first, second, outcome = duels
    share = (outcome + 1) / 2

    def loss(u: Array) -> tuple[float, Array]:
        gap = u[first] - u[second]
        value = counts @ (np.logaddexp(0, gap) - share * gap)
        slope = counts * (expit(gap) - share)
        gradient = np.bincount(first, slope, items) - np.bincount(second, slope, items)
        return value + 0.5 * RIDGE * u @ u, gradient + RIDGE * u

    return np.asarray(minimize(loss, begin, jac=True, method="L-BFGS-B").x)


def bootstrap(items: int, duels: Duels) -> Board:
    """Ranks by resampled duels."""
    generator, number = np.random.default_rng(1), len(duels.first)
    best = bradley_terry(items, duels, np.ones(number), np.zeros(items))
    ranks = []
    for _ in range(RESAMPLES):
        counts = generator.multinomial(number, np.full(number, 1 / number))
        drawn = bradley_terry(items, duels, counts.astype(float), best)
        ranks.append(rankdata(-drawn))
    lower, upper = np.quantile(ranks, [0.025, 0.975], axis=0)
    return Board(best, same, (np.floor(lower), np.ceil(upper)))


def choix_board(items: int, duels: Duels) -> Board:
    """I-LSR of choix, by the matrix of wins."""
    import choix

    wins = np.zeros((items, items))
    won, lost, weight = duels.wins
    np.add.at(wins, (won, lost), weight)
    return Board(np.asarray(choix.ilsr_pairwise_dense(wins, alpha=1e-4)), same)


def evalica_board(items: int, duels: Duels, name: str) -> Board:
    """A fit of evalica: Newman's knows Davidson's ties."""
    import evalica

    # As lists, or each winner is compared in Python.
    kinds = {1: evalica.Winner.X, 0: evalica.Winner.Draw, -1: evalica.Winner.Y}
    winners = [kinds[side] for side in duels.outcome.tolist()]
    index = pd.Index(range(items))
    fit = getattr(evalica, name)
    result = fit(duels.first, duels.second, winners, index=index)
    scores = result.scores.loc[range(items)].to_numpy()
    return Board(np.log(scores.clip(1e-12)), same)


def arena_board(items: int, duels: Duels) -> Board:
    """Ratings of arena-rank, with its sandwich intervals."""
    from arena_rank.models.bradley_terry import BradleyTerry
    from arena_rank.utils.data_utils import PairDataset

    words = {1: "model_a", 0: "tie", -1: "model_b"}
    winner = [words[side] for side in duels.outcome.tolist()]
    columns = {"model_a": duels.first, "model_b": duels.second, "winner": winner}
    model = BradleyTerry(items)
    result = model.compute_ratings_and_cis(
        PairDataset.from_pandas(pd.DataFrame(columns))
    )
    rating, lower, upper = (
        np.asarray(result[name]) for name in ("ratings", "rating_lower", "rating_upper")
    )
    best = 1 + items - np.searchsorted(np.sort(lower), upper, side="right")
    worst = items - np.searchsorted(np.sort(upper), lower, side="left")
    return Board(rating / model.alpha, same, (best, worst))


def leaderbot_board(items: int, duels: Duels) -> Board:
    """Davidson's model of leaderbot."""
    from leaderbot.models import Davidson

    first, second, outcome = duels
    votes = np.stack([outcome > 0, outcome < 0, outcome == 0], 1).astype(int)
    names = [f"m{i}" for i in range(items)]
    pairs = np.stack([first, second], 1)
    model = Davidson({"X": pairs, "Y": votes, "models": names}, k_cov=None)
    model.train()
    return Board(np.asarray(model.param[:items]), same)


def fits(items: int) -> dict[str, Fit]:
    """Ours, the bootstrap, and those of the libraries that are installed."""
    boards: dict[str, Fit] = {"botorch_pref": ours, "bootstrap": bootstrap}
    if find_spec("choix") and items <= MOST_ITEMS:
        boards["choix, I-LSR"] = choix_board
    if find_spec("evalica"):
        names = ("bradley_terry", "newman")
        for name in names if items <= MOST_ITEMS else names[:1]:
            boards[f"evalica, {name}"] = lambda n, d, name=name: evalica_board(
                n, d, name
            )
    if find_spec("arena_rank") and find_spec("optax"):
        boards["arena-rank"] = arena_board
    if find_spec("leaderbot"):
        boards["leaderbot, Davidson"] = leaderbot_board
    return boards


def row(board: Board, truth: Array, new: Duels) -> list[float | str]:
    """The log-loss of new duels, the correlation, and how intervals hold ranks."""
    gap = board.utility[new.first] - board.utility[new.second]
    decided = new.outcome != 0
    loss = np.logaddexp(0, -new.outcome * board.log_odds(gap))[decided].mean()
    spread = board.utility.std()
    correlation = np.corrcoef(board.utility, truth)[0, 1] if spread > 0 else 0.0
    numbers: list[float | str] = [float(loss), float(correlation)]
    if board.ranks is None:
        return [*numbers, "", ""]
    (lower, upper), rank = board.ranks, rankdata(-truth)
    held = (lower <= rank) & (rank <= upper)
    return [*numbers, f"{100 * held.mean():.1f} %", float((upper - lower).mean())]


def study(items: int, number: int) -> None:
    """Prints the table of one size."""
    generator = np.random.default_rng(0)
    truth = generator.normal(0.0, SPREAD, items)
    duels, new = (davidson(truth, number, generator) for _ in range(2))
    won, lost, _ = duels.wins
    numbers = np.bincount(won, minlength=items), np.bincount(lost, minlength=items)
    winless, unbeaten = (int((count == 0).sum()) for count in numbers)
    tied = 100 * (duels.outcome == 0).mean()
    print(
        f"{items:,} items, {number:,} duels, {tied:.0f} % ties; {winless} items lost "
        f"all, {unbeaten} won all"
    )
    rows = [["truth", 0.0, *row(Board(truth, same), truth, new)]]
    for name, fit in fits(items).items():
        begin = time.process_time()
        board = fit(items, duels)
        rows.append([name, time.process_time() - begin, *row(board, truth, new)])
    head = ["fit", "seconds", "log-loss of new duels", "correlation", "ranks held"]
    print_table([*head, "mean width"], rows)


def main() -> None:
    """Runs the sizes that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", nargs="+", metavar="ITEMS:DUELS")
    arguments = parser.parse_args()
    start("Boards of other libraries")
    sizes = arguments.sizes and [f"items:{size}" for size in arguments.sizes]
    for _, items, number in chosen_settings(sizes, SIZES):
        study(int(items), int(number))


if __name__ == "__main__":
    main()
