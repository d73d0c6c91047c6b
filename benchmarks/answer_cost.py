"""What answers cost: every likelihood and engine, and five tasks that were slow.

    python benchmarks/answer_cost.py

Prints processor seconds of one evidence with its gradient for 200 and 2,000 answers
about 30 points, by every likelihood under every engine that takes it: the cost goes
with the distinct points and the distinct answers. Skew-normal posteriors draw.

Then a fit of 2,000 duels of 60 points in four dimensions under the likelihood of
lapses, beside one under probit's; a fit of a simulated arena, 129 items without
features and 3,460 pairs with counted wins, losses and ties; an evidence of a crowd of
124 raters with 44 answers each, and with 343 of one among them; a fit of thirty orders
of four options that have one of ten levels besides.

Then milliseconds by what two settings choose between, for several numbers of points:
two products with a triangle or LAPACK's (`PointSolver.lapack_points`); and an evidence
with its gradient by Newton's steps alone, or by steps of an earlier curvature too, each
of which may be several shares of the step before (`Laplace.chord_unknowns` and
`chord_gain`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from botorch.fit import fit_gpytorch_mll
from gpytorch.kernels import LinearKernel
from report import fastest, print_table, seconds, start
from torch import Generator, Tensor
from torch.special import ndtr

from botorch_pref import (
    AffineProbitLikelihood,
    BetaRatingLikelihood,
    Choices,
    Comparisons,
    EPPreferenceGP,
    LaplacePreferenceGP,
    LapsingProbitLikelihood,
    OrdinalProbitLikelihood,
    OrdinalRatings,
    PairwiseBetaLikelihood,
    PairwiseLogitLikelihood,
    PairwiseProbitLikelihood,
    PlackettLuceLikelihood,
    PreferenceMarginalLogLikelihood,
    Rankings,
    RaoKupperLikelihood,
    Ratings,
    SkewPreferenceGP,
    SparsePreferenceGP,
    Strengths,
    UnsupportedFeedbackError,
    Validity,
    VariationalPreferenceGP,
)
from botorch_pref.feedback import Feedback
from botorch_pref.inference import Laplace
from botorch_pref.linalg.covariance import triangular_congruence
from botorch_pref.models import CrowdPreferenceGP, PreferenceGP

POINTS, COUNTS, REPEATS = 30, (200, 2000), 2
ENGINES: dict[str, type[PreferenceGP]] = {
    "EP": EPPreferenceGP,
    "EP, inducing points": SparsePreferenceGP,
    "Laplace": LaplacePreferenceGP,
    "skew-normal": SkewPreferenceGP,
    "variational": VariationalPreferenceGP,
}
DUELS, DUEL_POINTS, LAPSES_TO_REACH = 2000, 60, 3.0
LEVEL_QUESTIONS = 30
ARENA_ITEMS, ARENA_PAIRS, ARENA_VOTES, ARENA_TO_REACH = 129, 3460, 1_670_000, 3.0
SIZES, CHORD_GAINS = (50, 100, 200, 300, 450, 700), (0.1, 0.3, 0.6)
RATERS, EACH, MANY, CROWD_ITEMS, CROWD_TO_REACH = 124, 44, 343, 60, 1.0


def normal(generator: Generator, *shape: int) -> Tensor:
    """Standard normal numbers.

    Args:
        generator: Their source.
        shape: Of the tensor.
    """
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def random_points(count: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Points in four dimensions and their utilities.

    Args:
        count: How many.
        generator: Source of random numbers.
    """
    points = torch.rand(count, 4, generator=generator, dtype=torch.float64)
    utility = (3 * points[:, 0]).sin() + points[:, 1].square()
    return points, 2 * (utility - points[:, 2] * points[:, 3])


