"""Thousands of items and up to a million duels, ranked with intervals on one core.

    pip install choix evalica
    python benchmarks/many_items.py [--sizes 4000:113000 7600:195000 20000:1000000]

Prints, of simulated duels between random items, some of them ties, the processor
seconds of reading the file, of the fit and of the board, and the most memory of the
process; the largest difference of a utility to the mode that SciPy's L-BFGS finds under
the same prior; and the share of items whose true utility, and true rank, lie in their
95 % intervals. Then the seconds of choix and evalica, which have no intervals, for the
same duels, and the log-loss in nats of as many new duels that are no ties, beside that
of the true utilities. evalica 0.4.2 divides by the geometric mean of all scores, which
an item without a win makes zero, and one without a loss infinite: all scores then end
equal.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
from report import chosen_settings, print_table, start
from scipy.optimize import minimize
from scipy.special import log_expit
from scipy.stats import rankdata

from botorch_pref.datasets import read_answers
from botorch_pref.evaluation.many_items import ChoiceDesign
from botorch_pref.evaluation.many_ranking import design_of_answers, rank_many_items

SIZES = (("items", 4000.0, 113_000.0), ("items", 7600.0, 195_000.0))
SIZES += (("items", 20_000.0, 1_000_000.0),)
SPREAD, THRESHOLD = 1.3, 0.2
MOST_OF_CHOIX = 5000
"""Items with whose square matrices choix takes less than minutes."""
SECONDS_TO_REACH, GIGABYTES_TO_REACH = 60, 4


Answers = tuple[np.ndarray, np.ndarray, np.ndarray]


def duels(utility: np.ndarray, number: int, generator: np.random.Generator) -> Answers:
    """Random pairs of items, and 1, 0 or -1 for the first, a tie or the second."""
    items = len(utility)
    first = generator.integers(0, items, number)
    second = (first + generator.integers(1, items, number)) % items
    lead = utility[first] - utility[second] + generator.logistic(size=number)
    return first, second, np.sign(lead) * (np.abs(lead) > THRESHOLD)


def write_duels(
    path: Path, first: np.ndarray, second: np.ndarray, outcome: np.ndarray
) -> None:
    """Writes a file as arenas have it."""
    winner = np.where(outcome > 0, "model_a", np.where(outcome < 0, "model_b", "tie"))
    columns = {"model_a": first, "model_b": second, "winner": winner}
    table = pd.DataFrame(columns)
    table[["model_a", "model_b"]] = "m" + table[["model_a", "model_b"]].astype(str)
    table.to_csv(path, index=False)


def scipy_mode(design: ChoiceDesign, variance: float) -> np.ndarray:
    """The most probable parameters by L-BFGS."""
    prior = np.ones(design.rows.shape[1])
    prior[: design.num_utilities] = 1 / variance

    def loss(x: np.ndarray) -> tuple[float, np.ndarray]:
        value = design.log_likelihood(x) - 0.5 * prior @ x**2
        return -value, prior * x - design.gradient(x)

    start = np.zeros(len(prior))
    start[-1] = 0.5
    bounds = [(None, None)] * (len(prior) - 1) + [(1e-3, None)]
    options = {"maxiter": 10_000, "ftol": 1e-15, "gtol": 1e-6, "maxfun": 20_000}
    found = minimize(
        loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options
    )
    return np.asarray(found.x)


def log_loss(
    utility: np.ndarray, first: np.ndarray, second: np.ndarray, outcome: np.ndarray
) -> float:
    """Nats of the duels that are no ties, given that they are none."""
    gap = (utility[first] - utility[second]) * outcome
    won, lost = log_expit(gap - THRESHOLD), log_expit(-gap - THRESHOLD)
    return float((np.logaddexp(won, lost) - won)[outcome != 0].mean())


Peer = Callable[[int, np.ndarray, np.ndarray], np.ndarray]
"""Utilities by the number of items, and the winners and losers of duels."""


def peers() -> dict[str, Peer]:
    """Fits of the libraries that are installed, which know no ties."""
    fits: dict[str, Peer] = {}
    if find_spec("choix"):
        import choix

        def spectral(items: int, won: np.ndarray, lost: np.ndarray) -> np.ndarray:
            pairs = np.stack([won, lost], 1)
            return np.asarray(choix.ilsr_pairwise(items, pairs, alpha=1e-4))

        fits["choix"] = spectral
    if find_spec("evalica"):
        import evalica

        def minorised(items: int, won: np.ndarray, lost: np.ndarray) -> np.ndarray:
            winners = [evalica.Winner.X] * len(won)
            index = pd.Index(range(items))
            fit = evalica.bradley_terry(
                won, lost, winners, index=index, tolerance=1e-12
            )
            # Whoever lost all has the score 0.
            return np.log(fit.scores.loc[range(items)].clip(1e-9).to_numpy())

        fits["evalica"] = minorised
    return fits


def ranked(answers: Answers, utility: np.ndarray) -> tuple[np.ndarray, float]:
    """Prints how a file is ranked; the utilities, and the seconds of the fit."""
    items, number = len(utility), len(answers[0])
    clock = [time.process_time()]
    with TemporaryDirectory() as folder:
        path = Path(folder, "answers.csv")
        write_duels(path, *answers)
        clock.append(time.process_time())
        table = read_answers(path).answers
    clock.append(time.process_time())
    ranking = rank_many_items(table)
    clock.append(time.process_time())
    board = ranking.board()
    clock.append(time.process_time())
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    places = [int(str(name)[1:]) for name in board.index]
    truth, rank = (utility - utility.mean())[places], rankdata(-utility)[places]
    held = (board["lower"] <= truth) & (truth <= board["upper"])
    held_rank = (board["rank_lower"] <= rank) & (rank <= board["rank_upper"])
    design = design_of_answers(ranking.names, table)
    mode = scipy_mode(design, ranking.posterior.prior_variance)
    gap = float(np.abs(mode - ranking.posterior.mean).max())
    times = np.diff(clock)[1:].tolist()
    row = [items, number, *times, sum(times), memory, gap]
    row += [float(held.mean()), float(held_rank.mean())]
    header = ["items", "duels", "read", "fit", "board", "all", "GB", "gap"]
    print_table([*header, "utilities held", "ranks held"], [row])
    fitted = np.zeros(items)
    fitted[places] = board["utility"]
    return fitted, times[1]


def study(items: int, number: int) -> None:
    """Prints the tables of one size."""
    generator = np.random.default_rng(0)
    utility = generator.normal(0.0, SPREAD, items)
    answers, new = (duels(utility, number, generator) for _ in range(2))
    fitted, time_of_fit = ranked(answers, utility)
    rows: list[tuple[object, ...]] = [
        ("truth", 0.0, log_loss(utility, *new)),
        ("botorch_pref", time_of_fit, log_loss(fitted, *new)),
    ]
    first, second, outcome = answers
    won = np.where(outcome > 0, first, second)[outcome != 0]
    lost = (first + second)[outcome != 0] - won
    for name, fit in peers().items():
        if name == "choix" and items > MOST_OF_CHOIX:
            continue
        begin = time.process_time()
        scores = fit(items, won, lost)
        rows.append((name, time.process_time() - begin, log_loss(scores, *new)))
    print_table(["fit", "seconds", "log-loss of new duels"], rows)


def main() -> None:
    """Runs the sizes that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", nargs="+", metavar="ITEMS:DUELS")
    arguments = parser.parse_args()
    start("Many items")
    print(
        f"To reach: {SECONDS_TO_REACH} s and {GIGABYTES_TO_REACH} GB; the truth is in "
        "95 % of the intervals.\n"
    )
    sizes = chosen_settings(
        None if arguments.sizes is None else [f"items:{s}" for s in arguments.sizes],
        SIZES,
    )
    for _, items, number in sizes:
        study(int(items), int(number))


if __name__ == "__main__":
    main()
