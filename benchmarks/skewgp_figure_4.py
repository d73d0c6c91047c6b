"""Four rounds of the first example of the SkewGP paper (its figure 4).

    python benchmarks/skewgp_figure_4.py [--out benchmarks/results]

The seven duels of section 4 of Benavoli et al. (2021), then four rounds that ask for
the point with the largest UCB under Laplace. Prints, for each round, where the UCB of
Laplace, EP and SkewGP are largest, how far their bounds are from SkewGP's at most, and
the largest skewness of a difference from the reference; writes the table and draws
bounds and skewness. The function is cos 5x + exp(-x^2 / 2), largest at 0;
hyper-parameters are those with which the printed skewness comes out
(`docs/logbook/errata.md`).
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import torch
from report import print_table, start
from torch import Tensor

from botorch_pref import (
    Comparisons,
    DuelingUCB,
    EPPreferenceGP,
    LaplacePreferenceGP,
    PairwiseProbitLikelihood,
    SkewPreferenceGP,
    incumbent,
)
from botorch_pref.models import PreferenceGP
from botorch_pref.posteriors.gaussian import difference_mixture

DUELS = (
    (1.25, -1.8),
    (-1.23, 1.25),
    (0.18, -1.23),
    (0.18, -2.52),
    (-2.52, 2.18),
    (-1.8, -0.5),
    (-1.8, 0.67),
)
ENGINES: dict[str, type[PreferenceGP]] = {
    "Laplace": LaplacePreferenceGP,
    "EP": EPPreferenceGP,
    "SkewGP": SkewPreferenceGP,
}
LENGTHSCALE, VARIANCE = 0.35, 1 / 0.02
ROUNDS, GRID = 4, 521


def g(x: Tensor) -> Tensor:
    """The function that answers."""
    return (5 * x).cos() + (-0.5 * x.square()).exp()


@dataclass(frozen=True)
class Round:
    """Bounds and skewness after the answers of a round.

    Attributes:
        reference: The best point so far, under SkewGP.
        bounds: UCB of the difference from it on the grid, by engine.
        skewness: Of that difference under SkewGP, on the grid.
    """

    reference: float
    bounds: dict[str, Tensor]
    skewness: Tensor


def grid() -> Tensor:
    """Points of the domain, ``k x 1``."""
    return torch.linspace(-2.6, 2.6, GRID, dtype=torch.float64).unsqueeze(-1)


def model_of(
    engine: type[PreferenceGP], duels: Sequence[tuple[float, float]]
) -> PreferenceGP:
    """A model of duels, winner first, that knows its hyper-parameters."""
    points, index = torch.unique(
        torch.tensor(duels, dtype=torch.float64), return_inverse=True
    )
    model = engine(
        points.unsqueeze(-1),
        Comparisons(index),
        likelihood=PairwiseProbitLikelihood(noise=0.5),
    )
    model.covar_module.outputscale = VARIANCE
    model.covar_module.base_kernel.lengthscale = LENGTHSCALE
    return model.eval()


@torch.no_grad()
def played(duels: Sequence[tuple[float, float]]) -> Round:
    """Bounds and skewness after some duels.

    Args:
        duels: All so far, winner first.
    """
    models = {name: model_of(engine, duels) for name, engine in ENGINES.items()}
    reference, x = incumbent(models["SkewGP"]), grid()
    bounds = {
        name: DuelingUCB(model, reference)(x.unsqueeze(-2))
        for name, model in models.items()
    }
    both = torch.stack([x, reference.expand_as(x)], dim=-2)
    means, variance = difference_mixture(models["SkewGP"].posterior(both))
    centred = means - means.mean(0)
    spread = (variance + centred.square().mean(0)).clamp_min(1e-12)
    skewness = centred.pow(3).mean(0) / spread.pow(1.5)
    return Round(float(reference), bounds, skewness)


def draw(rounds: Sequence[Round], path: Path) -> None:
    """Draws bounds and skewness, a row for each round."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(
        len(rounds), 2, figsize=(9, 2.2 * len(rounds)), layout="constrained"
    )
    x = grid().squeeze(-1)
    for (left, right), one in zip(axes, rounds, strict=True):
        for name, bound in one.bounds.items():
            left.plot(x, bound, label=name)
            left.plot(x[bound.argmax()], bound.max(), "k*")
        left.axvline(one.reference, color="tab:orange", linestyle=":")
        right.plot(x, one.skewness)
    axes[0, 0].set_title("UCB of the difference from the reference")
    axes[0, 0].legend(fontsize="x-small")
    axes[0, 1].set_title("skewness under SkewGP")
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def main() -> None:
    """Prints the table and draws the figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    options = parser.parse_args()
    start("four rounds of the SkewGP paper, UCB of Laplace asks")
    duels, rounds, rows = list(DUELS), [], []
    x = grid().squeeze(-1)
    for number in range(1, ROUNDS + 1):
        one = played(duels)
        exact, rounds = one.bounds["SkewGP"], [*rounds, one]
        asked = float(x[one.bounds["Laplace"].argmax()])
        peaks = [float(x[bound.argmax()]) for bound in one.bounds.values()]
        gaps = [
            float((one.bounds[name] - exact).abs().max()) for name in ("Laplace", "EP")
        ]
        most = float(one.skewness[one.skewness.abs().argmax()])
        rows.append([number, one.reference, *peaks, *gaps, most])
        pair = torch.tensor([asked, one.reference])
        better = bool(g(pair)[0] >= g(pair)[1])
        duels.append((asked, one.reference) if better else (one.reference, asked))
    columns = ["round", "reference", *(f"{name} asks" for name in ENGINES)]
    columns += ["Laplace off", "EP off", "skewness"]
    print_table(columns, rows)
    options.out.mkdir(parents=True, exist_ok=True)
    table = pd.DataFrame(rows, columns=columns)
    table.to_csv(options.out / "skewgp_figure_4.csv", index=False, float_format="%.4g")
    draw(rounds, options.out / "skewgp_figure_4.png")
    print(f"written: {options.out / 'skewgp_figure_4.png'}")


if __name__ == "__main__":
    main()