def random_pairs(items: int, count: int, generator: Generator) -> Tensor:
    """Pairs of different items.

    Args:
        items: How many items.
        count: How many pairs.
        generator: Source of random numbers.
    """
    first = torch.randint(items, (count,), generator=generator)
    other = torch.randint(1, items, (count,), generator=generator)
    return torch.stack([first, (first + other) % items], dim=-1)


def duels(utility: Tensor, pairs: Tensor, generator: Generator) -> Tensor:
    """The pairs with the winner first, by a judge whose noise has a variance of 0.3.

    Args:
        utility: Of all items.
        pairs: ``m x 2``.
        generator: Source of random numbers.
    """
    heard = utility[pairs] + 0.3**0.5 * normal(generator, *pairs.shape)
    lost = (heard[:, 0] < heard[:, 1]).unsqueeze(-1)
    return torch.where(lost, pairs.flip(-1), pairs)


# --- Every likelihood under every engine

Answers = Callable[[Tensor, int, Generator], Feedback]


def _wins(utility: Tensor, count: int, generator: Generator) -> Comparisons:
    pairs = random_pairs(len(utility), count, generator)
    return Comparisons(duels(utility, pairs, generator))


def _wins_and_ties(utility: Tensor, count: int, generator: Generator) -> Comparisons:
    pairs = duels(utility, random_pairs(len(utility), count, generator), generator)
    near = (utility[pairs[:, 0]] - utility[pairs[:, 1]]).abs() < 0.5
    return Comparisons(pairs[~near], pairs[near])


def _choices(utility: Tensor, count: int, generator: Generator) -> Choices:
    order = torch.rand(count, len(utility), generator=generator).argsort(-1)
    sets = order[:, :4]
    heard = utility[sets] + normal(generator, count, 4)
    best = heard.argmax(-1, keepdim=True)
    return Choices(sets, sets.gather(-1, best).squeeze(-1))


def _heard(utility: Tensor, count: int, generator: Generator) -> tuple[Tensor, Tensor]:
    index = torch.randint(len(utility), (count,), generator=generator)
    return index, utility[index] + normal(generator, count)


def _strengths(utility: Tensor, count: int, generator: Generator) -> Strengths:
    pairs = random_pairs(len(utility), count, generator)
    gap = utility[pairs[:, 0]] - utility[pairs[:, 1]] + normal(generator, count)
    return Strengths(pairs, gap.sigmoid().clamp(0.01, 0.99))


def _validity(utility: Tensor, count: int, generator: Generator) -> Validity:
    index, heard = _heard(utility, count, generator)
    return Validity(index, heard > 0)


def _levels(utility: Tensor, count: int, generator: Generator) -> OrdinalRatings:
    index, heard = _heard(utility, count, generator)
    return OrdinalRatings(index, (heard + 2).clamp(0, 4).long(), 5)


def _ratings(utility: Tensor, count: int, generator: Generator) -> Ratings:
    index, heard = _heard(utility, count, generator)
    return Ratings(index, heard.sigmoid().clamp(0.01, 0.99))


LIKELIHOODS: dict[str, tuple[Callable[[], Any], Answers]] = {
    "probit": (PairwiseProbitLikelihood, _wins),
    "probit, ties": (lambda: PairwiseProbitLikelihood(0.3, 0.5), _wins_and_ties),
    "lapses": (LapsingProbitLikelihood, _wins),
    "lapses, ties": (lambda: LapsingProbitLikelihood(0.3, 0.5), _wins_and_ties),
    "logit": (PairwiseLogitLikelihood, _wins),
    "Rao-Kupper": (lambda: RaoKupperLikelihood(tie_threshold=0.5), _wins_and_ties),
    "choices, probit": (PairwiseProbitLikelihood, _choices),
    "choices, Plackett-Luce": (PlackettLuceLikelihood, _choices),
    "validity": (AffineProbitLikelihood, _validity),
    "levels": (lambda: OrdinalProbitLikelihood(5), _levels),
    "strengths": (PairwiseBetaLikelihood, _strengths),
    "ratings": (BetaRatingLikelihood, _ratings),
}


