"""Leaderboards of the Chatbot Arena and of simulated leagues, beside other libraries.

    pip install leaderbot choix evalica
    python benchmarks/leaderboards.py [--factors] [--leagues 100]

Prints, of 1,670,250 votes about 129 models (14 August 2024, shipped with leaderbot
under its BSD license), the processor seconds of a fit with its evidence and of a board
with rank intervals, and the log-loss in nats of the votes about a fifth of the pairs
that a model has not seen: wins, losses and ties, both bad among these. leaderbot's
models with factors take minutes (--factors). choix and evalica know no ties: they are
scored on wins and losses, and so are we beside them. Then, of simulated leagues, the
share of items whose true rank lies in its 95 % interval, beside the bootstrap of
Bradley-Terry, and the posterior probability of these intervals: ranks are whole
numbers, and few intervals have just 95 %. Where the judge errs as the models assume,
also the share of items whose utility above the mean of all lies in its interval.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from botorch.fit import fit_gpytorch_mll
from gpytorch.kernels import LinearKernel
from report import print_table, start
from torch import Generator, Tensor

from botorch_pref import (
    Comparisons,
    EPPreferenceGP,
    LaplacePreferenceGP,
    PairwiseLogitLikelihood,
    PreferenceMarginalLogLikelihood,
    RaoKupperLikelihood,
)
from botorch_pref.evaluation import leaderboard, predictive_log_probability
from botorch_pref.models import PreferenceGP

SECONDS_TO_REACH = 3.0
BEST_OF_LEADERBOT = "1.0581"
"""With five factors and a covariance: --factors."""
COVERAGE_TO_REACH = "93 to 97 %"
HELD_OUT = 0.2
ITEMS, DUELS, SPREAD, TIE_THRESHOLD = 20, 10, 0.6, 0.5
RESAMPLES, DRAWS = 200, 4096
MODELS = {"EP": EPPreferenceGP, "Laplace": LaplacePreferenceGP}
NOISES = ("logistic", "normal")
LOGISTIC = math.pi / 3**0.5
"""Deviation of the standard logistic distribution."""


def comparisons(pairs: Tensor, votes: Tensor) -> Comparisons:
    """Votes about pairs as counted comparisons.

    Args:
        pairs: ``m x 2`` items.
        votes: ``m x 3`` numbers of wins, losses and ties.
    """
    won, lost, tied = votes.unbind(-1)
    ends = torch.cat([pairs[won > 0], pairs[lost > 0].flip(-1)])
    counts = torch.cat([won[won > 0], lost[lost > 0]])
    some = bool((tied > 0).any())
    return Comparisons(
        ends,
        pairs[tied > 0] if some else None,
        pair_counts=counts,
        tie_counts=tied[tied > 0] if some else None,
    )


def fitted(
    model_class: type[PreferenceGP], num_items: int, answers: Comparisons
) -> PreferenceGP:
    """A model of items without features, whose scales Laplace's evidence chooses.

    Args:
        model_class: The engine of the posterior.
        num_items: Number of items.
        answers: About them.
    """
    likelihood: PairwiseLogitLikelihood | RaoKupperLikelihood
    if answers.ties is None:
        likelihood = PairwiseLogitLikelihood()
    else:
        likelihood = RaoKupperLikelihood(items=torch.arange(num_items))
    points = torch.eye(num_items, dtype=torch.float64)
    options = {"likelihood": likelihood, "covar_module": LinearKernel()}
    quick = LaplacePreferenceGP(points, answers, **options)
    fit_gpytorch_mll(PreferenceMarginalLogLikelihood(quick.likelihood, quick))
    return model_class(points, answers, **options).eval()


def log_loss(model: PreferenceGP, answers: Comparisons) -> float:
    """Mean log-loss of held-out answers in nats.

    Args:
        model: Fitted.
        answers: That it has not seen.
    """
    points = torch.eye(model.datapoints.shape[-1], dtype=torch.float64)
    with torch.no_grad():
        told = predictive_log_probability(answers, model, points)
    counts = answers.answer_counts
    return -float((told * counts).sum() / counts.sum())


def timed(function: Callable[[], Any]) -> tuple[Any, float]:
    """What a function gives and its processor seconds.

    Args:
        function: What to time.
    """
    begin = time.process_time()
    result = function()
    return result, time.process_time() - begin


# --- The arena


def arena_rows(factors: bool) -> Iterator[list[str]]:
    """Rows of the table of the arena.

    Args:
        factors: Whether leaderbot's models with factors are fitted too.
    """
    import leaderbot

    data = leaderbot.load(tie="both")
    train, test = leaderbot.split(data, test_ratio=HELD_OUT, seed=0)
    told, unseen, everything = (
        comparisons(torch.as_tensor(part["X"]), torch.as_tensor(part["Y"]).long())
        for part in (train, test, data)
    )
    count = len(data["models"])
    # What a process does once, such as loading parts of torch, is no part of a fit.
    leaderboard(fitted(EPPreferenceGP, count, told))
    for name, model_class in MODELS.items():
        model, fit = timed(lambda c=model_class: fitted(c, count, everything))  # type: ignore[misc]
        _, board = timed(lambda m=model: leaderboard(m))  # type: ignore[misc]
        loss = log_loss(fitted(model_class, count, told), unseen)
        times = [f"{fit:.1f}", f"{board:.1f}", f"{SECONDS_TO_REACH:.1f}"]
        yield [name, *times, f"{loss:.4f}", BEST_OF_LEADERBOT]
    votes = np.asarray(test["Y"])
    for name, make in leaderbot_models(factors):
        model = make(train)
        _, fit = timed(model.train)
        loss = -(votes * np.log(model.infer(test["X"]))).sum() / votes.sum()
        times = [f"{fit:.1f}", "no intervals", ""]
        yield [f"leaderbot, {name}", *times, f"{loss:.4f}", ""]


def leaderbot_models(factors: bool) -> list[tuple[str, Callable[[Any], Any]]]:
    """Its models with ties, by name.

    Args:
        factors: Whether those with factors are among them.
    """
    from leaderbot.models import Davidson, RaoKupper

    kinds = [("Rao-Kupper", RaoKupper), ("Davidson", Davidson)]
    settings: list[tuple[str, int | None, int]] = [("", None, 0)]
    if factors:
        settings += [(", 3 factors", None, 3), (", 5 factors and covariance", 0, 5)]
    return [
        (name + told, lambda data, c=cls, k=k, t=t: c(data, k_cov=k, k_tie=t))  # type: ignore[misc]
        for told, k, t in settings
        for name, cls in kinds
    ]


def decided_rows() -> Iterator[list[str]]:
    """Rows of the table of wins and losses alone."""
    import choix
    import evalica
    import leaderbot

    data = leaderbot.load(tie="none")
    train, test = leaderbot.split(data, test_ratio=HELD_OUT, seed=0)
    count = len(data["models"])
    told, unseen = (
        comparisons(torch.as_tensor(p["X"]), decided(p["Y"])) for p in (train, test)
    )
    for name, model_class in MODELS.items():
        model, fit = timed(lambda c=model_class: fitted(c, count, told))  # type: ignore[misc]
        yield [name, f"{fit:.1f}", f"{log_loss(model, unseen):.4f}"]
    assert told.pairs is not None
    wins = np.zeros((count, count))
    np.add.at(wins, tuple(told.pairs.T.numpy()), told.answer_counts.numpy())
    strengths, fit = timed(lambda: choix.ilsr_pairwise_dense(wins, alpha=0.01))
    yield ["choix, I-LSR", f"{fit:.1f}", f"{strength_loss(strengths, unseen):.4f}"]
    ends = told.pairs.tolist()
    result, fit = timed(
        lambda: evalica.bradley_terry(
            [a for a, _ in ends],
            [b for _, b in ends],
            [evalica.Winner.X] * len(ends),
            weights=told.answer_counts.tolist(),
        )
    )
    scores = result.scores.reindex(range(count)).to_numpy()
    loss = strength_loss(np.log(scores), unseen)
    yield ["evalica, Bradley-Terry", f"{fit:.1f}", f"{loss:.4f}"]


def decided(votes: Any) -> Tensor:
    """Wins and losses without ties, ``m x 3``.

    Args:
        votes: ``m x 3`` numbers of votes.
    """
    counts = torch.as_tensor(votes).long().clone()
    counts[:, 2] = 0
    return counts


def strength_loss(strengths: Any, answers: Comparisons) -> float:
    """Log-loss of Bradley-Terry with known strengths.

    Args:
        strengths: Logarithms, one an item.
        answers: Without ties.
    """
    assert answers.pairs is not None
    won, lost = torch.as_tensor(strengths)[answers.pairs].unbind(-1)
    losses = torch.nn.functional.softplus(lost - won)
    counts = answers.answer_counts
    return float((losses * counts).sum() / counts.sum())


# --- Simulated leagues


def league(generator: Generator, noise: str) -> tuple[Tensor, Tensor, Tensor]:
    """Utilities of items, pairs of them, and votes about each pair.

    Args:
        generator: Of the draws.
        noise: Of the judge, of a deviation of 1 an item.
    """
    utilities = SPREAD * torch.randn(ITEMS, generator=generator, dtype=torch.float64)
    pairs = torch.combinations(torch.arange(ITEMS))
    gap = utilities[pairs[:, 0]] - utilities[pairs[:, 1]]
    shape = len(pairs), DUELS
    if noise == "normal":
        heard = torch.randn(shape, generator=generator, dtype=torch.float64)
    else:
        shares = torch.rand(shape, generator=generator, dtype=torch.float64)
        heard = shares.logit() / LOGISTIC
    seen = gap.unsqueeze(-1) + 2**0.5 * heard
    tied = seen.abs() < TIE_THRESHOLD
    votes = [~tied & (seen > 0), ~tied & (seen < 0), tied]
    return utilities, pairs, torch.stack([vote.sum(-1) for vote in votes], -1)


def posterior_ranks(model: PreferenceGP) -> Tensor:
    """Ranks of the items in draws of their utilities, ``DRAWS x n``.

    Args:
        model: Fitted.
    """
    with torch.no_grad():
        points = torch.eye(ITEMS, dtype=torch.float64)
        # Others than those that the leaderboard took.
        generator = Generator().manual_seed(1)
        size = torch.Size([DRAWS, ITEMS])
        base = torch.randn(size, generator=generator, dtype=torch.float64)
        posterior: Any = model.posterior(points)
        drawn = posterior.rsample_from_base_samples(torch.Size([DRAWS]), base)
    utilities = drawn.squeeze(-1)
    return 1 + (utilities.unsqueeze(-2) > utilities.unsqueeze(-1)).sum(-1)


def scores_held(model: PreferenceGP, utilities: Tensor) -> float:
    """The share of utilities above their mean that 95 % intervals hold.

    Args:
        model: Fitted.
        utilities: In the units of the model.
    """
    centre = torch.eye(ITEMS, dtype=torch.float64) - 1 / ITEMS
    with torch.no_grad():
        posterior: Any = model.posterior(torch.eye(ITEMS, dtype=torch.float64))
        known = posterior.distribution
        variance = (centre @ known.covariance_matrix @ centre).diagonal()
        error = centre @ (known.mean - utilities)
    return float((error.abs() <= 1.96 * variance.sqrt()).double().mean())


def coverage(count: int, noise: str) -> list[list[str]]:
    """Shares of true ranks and scores that intervals hold, and mean widths of ranks.

    Args:
        count: Number of leagues.
        noise: Of the judge.
    """
    names = [*MODELS, "bootstrap"]
    held, wide, promised, scored = ({name: [] for name in names} for _ in range(4))
    generator = Generator().manual_seed(0)
    for _ in range(count):
        utilities, pairs, votes = league(generator, noise)
        truth = 1 + (utilities.unsqueeze(-1) > utilities).sum(0)
        answers = comparisons(pairs, votes)
        for name in names:
            if name == "bootstrap":
                lower, upper = bootstrap_ranks(pairs, votes, generator)
            else:
                model = fitted(MODELS[name], ITEMS, answers)
                board = leaderboard(model).sort_index()
                lower, upper = (
                    torch.tensor(board[f"rank_{end}"].tolist())
                    for end in ("lower", "upper")
                )
                ranks = posterior_ranks(model)
                sure = (lower <= ranks) & (ranks <= upper)
                promised[name].append(float(sure.double().mean()))
                if noise == "logistic":
                    # A unit of the models is a deviation of their noise.
                    own = utilities * LOGISTIC / 2**0.5
                    scored[name].append(scores_held(model, own))
            inside = (lower <= truth) & (truth <= upper)
            held[name].append(float(inside.double().mean()))
            wide[name].append(float((upper - lower).double().mean()))
    rows = []
    for name in names:
        told = [share_and_error(part[name]) for part in (held, promised, scored)]
        width = f"{sum(wide[name]) / count:.1f}"
        rows.append([f"{name}, {noise} noise", *told, width, COVERAGE_TO_REACH])
    return rows


def share_and_error(shares: list[float]) -> str:
    """The mean of shares in percent with its standard error; nothing where none are.

    Args:
        shares: One a league.
    """
    if not shares:
        return ""
    each = 100 * torch.tensor(shares)
    return f"{float(each.mean()):.1f} ± {float(each.std()) / len(each) ** 0.5:.1f} %"


def bootstrap_ranks(
    pairs: Tensor, votes: Tensor, generator: Generator
) -> tuple[Tensor, Tensor]:
    """95 % intervals of ranks by resampled votes and Bradley-Terry, half a win a tie.

    Args:
        pairs: ``m x 2`` items.
        votes: ``m x 3``.
        generator: Of the draws.
    """
    shares = (votes / votes.sum(-1, keepdim=True)).expand(RESAMPLES, -1, -1)
    drawn = torch.multinomial(
        shares.flatten(0, 1), DUELS, replacement=True, generator=generator
    )
    counts = torch.nn.functional.one_hot(drawn, 3).sum(-2).double()
    won, lost, tied = counts.view(RESAMPLES, -1, 3).unbind(-1)
    wins = torch.zeros(RESAMPLES, ITEMS, ITEMS, dtype=torch.float64)
    wins[:, pairs[:, 0], pairs[:, 1]] = won + tied / 2
    wins[:, pairs[:, 1], pairs[:, 0]] = lost + tied / 2
    met = wins + wins.mT
    strength = torch.ones(RESAMPLES, ITEMS, dtype=torch.float64)
    # The iteration of Zermelo (1929), enough of it for ranks.
    for _ in range(300):
        each = met / (strength.unsqueeze(-1) + strength.unsqueeze(-2))
        strength = wins.sum(-1).clamp_min(1e-6) / each.sum(-1)
        strength = strength / strength.mean(-1, keepdim=True)
    ranks = 1 + (strength.unsqueeze(-1) > strength.unsqueeze(-2)).sum(-2)
    level = torch.tensor([0.025, 0.975], dtype=torch.float64)
    lower, upper = ranks.double().quantile(level, dim=0)
    return lower.floor(), upper.ceil()


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--factors", action="store_true")
    parser.add_argument("--leagues", type=int, default=100)
    options = parser.parse_args()
    start("Leaderboards")
    if find_spec("leaderbot") is None:
        print("Without leaderbot there are no votes of the arena.")
    else:
        head = ["model", "fit, s", "board, s", "both to reach"]
        head += ["log-loss of unseen pairs", "to reach: below"]
        print_table(head, list(arena_rows(options.factors)))
    if all(map(find_spec, ("leaderbot", "choix", "evalica"))):
        print("\nwins and losses alone")
        head = ["model", "fit, s", "log-loss of unseen pairs"]
        print_table(head, list(decided_rows()))
    print(f"\n{options.leagues} leagues of {ITEMS} items, {DUELS} duels a pair")
    head = ["intervals of ranks", "hold", "promised", "scores hold", "mean width"]
    rows = [row for noise in NOISES for row in coverage(options.leagues, noise)]
    print_table([*head, "to reach"], rows)


if __name__ == "__main__":
    main()
