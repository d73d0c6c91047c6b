"""5,000 comparisons among 100 items against 100 comparisons among 200 points.

    python benchmarks/many_comparisons.py [--answers 200000]

Prints seconds of one evidence with its gradient, and of one fit. The work of the first
is in the space of its 100 points, that of the second in the space of its 100 rows: both
factorise 100 x 100 matrices. Answers about one pair are one row, so that 200,000
comparisons have 4,950. Then one pair answered 100,000 times against one answer.
"""

from __future__ import annotations

import argparse

import torch
from botorch.fit import fit_gpytorch_mll
from known_models import fresh_mll, known_model
from report import fastest, print_table, start
from synthetic_problems import DIMENSION, ComparisonProblem, synthetic_comparisons

from botorch_pref import Comparisons, EPPreferenceGP, LaplacePreferenceGP
from botorch_pref.models import PreferenceGP

ITEMS, ANSWERS, FEW = 100, 5000, 100
NOISE = 0.25
RATIO_TO_REACH = 5.0
REPEATS = 5
MODELS = {"Laplace": LaplacePreferenceGP, "EP": EPPreferenceGP}


def many_answers(count: int = ANSWERS) -> ComparisonProblem:
    """Answers about random pairs of 100 items.

    Args:
        count: How many.
    """
    generator = torch.Generator().manual_seed(0)
    options = {"generator": generator, "dtype": torch.float64}
    points = torch.rand(ITEMS, DIMENSION, **options)
    problem = ComparisonProblem(points, torch.empty(0, 2, dtype=torch.long), NOISE)
    values, vectors = torch.linalg.eigh(problem.point_covariance())
    utilities = vectors @ (values.clamp_min(0).sqrt() * torch.randn(ITEMS, **options))
    first = torch.randint(ITEMS, (count,), generator=generator)
    second = torch.randint(1, ITEMS, (count,), generator=generator)
    pairs = torch.stack([first, (first + second) % ITEMS], dim=-1)
    heard = utilities[pairs] + NOISE**0.5 * torch.randn(count, 2, **options)
    lost = (heard[:, 0] < heard[:, 1]).unsqueeze(-1)
    return ComparisonProblem(points, torch.where(lost, pairs.flip(-1), pairs), NOISE)


def costs(model_class: type[PreferenceGP], problem: ComparisonProblem) -> list[float]:
    """Seconds of one evidence with its gradient, and of one fit.

    Args:
        model_class: The engine.
        problem: Points and answers.
    """

    def evidence() -> None:
        known_model(model_class, problem).log_evidence().backward()

    def fit() -> None:
        fit_gpytorch_mll(fresh_mll(model_class, problem))

    return [fastest(evidence, REPEATS), fastest(fit, 2)]


def one_pair(model_class: type[PreferenceGP], count: int) -> float:
    """Seconds of the evidence of one pair that was answered many times.

    Args:
        model_class: The engine.
        count: How often.
    """
    points = torch.tensor([[0.2], [0.7]], dtype=torch.float64)
    told = Comparisons(torch.tensor([[0, 1]]), pair_counts=torch.tensor([count]))

    def evidence() -> None:
        model_class(points, told).log_evidence().backward()

    return fastest(evidence, REPEATS)


def main() -> None:
    """Prints both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--answers", type=int, default=ANSWERS)
    count = parser.parse_args().answers
    start(f"{count} comparisons among {ITEMS} items ('many') against {FEW} pairs")
    print("today's best: PairwiseGP, dense 5,000 x 100 and slow")
    many, few = many_answers(count), synthetic_comparisons(FEW, NOISE, seed=0)
    rows = []
    for name, model_class in MODELS.items():
        pairs = zip(costs(model_class, many), costs(model_class, few), strict=True)
        for what, (of_many, of_few) in zip(("evidence", "fit"), pairs, strict=True):
            ratio = of_many / of_few
            rows.append([name, what, of_many, of_few, ratio, RATIO_TO_REACH])
    print_table(
        ["model", "what", "many, seconds", "few, seconds", "ratio", "to reach"], rows
    )
    times = {name: [one_pair(m, c) for c in (100_000, 1)] for name, m in MODELS.items()}
    print_table(
        ["model", "one pair 100,000 times, seconds", "once", "ratio"],
        [[name, many, once, many / once] for name, (many, once) in times.items()],
    )


if __name__ == "__main__":
    main()