def evidence_seconds(engine: str, likelihood: str, count: int) -> float | str:
    """Processor seconds of an evidence with its gradient; "" where it is not taken.

    Args:
        engine: Its name.
        likelihood: Its name.
        count: The number of answers.
    """
    generator = torch.Generator().manual_seed(0)
    points, utility = random_points(POINTS, generator)
    law, answers = LIKELIHOODS[likelihood]
    feedback = [answers(utility, count, generator)]

    def made() -> PreferenceGP:
        model = ENGINES[engine](points, feedback=feedback, likelihood=law())
        if isinstance(model, SparsePreferenceGP):
            model.inducing_points = points
        return model

    try:
        made()
    except UnsupportedFeedbackError:
        return ""
    return fastest(lambda: made().log_evidence().backward(), REPEATS)


# --- Tasks that were slow


def fit_seconds(make: Callable[[], PreferenceGP]) -> float:
    """Processor seconds of a fit.

    Args:
        make: A model that is not fitted.
    """

    def fit() -> None:
        model = make()
        fit_gpytorch_mll(PreferenceMarginalLogLikelihood(model.likelihood, model))

    return seconds(fit)


def lapse_rows() -> list[list[object]]:
    """Rows of fits of the same duels with probit's likelihood and with lapses."""
    generator = torch.Generator().manual_seed(0)
    points, utility = random_points(DUEL_POINTS, generator)
    pairs = random_pairs(DUEL_POINTS, DUELS, generator)
    told = duels(utility, pairs, generator)

    def spent(kind: type[PairwiseProbitLikelihood], answers: Tensor) -> float:
        return fit_seconds(
            lambda: EPPreferenceGP(points, answers, likelihood=kind.default_for(None))
        )

    kinds = PairwiseProbitLikelihood, LapsingProbitLikelihood
    for kind in kinds:
        # What a process does once is no part of a fit.
        spent(kind, told[:5])
    probit, lapses = (spent(kind, told) for kind in kinds)
    return [
        ["fit of duels, probit", probit, "", ""],
        ["fit of duels, lapses", lapses, lapses / probit, LAPSES_TO_REACH],
    ]


def arena_row() -> list[object]:
    """A row of a fit of an arena whose votes are more varied than any model's."""
    generator = torch.Generator().manual_seed(0)
    utility = normal(generator, ARENA_ITEMS)
    pairs = torch.combinations(torch.arange(ARENA_ITEMS))
    order = torch.randperm(len(pairs), generator=generator)
    pairs = pairs[order[:ARENA_PAIRS]]
    share = torch.rand(len(pairs), generator=generator).double() ** -0.7
    total = (share / share.sum() * ARENA_VOTES).ceil()
    # Each pair has a style of its own, which is no property of its items.
    gap = utility[pairs[:, 0]] - utility[pairs[:, 1]]
    gap = gap + 0.3 * normal(generator, len(pairs))
    won, lost = (total * ndtr(side * gap - 0.5) for side in (1, -1))
    won, lost = won.round().long(), lost.round().long()
    tied = total.long() - won - lost
    told = Comparisons(
        torch.cat([pairs[won > 0], pairs[lost > 0].flip(-1)]),
        pairs[tied > 0],
        pair_counts=torch.cat([won[won > 0], lost[lost > 0]]),
        tie_counts=tied[tied > 0],
    )
    ids = torch.eye(ARENA_ITEMS, dtype=torch.float64)
    spent = fit_seconds(lambda: EPPreferenceGP(ids, told, covar_module=LinearKernel()))
    return ["fit of an arena, seconds", spent, "", ARENA_TO_REACH]


