"""One ``ask`` of an optimisation by duels: fit, incumbent and acquisition function.

    python benchmarks/ask_time.py

Prints processor seconds of each part with 30 and with 100 answered duels, as
the suite of benchmarks plays them: Hartmann6, random duels answered without noise, the
fit from the model's defaults and the settings of the suite. And of `default_model` and
`next_question`, with the same 30 duels.
"""

from __future__ import annotations

import torch
from report import print_table, seconds, start
from torch import Tensor

from benchmarks.suite.runs.registry import ACQUISITIONS, distinct, make_fit
from botorch_pref import default_model, next_question
from botorch_pref.acquisition import incumbent
from botorch_pref.feedback import Comparisons
from botorch_pref.models import PreferenceGP
from botorch_pref.simulation.duel_loop import ChosenDuels, index_pairs
from botorch_pref.simulation.problems import make_problem

TO_REACH = {("ep", 30): 0.15, ("skew", 30): 0.3, ("ep", 100): 0.2, ("skew", 100): 0.6}
TODAYS_BEST = {30: "optuna-dashboard 0.30, Takeno 2.4, SkewGP's code 8.8", 100: "-"}
ACQUISITION = "exploring-eiig"
SEEDS = (0, 1, 2)
RECOMMENDED = {2: 0.15, 3: 0.2, 4: 0.2}
"""Seconds to reach of the recommended ask, by the number of options."""
RECOMMENDED_DUELS = 30


def answered_duels(num_duels: int, seed: int) -> tuple[torch.Tensor, Comparisons]:
    """Points and comparisons of random duels.

    Args:
        num_duels: How many.
        seed: Of the points.
    """
    problem = make_problem("hartmann6")
    generator = torch.Generator().manual_seed(seed)
    shape = (2, num_duels, problem.dim)
    first, second = torch.rand(shape, generator=generator, dtype=torch.float64)
    first_won = (problem.utility(first) >= problem.utility(second)).unsqueeze(-1)
    winners = torch.where(first_won, first, second)
    losers = torch.where(first_won, second, first)
    points, pairs = index_pairs(winners, losers)
    return points, Comparisons(pairs)


def one_ask(name: str, num_duels: int, seed: int) -> list[float]:
    """Seconds of the fit, of the incumbent and of the acquisition function.

    Args:
        name: Of the model on the command line.
        num_duels: How many duels were answered.
        seed: Of the duels.
    """
    points, comparisons = answered_duels(num_duels, seed)
    models: list[PreferenceGP] = []
    fit = seconds(lambda: models.append(make_fit(name)(points, comparisons)))
    (model,) = models
    # Also the first prediction, hence the draws of SkewGP.
    best: list[Tensor] = []
    find = seconds(lambda: best.append(incumbent(model).reshape(-1)))
    propose = ChosenDuels(
        dim=points.shape[-1],
        num_random=0,
        acquisition=ACQUISITION,
        make_acquisition=distinct(ACQUISITIONS[ACQUISITION]),
        generator=torch.Generator().manual_seed(seed),
    )
    return [fit, find, seconds(lambda: propose(num_duels, model, *best))]


def recommended_ask(size: int, seed: int) -> list[float]:
    """Seconds of the recommended fit, and of the recommended question.

    Args:
        size: Number of options.
        seed: Of the duels.
    """
    points, comparisons = answered_duels(RECOMMENDED_DUELS, seed)
    cube = make_problem("hartmann6").cube
    models: list[PreferenceGP] = []
    fit = seconds(lambda: models.append(default_model(points, comparisons)))
    return [fit, seconds(lambda: next_question(models[0], cube, size, seed=seed))]


def print_recommended() -> None:
    """Prints the table of the recommended ask."""
    rows = []
    for size, to_reach in RECOMMENDED.items():
        recommended_ask(size, SEEDS[0])
        parts = torch.tensor([recommended_ask(size, seed) for seed in SEEDS])
        fit, question = parts.mean(0).tolist()
        rows.append([size, fit, question, fit + question, to_reach])
    print("\ndefault_model and next_question")
    print_table(["options", "fit", "question", "total", "to reach"], rows)


def main() -> None:
    """Prints the tables."""
    start(f"one ask, acquisition '{ACQUISITION}', mean of {len(SEEDS)} runs, seconds")
    rows = []
    for (name, num_duels), to_reach in TO_REACH.items():
        one_ask(name, 5, 0)
        parts = torch.tensor([one_ask(name, num_duels, seed) for seed in SEEDS])
        fit, best, acquisition = parts.mean(0).tolist()
        total = fit + best + acquisition
        rows.append(
            [
                num_duels,
                name,
                fit,
                best,
                acquisition,
                total,
                to_reach,
                TODAYS_BEST[num_duels],
            ]
        )
    print_table(
        [
            "duels",
            "model",
            "fit",
            "incumbent",
            "acquisition",
            "total",
            "to reach",
            "today's best",
        ],
        rows,
    )
    print_recommended()


if __name__ == "__main__":
    main()
