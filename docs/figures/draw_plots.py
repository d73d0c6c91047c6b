"""Draws the figures of `docs/plotting.md` beside it.

`python docs/figures/draw_plots.py`, with the extras `data` and `plot` and Ax, takes a
minute. `--width 3.5` draws them that many inches wide.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from botorch.fit import fit_gpytorch_mll
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from botorch_pref import (
    Comparisons,
    EPPreferenceGP,
    PreferenceMarginalLogLikelihood,
    SkewPreferenceGP,
)
from botorch_pref.ax import PreferenceExperiment
from botorch_pref.evaluation import (
    leaderboard,
    predictive_log_probability,
    rater_reliability,
)
from botorch_pref.models import PreferenceGP, rater_covar_module
from botorch_pref.plotting import (
    plot_agreement,
    plot_calibration,
    plot_comparisons,
    plot_curves,
    plot_effects,
    plot_leaderboard,
    plot_probabilities,
    plot_progress,
    plot_utility,
)

HERE = Path(__file__).parent
BOX = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)
BEANS = ("Huila", "Sidamo", "Kenya", "Java", "Yirga", "Antigua", "Kona", "Mocha")


def main() -> None:
    """Draws all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--width", type=float, default=6.0, help="in inches")
    parser.add_argument("--out", type=Path, default=HERE)
    given = parser.parse_args()
    draw_models(given.out, given.width)
    draw_items(given.out, given.width)
    with tempfile.TemporaryDirectory() as folder:
        draw_experiment(Path(folder), given.out, given.width)


def save(name: str, out: Path, width: float, share: float, *panels: object) -> None:
    """Draws into new axes of this width, ``share`` as high, and writes them."""
    figure = Figure(figsize=(width, share * width), layout="constrained")
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for one, draw in zip(axes, panels, strict=True):
        assert callable(draw)
        draw(one)
    figure.savefig(out / f"plot-{name}.png", dpi=130)


def fitted(model: PreferenceGP) -> PreferenceGP:
    """The model, with hyper-parameters by the evidence."""
    fit_gpytorch_mll(PreferenceMarginalLogLikelihood(model.likelihood, model))
    return model.eval()


def judged(utility: Tensor, num: int, noise: float, seed: int) -> Tensor:
    """Duels of random points, winner first, by a judge with errors."""
    generator = torch.Generator().manual_seed(seed)
    draws = [torch.randperm(len(utility), generator=generator)[:2] for _ in range(num)]
    pairs = torch.stack(draws)
    errors = noise * torch.randn(num, 2, generator=generator, dtype=torch.double)
    first, second = (utility[pairs] + errors).unbind(-1)
    return torch.where((first > second).unsqueeze(-1), pairs, pairs.flip(-1))


def draw_models(out: Path, width: float) -> None:
    """A utility in one and in two numbers."""
    x = torch.tensor([0.05, 0.2, 0.42, 0.5, 0.68, 0.9], dtype=torch.double)
    pairs = torch.tensor([[2, 1], [2, 0], [3, 4], [3, 5], [2, 3], [2, 5]])
    line = fitted(SkewPreferenceGP(x.unsqueeze(-1), pairs))
    bounds = BOX[:, :1]
    save(
        *("utility", out, width, 0.55),
        lambda ax: plot_utility(line, bounds=bounds, names=["sweetness"], ax=ax),
    )
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(12, 1, dtype=torch.double, generator=generator)
    rising = fitted(EPPreferenceGP(X, judged(X.flatten(), 11, 0.0, 0)))
    grid = torch.linspace(0, 1, 51, dtype=torch.double)
    with torch.no_grad():
        posterior = rising.posterior(grid.unsqueeze(-1))
    ends = posterior.quantile(torch.tensor([0.025, 0.975]).double()).squeeze(-1)
    estimate = posterior.mean.squeeze(-1), ends[0], ends[1]
    save(
        *("curves", out, width, 0.5),
        lambda ax: plot_curves(grid, {"model": estimate, "truth": 4 * grid - 2}, ax=ax),
    )
    generator = torch.Generator().manual_seed(1)
    X = torch.rand(24, 2, dtype=torch.double, generator=generator)
    utility = -4 * (X - torch.tensor([0.6, 0.35]).double()).square().sum(-1)
    model = fitted(EPPreferenceGP(X, judged(utility, 30, 0.05, 2)))
    names = ["sweetness", "strength"]
    save(
        *("contours", out, width, 0.75),
        lambda ax: plot_utility(model, 0, 1, bounds=BOX, names=names, ax=ax),
    )
    held_out = Comparisons(judged(utility, 200, 0.3, 3))
    told = predictive_log_probability(held_out, model, X).detach().exp()
    save(
        *("calibration", out, min(width, 4.5), 1.0),
        lambda ax: plot_calibration(told, ax=ax),
    )


