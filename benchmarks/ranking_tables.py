"""Tables 3 and 4 and figures 1 to 4 of Guo et al. (2020), as printed tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import torch
from ranking_measures import positive_ratio
from report import print_table
from torch import Tensor

METHODS = ("M-VI", "MAP", "Laplace")
RULES = ("M-VI*", "MAP*", "Laplace*", "M-VI L", "MAP L", "Laplace E")
MEAN_EDGES = torch.tensor([0.0, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0])
NUM_DEVIATIONS = 3


class Tested(NamedTuple):
    """Metrics of one fold.

    Attributes:
        scores: ``methods x E x metrics``.
        chosen: Places among the etas, long, one for each of ``RULES``.
        log_evidence: ``methods x E``; the lower bound for M-VI.
        differences: Mean and deviation of the utility of each winner minus that of the
            loser, ``methods x 2 x m``, at the eta of the rule that is marked ``*``.
        num_sets: How many were tested.
    """

    scores: Tensor
    chosen: Tensor
    log_evidence: Tensor
    differences: Tensor
    num_sets: int


def mean_of_folds(folds: Sequence[Tested], values: Sequence[Tensor]) -> Tensor:
    """Means over folds, weighted by the number of sets that each tests.

    Args:
        folds: One or more.
        values: Of one shape, one a fold.
    """
    weight = torch.tensor([fold.num_sets for fold in folds], dtype=torch.double)
    return torch.tensordot(weight / weight.sum(), torch.stack(list(values)), dims=1)


def print_rules(
    metrics: Sequence[str],
    etas: Tensor,
    results: Sequence[Sequence[Tested]],
    paper: Mapping[str, Sequence[object]],
) -> None:
    """Tables 3 and 4: the metrics under each rule of choosing eta.

    Args:
        metrics: Names.
        etas: Candidates.
        results: Folds, by repetition, of two or more.
        paper: Figures to print beside, by metric.
    """
    method = torch.arange(len(RULES)) % len(METHODS)

    def mean_of(repetitions: Iterable[Sequence[Tested]]) -> Tensor:
        folds = [fold for repetition in repetitions for fold in repetition]
        return mean_of_folds(folds, [f.scores[method, f.chosen] for f in folds])

    mean, count = mean_of(results), len(results)
    # The jackknife, because repetitions may test unequally many sets.
    rest = torch.stack(
        [mean_of(r for j, r in enumerate(results) if j != i) for i in range(count)]
    )
    gap = rest - rest[:, RULES.index("MAP*")].unsqueeze(1)
    error = ((count - 1) * gap.var(0, correction=0)).sqrt()
    rows: list[list[object]] = []
    for k, metric in enumerate(metrics):
        rows.append([metric, *map(_fixed, mean[:, k].tolist())])
        rows.append(["  s.e. of gap to MAP*", *map(_fixed, error[:, k].tolist())])
        if metric in paper:
            rows.append(["  the paper", *map(_fixed, paper[metric])])
    chosen = etas[torch.stack([f.chosen for fs in results for f in fs])]
    rows.append(["eta, geometric mean", *chosen.log().mean(0).exp().tolist()])
    print_table(["", *RULES], rows)


def print_against_eta(
    metrics: Sequence[str], etas: Tensor, folds: Sequence[Tested]
) -> None:
    """Figures 1, 2 and 3: the lower bound and the metrics against eta.

    Args:
        metrics: Names.
        etas: Candidates.
        folds: Of all repetitions.
    """
    scores = mean_of_folds(folds, [fold.scores for fold in folds])
    evidence = mean_of_folds(folds, [fold.log_evidence for fold in folds])
    # Laplace orders items as MAP does, all but exactly.
    shown = [
        (method, metric)
        for metric in range(len(metrics))
        for method in range(len(METHODS))
        if method < 2 or metrics[metric] == "log-loss"
    ]
    rows = [
        [
            float(eta),
            f"{float(evidence[0, i]):.1f}",
            f"{float(evidence[2, i]):.1f}",
            *(_fixed(float(scores[method, i, metric])) for method, metric in shown),
        ]
        for i, eta in enumerate(etas)
    ]
    names = [f"{metrics[metric]} {METHODS[method]}" for method, metric in shown]
    print_table(["eta", "bound", "evidence, Laplace", *names], rows)


def print_spread(folds: Sequence[Tested]) -> None:
    """Spread of utilities under the bound beside MAP and Laplace, means over folds.

    Args:
        folds: Of all repetitions.
    """
    found = []
    for fold in folds:
        mean, deviation = fold.differences[METHODS.index("M-VI")]
        of_mode = fold.differences[METHODS.index("MAP"), 0]
        narrower = deviation / fold.differences[METHODS.index("Laplace"), 1]
        correlation = torch.corrcoef(torch.stack([mean, of_mode]))[0, 1]
        wider = mean.norm() / of_mode.norm()
        found.append(torch.stack([correlation, wider, narrower.median()]))
    correlation, wider, narrower = torch.stack(found).mean(0).tolist()
    print(
        f"M-VI's differences of utility: correlation with MAP's {correlation:.4f}, "
        f"{wider:.2f} times as large; deviations {narrower:.2f} times Laplace's\n"
    )


def print_positive_ratio(folds: Sequence[Tested]) -> None:
    """Figure 4: the share of comparisons won, by mean and deviation of the difference.

    Of positive means; the other half is its mirror image. Thirds of the deviations.

    Args:
        folds: Of one repetition, so that every set counts once.
    """
    pooled = torch.cat([fold.differences for fold in folds], dim=-1)
    expected = ((MEAN_EDGES[:-1] + MEAN_EDGES[1:]) / 2).sigmoid()
    rows = [
        [f"{low:g} to {high:g}", f"{share:.3f}"]
        for low, high, share in zip(
            MEAN_EDGES[:-1], MEAN_EDGES[1:], expected, strict=True
        )
    ]
    header = ["mean", "sigmoid"]
    for name in ("M-VI", "Laplace"):
        mean, deviation = pooled[METHODS.index(name)]
        shares = torch.linspace(0, 1, NUM_DEVIATIONS + 1, dtype=torch.double)
        edges = deviation.quantile(shares)
        edges[0] = 0.0
        found = positive_ratio(mean, deviation, MEAN_EDGES, edges)
        header += [f"{name}, sd to {edge:.2g}" for edge in edges[1:].tolist()]
        for row, ratios, counts in zip(rows, found.ratio, found.count, strict=True):
            row += [
                f"{ratio:.3f} ({count})" if count else "-"
                for ratio, count in zip(ratios.tolist(), counts.tolist(), strict=True)
            ]
    print("share won (of how many), by mean and deviation of the utility difference\n")
    print_table(header, rows)


def _fixed(value: object) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)
