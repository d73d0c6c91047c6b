"""How far from the best design of a line people stop, and what a fit of stops costs.

    python -m benchmarks.line_stops

The first table is a prior predictive check of `LineProbitLikelihood` (`width_rows`).
The second has the processor seconds of a fit of stops on lines of seventeen positions
beside those of a fit of sixteen duels instead of each.
"""

from __future__ import annotations

from functools import partial
from itertools import product

import torch
from botorch.fit import fit_gpytorch_mll
from torch import Generator, Tensor

from benchmarks.report import fastest, print_table, start
from botorch_pref import (
    Comparisons,
    EPPreferenceGP,
    LineChoices,
    PreferenceMarginalLogLikelihood,
)
from botorch_pref.feedback import Feedback
from botorch_pref.models import DuelKernel
from botorch_pref.simulation import make_problem

POSITIONS = 201
CORRELATION_LENGTH = 0.25
DRAWS = 20_000
ANSWERS = (1, 10, 30)

NOTICED = 0.954
"""A loss that is just noticed, in deviations of the noise: `noticeable_difference`."""

WIDTHS = (
    *("lengthscale", "output scale", "stop, median", "90 %"),
    *("loss of 95 %", "a loss that is noticed", "going on, median"),
)


def width_rows() -> list[list[float]]:
    """Rows of `WIDTHS`: a prior predictive check of where people stop.

    Of draws of the utility of a line whose best design is within it: lengths between
    that and the stop, in lengths of the line, and how much worse the stop is, in
    deviations of the noise; how often that much as is just noticed; and the length
    after which it is, as who goes on until then stops every time.
    """
    generator = Generator().manual_seed(0)
    share = torch.linspace(0, 1, POSITIONS, dtype=torch.double)
    distance = (share.unsqueeze(-1) - share).abs()
    noise = (-distance / CORRELATION_LENGTH).exp()
    rows = []
    for length, scale in product((0.2, 0.4, 0.8), (4.0, 16.0, 64.0)):
        kernel = scale * (-0.5 * (distance / length).square()).exp()
        utility, heard_less = (
            _draws(covariance, DRAWS, generator) for covariance in (kernel, noise)
        )
        best = utility.argmax(-1)
        inner = (best > 0) & (best < POSITIONS - 1)
        utility, best = utility[inner], best[inner].unsqueeze(-1)
        stops = (utility + heard_less[inner]).argmax(-1, keepdim=True)
        loss = (utility.gather(-1, best) - utility.gather(-1, stops)).flatten()
        off = (share[stops] - share[best]).abs().flatten()
        is_noticed = utility < utility.gather(-1, best) - NOTICED
        is_noticed &= torch.arange(POSITIONS) > best
        # Who notices nothing stops at the end.
        is_noticed[:, -1] = True
        onward = share[is_noticed.int().argmax(-1)] - share[best.flatten()]
        quantiles = off.quantile(torch.tensor([0.5, 0.9], dtype=torch.double))
        noticed = (loss >= NOTICED).double().mean()
        columns = *quantiles, loss.quantile(0.95), noticed, onward.median()
        rows.append([length, scale, *map(float, columns)])
    return rows


def _draws(covariance: Tensor, number: int, generator: Generator) -> Tensor:
    values, vectors = torch.linalg.eigh(covariance)
    normal = torch.randn(
        number, len(values), generator=generator, dtype=covariance.dtype
    )
    return normal @ (vectors * values.clamp_min(0.0).sqrt()).mT


COSTS = ("answers", "rows", "points", "fit, s", "rows", "points", "fit, s", "times")


def cost_rows() -> list[list[float]]:
    """Rows of `COSTS`: fits of stops, and of sixteen duels instead of each."""
    problem, generator = make_problem("hartmann6"), Generator().manual_seed(0)
    share = torch.linspace(0, 1, 17, dtype=torch.double).unsqueeze(-1)
    rows: list[list[float]] = []
    for number in ANSWERS:
        ends = torch.rand(number, 2, 6, generator=generator, dtype=torch.double)
        paths = torch.lerp(ends[:, :1], ends[:, 1:], share)
        best = problem.utility(paths).argmax(-1, keepdim=True)
        lines = torch.arange(2 * number).view(number, 2)
        stops = LineChoices(lines, share.flatten()[best.flatten()])
        others = torch.arange(17).expand(number, 17)
        others = others[others != best].view(number, 16)
        pairs = torch.stack([best.expand_as(others), others], -1)
        pairs = pairs + 17 * torch.arange(number).view(number, 1, 1)
        cells: list[float] = []
        for points, answers in (
            (ends.flatten(0, 1), stops),
            (paths.flatten(0, 1), Comparisons(pairs.flatten(0, 1))),
        ):
            model = EPPreferenceGP(points, feedback=[answers])
            num_rows = model.likelihood_of(type(answers)).factors(
                model.feedback[0], len(model.datapoints)
            )
            present = num_rows.rows.coefficients.abs().sum(-1) > 0
            fit = fastest(partial(_fit, points, answers), 2)
            cells += [int(present.sum()), len(model.datapoints), fit]
        rows.append([number, *cells, cells[-1] / cells[2]])
    return rows


def _fit(points: Tensor, answers: Feedback) -> None:
    model = EPPreferenceGP(points, feedback=[answers], covar_module=DuelKernel(6))
    fit_gpytorch_mll(PreferenceMarginalLogLikelihood(model.likelihood, model))


def main() -> None:
    """Prints both tables."""
    start("where people stop on a line, and what a fit of stops costs")
    print_table(WIDTHS, width_rows())
    print_table(COSTS, cost_rows())


if __name__ == "__main__":
    main()