def crowd_rows() -> list[list[object]]:
    """Rows of evidences of a crowd with and without one who answered much."""
    rows: list[list[object]] = []
    for most in (EACH, MANY):
        generator = torch.Generator().manual_seed(0)
        items, utility = random_points(CROWD_ITEMS, generator)
        points, told = [], []
        for rater in range(RATERS):
            own = utility + 0.5 * normal(generator, CROWD_ITEMS)
            count = most if rater == 0 else EACH
            pairs = random_pairs(CROWD_ITEMS, count, generator)
            told.append(duels(own, pairs, generator) + rater * CROWD_ITEMS)
            number = torch.full((CROWD_ITEMS, 1), float(rater), dtype=torch.float64)
            points.append(torch.cat([items, number], dim=-1))
        model = CrowdPreferenceGP(torch.cat(points), torch.cat(told))
        spent = seconds(lambda m=model: m.log_evidence().backward())  # type: ignore[misc]
        rows.append([f"evidence of a crowd, one of {most}", spent, "", CROWD_TO_REACH])
    return rows


def levels_row() -> list[object]:
    """A row of a fit of orders of four, each option with one of ten levels besides."""
    generator = torch.Generator().manual_seed(0)
    points, utility = random_points(4 * LEVEL_QUESTIONS, generator)
    shown = torch.arange(len(points)).view(-1, 4)
    heard = utility + 0.3 * normal(generator, len(points))
    order = heard[shown].argsort(-1, descending=True)
    ends = heard.quantile(torch.linspace(0, 1, 11, dtype=torch.float64)[1:-1])
    answers = [
        Rankings(shown.gather(-1, order)),
        OrdinalRatings(shown.flatten(), torch.bucketize(heard, ends), 10),
    ]
    spent = fit_seconds(lambda: EPPreferenceGP(points, feedback=answers))
    return ["fit of orders of four with ten levels, seconds", spent, "", ""]


# --- Ways between which sizes choose


class _Newton(LaplacePreferenceGP):
    """Laplace's approximation by Newton's steps alone."""

    engine = Laplace(chord_gain=0.0)


def _by_chords(gain: float) -> type[LaplacePreferenceGP]:
    """A model of Laplace's approximation that takes steps of earlier curvatures."""

    class Chords(LaplacePreferenceGP):
        engine = Laplace(chord_unknowns=0, chord_gain=gain)

    return Chords


def size_row(count: int) -> list[object]:
    """A row of milliseconds by each way, for a number of points.

    Args:
        count: The number of points, each in eight duels.
    """
    generator = torch.Generator().manual_seed(0)
    square = normal(generator, count, count)
    matrix = square @ square.mT
    root = torch.linalg.cholesky(matrix + count * torch.eye(count).double())
    points, utility = random_points(count, generator)
    told = duels(utility, random_pairs(count, 4 * count, generator), generator)
    kinds = [_Newton, *map(_by_chords, CHORD_GAINS)]
    ways: list[Callable[[], object]] = [
        lambda: root.mT @ (matrix @ root),
        lambda: triangular_congruence(matrix, root),
        *(lambda k=k: k(points, told).log_evidence().backward() for k in kinds),  # type: ignore[misc]
    ]
    return [count, *(1e3 * fastest(way, REPEATS) for way in ways)]


def main() -> None:
    """Prints the tables."""
    start(f"answers about {POINTS} points: an evidence with its gradient")
    rows = []
    for engine in ENGINES:
        for likelihood in LIKELIHOODS:
            spent = [evidence_seconds(engine, likelihood, n) for n in COUNTS]
            if "" not in spent:
                rows.append([engine, likelihood, *spent])
    print_table(["engine", "likelihood", *map(str, COUNTS)], rows)
    print_table(
        ["task", "seconds", "ratio", "to reach"],
        [*lapse_rows(), levels_row(), arena_row(), *crowd_rows()],
    )
    by_gain = [f"gain {gain:g}" for gain in CHORD_GAINS]
    print_table(
        ["points", "two products", "LAPACK", "Newton", *by_gain],
        [size_row(count) for count in SIZES],
    )


if __name__ == "__main__":
    main()
