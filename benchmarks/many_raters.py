"""A hundred raters by a thousand items, ranked from their duels on one core.

    python benchmarks/many_raters.py [--cases plain home all] [--raters 100]
        [--items 1000] [--simulations 1]

Raters answer 50 to 200 random duels each, and agree with a correlation of 0.6. Each
case has more to learn than the plain one: features of the items, two categories, a bias
of each rater towards what is shown first, ties, a noise of each rater, categories with
biases and noises together, and all at once. Prints the processor seconds of the fit, of
the board and of the table of raters, the most memory of the process, and the shares of
items whose true mean utility and true rank, and of raters whose true noise, lie in
their 95 % intervals.
"""

from __future__ import annotations

import argparse
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

import numpy as np
import pandas as pd
import torch
from report import print_table, start
from scipy.stats import rankdata

from botorch_pref.evaluation import ItemRanking, rank_items

LEARNED = {
    "plain": set(),
    "features": {"features"},
    "category": {"category"},
    "home": {"home"},
    "ties": {"ties"},
    "reliability": {"reliability"},
    "together": {"category", "home", "reliability"},
    "all": {"features", "category", "home", "ties", "reliability"},
}
AGREEMENT, AGREEMENT_OF_CATEGORIES, VARIANCE = 0.6, 0.7, 2.0
FEATURES, LENGTHSCALE, EXPLAINED = 3, 0.5, 0.5
BIAS, SPREAD_OF_BIASES, THRESHOLD, LOG_NOISE = 0.3, 0.3, 0.2, 0.7
FEWEST, MOST = 50, 200
SECONDS_TO_REACH, GIGABYTES_TO_REACH = 120, 4


@dataclass(frozen=True)
class Simulation:
    """Answers, features of items, and the truth.

    ``utility`` is that of each rater, category and item, and ``noise`` that of each
    rater, relative to their geometric mean.
    """

    answers: pd.DataFrame
    features: pd.DataFrame | None
    utility: np.ndarray
    noise: np.ndarray


def simulated(learned: set[str], raters: int, items: int, seed: int) -> Simulation:
    """Draws items, raters and their answers."""
    generator = np.random.default_rng(seed)
    names = np.array([f"item {i}" for i in range(items)])
    root, features = np.eye(items), None
    if "features" in learned:
        x = generator.random((items, FEATURES))
        squares = ((x[:, None] - x) / LENGTHSCALE) ** 2
        covariance = EXPLAINED * np.exp(-0.5 * squares.sum(-1))
        root = np.linalg.cholesky(covariance + (1 - EXPLAINED) * root)
        features = pd.DataFrame(x, index=names, columns=[*"abc"])
    categories = 1 + ("category" in learned)

    def drawn() -> np.ndarray:
        parts = generator.normal(size=(categories + 1, items)) @ root.T
        share = AGREEMENT_OF_CATEGORIES if categories > 1 else 0.0
        return share**0.5 * parts[:1] + (1 - share) ** 0.5 * parts[1:]

    shared = drawn()
    parts = [
        AGREEMENT**0.5 * shared + (1 - AGREEMENT) ** 0.5 * drawn()
        for _ in range(raters)
    ]
    utility = VARIANCE**0.5 * np.stack(parts)
    log_noise = LOG_NOISE * ("reliability" in learned) * generator.normal(size=raters)
    log_noise -= log_noise.mean()
    bias = BIAS + SPREAD_OF_BIASES * generator.normal(size=raters)
    bias *= "home" in learned
    number = generator.integers(FEWEST, MOST + 1, raters)
    who = np.repeat(np.arange(raters), number)
    first = generator.integers(0, items, len(who))
    second = (first + generator.integers(1, items, len(who))) % items
    about = generator.integers(0, categories, len(who))
    ahead = utility[who, about, first] - utility[who, about, second]
    ahead = ahead * np.exp(-0.5 * log_noise)[who] + bias[who]
    ahead += generator.logistic(size=len(who))
    columns = {
        "winner": names[np.where(ahead > 0, first, second)],
        "loser": names[np.where(ahead > 0, second, first)],
        "rater": who,
    }
    if "ties" in learned:
        columns["tie"] = np.abs(ahead) < THRESHOLD
    if "home" in learned:
        columns["home"] = names[first]
    if categories > 1:
        columns["category"] = np.array(["sweet", "sour"])[about]
    answers = pd.DataFrame(columns)
    return Simulation(answers, features, utility, np.exp(log_noise))


def scores(case: str, raters: int, items: int, seed: int) -> list[object]:
    """A row of the table."""
    torch.set_num_threads(1)
    learned = LEARNED[case]
    simulation = simulated(learned, raters, items, seed)
    clock = [time.process_time()]
    ranking = rank_items(
        simulation.answers, simulation.features, reliability="reliability" in learned
    )
    assert isinstance(ranking, ItemRanking)
    clock.append(time.process_time())
    board = ranking.board()
    clock.append(time.process_time())
    held_noise = float("nan")
    if "reliability" in learned:
        # Raters stand in the order of their texts.
        table = ranking.reliability().loc[[*range(raters)]]
        held = (table["lower"] < simulation.noise) & (simulation.noise < table["upper"])
        held_noise = float(held.mean())
    clock.append(time.process_time())
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    places = [int(str(name).removeprefix("item ")) for name in board.index]
    # All raters answer about both categories.
    truth = simulation.utility.mean((0, 1))[places]
    truth -= truth.mean()
    rank = rankdata(-truth)
    held = (board["lower"] <= truth) & (truth <= board["upper"])
    held_rank = (board["rank_lower"] <= rank) & (rank <= board["rank_upper"])
    times = np.diff(clock).tolist()
    shares = [float(held.mean()), float(held_rank.mean()), held_noise]
    correlation = float(np.corrcoef(truth, board["utility"])[0, 1])
    return [case, len(simulation.answers), *times, memory, correlation, *shares]


def main() -> None:
    """Prints a table of each case, whose simulations have a process each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", nargs="+", choices=LEARNED, default=[*LEARNED])
    parser.add_argument("--raters", type=int, default=100)
    parser.add_argument("--items", type=int, default=1000)
    parser.add_argument("--simulations", type=int, default=1)
    options = parser.parse_args()
    start(f"{options.raters} raters by {options.items} items")
    print(f"To reach: {SECONDS_TO_REACH} s and {GIGABYTES_TO_REACH} GB; 95 % held.\n")
    header = ["case", "answers", "fit", "board", "raters", "GB", "correlation"]
    header += ["utilities held", "ranks held", "noises held"]
    context, size = get_context("spawn"), (options.raters, options.items)
    # A process for each: the most memory is that of its life.
    with ProcessPoolExecutor(1, context, max_tasks_per_child=1) as pool:
        for case in options.cases:
            seeds = range(options.simulations)
            tasks = [pool.submit(scores, case, *size, seed) for seed in seeds]
            print_table(header, [task.result() for task in tasks])


if __name__ == "__main__":
    main()