def draw_items(out: Path, width: float) -> None:
    """Eight beans, and five people of two tastes, of whom one guesses."""
    generator = torch.Generator().manual_seed(4)
    X = torch.rand(8, 2, dtype=torch.double, generator=generator)
    utility = 2 * X[:, 0] - X[:, 1]
    ties = torch.tensor([[0, 1], [4, 5]])
    model = fitted(EPPreferenceGP(X, Comparisons(judged(utility, 25, 0.4, 5), ties)))
    save(
        *("leaderboard", out, width, 0.5),
        lambda ax: plot_leaderboard(leaderboard(model, names=BEANS), "Beans", ax=ax),
    )
    drawn: dict[str, Callable[[Axes], Axes]] = {
        "probabilities": lambda ax: plot_probabilities(model, names=BEANS, ax=ax),
        "comparisons": lambda ax: plot_comparisons(model, BEANS, ax=ax),
    }
    for name, draw in drawn.items():
        save(name, out, min(width, 4.5), 1.0, draw)
    people = torch.arange(5)
    rows = torch.cat([torch.cat([X, p.expand(8, 1)], -1) for p in people])
    # Two circles, and one who guesses.
    taste = torch.stack([utility, utility, -utility, -utility, 0 * utility])
    pairs = torch.cat([judged(taste[p], 25, 0.2, p) + 8 * p for p in range(5)])
    kernel = rater_covar_module(2, noisy_raters=people)
    many = fitted(EPPreferenceGP(rows, pairs, covar_module=kernel))
    called = ["Ada", "Ben", "Eva", "Fay", "Gus"]
    table = rater_reliability(many, called)
    save(
        *("agreement", out, width, 0.6),
        lambda ax: plot_agreement(many, X, people, called, reliability=table, ax=ax),
    )


def draw_experiment(folder: Path, out: Path, width: float) -> None:
    """An espresso of two numbers and a choice, told by a rule."""
    experiment = PreferenceExperiment.create(
        "espresso",
        parameters=[
            RangeParameterConfig(name="dose", parameter_type="float", bounds=(14, 22)),
            RangeParameterConfig(
                name="pressure", parameter_type="float", bounds=(3, 12)
            ),
            ChoiceParameterConfig(
                name="bean",
                parameter_type="str",
                values=["Huila", "Sidamo"],
                is_ordered=False,
            ),
        ],
        storage=folder / "espresso.db",
    )
    for _ in range(12):
        question = experiment.ask(2)
        values = [
            -((o["dose"] - 18) ** 2) / 4
            - (o["pressure"] - 8) ** 2 / 6
            + (o["bean"] == "Sidamo")
            for o in question.options
        ]
        experiment.tell(question, winner=int(values[1] > values[0]))
    save(
        *("mixed", out, width, 0.6),
        lambda ax: plot_utility(experiment, "dose", "bean", ax=ax),
    )
    save("progress", out, width, 0.6, lambda ax: plot_progress(experiment, ax=ax))
    # Side by side where there is room.
    shape, share = ((1, 3), 0.42) if width > 5 else ((3, 1), 1.8)
    figure = Figure(figsize=(width, share * width), layout="constrained")
    plot_effects(experiment, ax=[*figure.subplots(*shape)])
    figure.savefig(out / "plot-effects.png", dpi=130)


if __name__ == "__main__":
    main()
