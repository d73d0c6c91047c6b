"""Draws the pictures of the concepts for the site, beside it.

`python docs/figures/draw_concepts.py`, with the extra `plot`, takes some seconds.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from gpytorch.kernels import RBFKernel, ScaleKernel
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from torch import Tensor
from torch.distributions import Normal

from botorch_pref import (
    Comparisons,
    DuelingBALD,
    DuelingEIIG,
    DuelingEUBO,
    DuelingKG,
    DuelingMUC,
    DuelingTailedEI,
    DuelingThompson,
    DuelingUCB,
    EPPreferenceGP,
    LaplacePreferenceGP,
    OrdinalProbitLikelihood,
    PairwiseBetaLikelihood,
    PairwiseProbitLikelihood,
    SkewPreferenceGP,
    champion,
    incumbent,
)
from botorch_pref.models import PreferenceGP
from botorch_pref.plotting.drawing import BLUE, GREEN, ORANGE, STYLES, draw_intervals

HERE = Path(__file__).parent
GREY = "0.35"


def main() -> None:
    """Draws all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=HERE)
    out = parser.parse_args().out
    drawn = {
        "loop": draw_loop(),
        "one-idea": draw_one_idea(),
        "feedback": draw_feedback(),
        "engines": draw_engines(),
        "noise": draw_noise(),
        "acquisition": draw_acquisition(),
    }
    for name, figure in drawn.items():
        figure.savefig(out / f"concept-{name}.png", dpi=130)


def new_figure(width: float, height: float) -> Figure:
    """A figure that pyplot does not know."""
    return Figure(figsize=(width, height), layout="constrained")


def tidy(axes: Axes) -> Axes:
    """Leaves out the lines above and to the right."""
    axes.spines[["top", "right"]].set_visible(False)
    return axes


# --- The loop


def draw_loop() -> Figure:
    """Boxes in a ring, an arrow from each to the next."""
    figure = new_figure(6.4, 2.7)
    axes = figure.subplots()
    axes.set(xlim=(0, 12.8), ylim=(0, 5.4), aspect="equal")
    axes.axis("off")
    boxes = [
        (2.2, 4.4, "Model", "a Gaussian process\nof the utility", BLUE),
        (6.4, 4.4, "Acquisition function", "values each possible\nquestion", BLUE),
        (10.6, 4.4, "Question", "two options\nor more", GREEN),
        (10.6, 1.0, "Person", "looks, tastes,\nlistens", ORANGE),
        (6.4, 1.0, "Answer", "the best one, a tie,\na failure, ...", ORANGE),
        (2.2, 1.0, "Data", "points and\nall answers", GREEN),
    ]
    for x, y, title, text, colour in boxes:
        axes.add_patch(
            FancyBboxPatch(
                *((x - 1.65, y - 0.8), 3.3, 1.6),
                boxstyle="round,pad=0.05,rounding_size=0.2",
                facecolor="white",
                edgecolor=colour,
                linewidth=2,
            )
        )
        style = {"ha": "center", "va": "center"}
        axes.text(x, y + 0.38, title, weight="bold", fontsize=9.5, **style)
        axes.text(x, y - 0.32, text, fontsize=8.5, **style)
    arrows = [
        ((3.95, 4.4), (4.65, 4.4), "", (0, 0)),
        ((8.15, 4.4), (8.85, 4.4), "", (0, 0)),
        ((10.6, 3.5), (10.6, 1.9), "show", (10.35, 2.7)),
        ((8.85, 1.0), (8.15, 1.0), "", (0, 0)),
        ((4.65, 1.0), (3.95, 1.0), "", (0, 0)),
        ((2.2, 1.9), (2.2, 3.5), "fit again", (2.45, 2.7)),
    ]
    for start, end, text, place in arrows:
        axes.add_patch(
            FancyArrowPatch(
                *(start, end),
                arrowstyle="-|>",
                mutation_scale=14,
                linewidth=1.5,
                color=GREY,
            )
        )
        side = "right" if place[0] > 6 else "left"
        axes.text(*place, text, fontsize=8, ha=side, va="center")
    return figure


# --- The one idea


def draw_one_idea() -> Figure:
    """Utilities of four designs, the map, and what each answer leaves of its row."""
    figure = new_figure(6.2, 2.9)
    left, middle, right = figure.subplots(1, 3, width_ratios=[1.1, 1.2, 1.1])
    x = torch.linspace(0, 1, 101, dtype=torch.double)
    places = torch.tensor([0.1, 0.38, 0.62, 0.9]).double()

    def utility(at: Tensor) -> Tensor:
        return 2.4 * (4.4 * at - 0.7).sin() + 0.25 * (13 * at).cos()

    tidy(left).plot(x, utility(x), color=GREY)
    left.plot(places, utility(places), "o", color=BLUE)
    for number, place in enumerate(places, 1):
        left.annotate(
            f"$f_{number}$",
            (place, utility(place)),
            textcoords="offset points",
            xytext=(-16, 2) if number < 3 else (6, 2),
        )
    left.axhline(0, color="0.85", lw=1, zorder=0)
    left.set(title="utilities $f$", xlabel="design", xticks=places.tolist())
    left.set(yticks=[], xticklabels=["1", "2", "3", "4"], ylim=(-2.6, 2.9))

    said = ["2 beats 1", "2 and 3 tie", "2 beats 4", "4 failed"]
    rows = torch.tensor([[-1, 1, 0, 0], [0, 1, -1, 0], [0, 1, 0, -1], [0, 0, 0, 1]])
    middle.set(xlim=(-0.5, 3.5), ylim=(3.5, -0.5), title="rows $A$")
    middle.set_xticks(range(4), [f"$f_{n}$" for n in range(1, 5)])
    middle.set_yticks(range(4), said)
    middle.tick_params(length=0)
    for i, row in enumerate(rows.tolist()):
        for j, value in enumerate(row):
            colour = {1: BLUE, -1: ORANGE, 0: "0.93"}[value]
            middle.add_patch(
                FancyBboxPatch(
                    *((j - 0.36, i - 0.36), 0.72, 0.72),
                    boxstyle="round,pad=0.02",
                    facecolor=colour,
                    edgecolor="none",
                )
            )
            if value:
                middle.text(
                    *(j, i, "+1" if value > 0 else "-1"),
                    ha="center",
                    va="center",
                    color="white",
                    weight="bold",
                )
    middle.spines[:].set_visible(False)

    boxes = [(0.0, 3.0), (-1.4, 1.4), (0.0, 3.0), (-3.0, 0.0)]
    right.axvline(0, color="0.8", lw=1)
    for i, (lower, upper) in enumerate(boxes):
        right.plot([lower, upper], [i, i], color=GREEN, lw=5, solid_capstyle="butt")
        for end, mark in ((lower, "<"), (upper, ">")):
            if abs(end) == 3:
                right.plot(end, i, mark, color=GREEN, ms=9, clip_on=False)
            else:
                right.plot(end, i, "|", color=GREEN, ms=13, mew=2)
    right.set(xlim=(-3.2, 3.2), ylim=(3.5, -0.5), title="box of $v = A f + e$")
    right.set_xticks([-1.4, 0, 1.4], [r"$-\delta$", "0", r"$\delta$"])
    right.set_yticks([])
    right.spines[["top", "left", "right"]].set_visible(False)
    return figure


# --- What an answer sees


def draw_feedback() -> Figure:
    """The probability of four answers by the number that each sees."""
    figure = new_figure(4.8, 3.9)
    panels = figure.subplots(2, 2).flat
    z = torch.linspace(-5, 5, 201, dtype=torch.double)
    duel = PairwiseProbitLikelihood(tie_threshold=1.0).double()
    levels = OrdinalProbitLikelihood(
        5, cutpoints=torch.tensor([-3.0, -1.0, 1.0, 3.0]), noise=0.5
    ).double()
    slider = PairwiseBetaLikelihood(precision=10.0).double()
    told = torch.full_like(z, 0.8)
    with torch.no_grad():
        nothing = torch.zeros_like(z)
        curves = [
            ("first is better", duel.win_probability(z, nothing)),
            ("no difference", duel.tie_probability(z, nothing)),
            ("4 stars of 5", level_probability(levels, z, 3)),
            ("a slider at 0.8", slider(z).log_prob(told).exp()),
        ]
    for axes, (title, values), style in zip(panels, curves, STYLES, strict=False):
        tidy(axes).plot(z, values, color=style[0], linestyle=style[1], lw=2)
        axes.fill_between(z, values, color=style[0], alpha=0.15, lw=0)
        axes.axvline(0, color="0.85", lw=1, zorder=0)
        axes.set(title=title, ylim=(0, None), yticks=[], xlim=(-5, 5))
        stars = "stars" in title
        axes.set_xlabel("utility" if stars else "difference of utilities", fontsize=9)
        if axes.get_subplotspec().is_first_col():
            axes.set_ylabel("probability")
    return figure


def level_probability(levels: OrdinalProbitLikelihood, f: Tensor, level: int) -> Tensor:
    """Of one level, at utilities without uncertainty."""
    return levels.level_probabilities(f, torch.zeros_like(f))[..., level]


# --- Engines


def draw_engines() -> Figure:
    """The utility of one design after the seven duels of Benavoli et al. (2021)."""
    places = torch.tensor([1.25, -1.8, -1.23, 0.18, -2.52, 2.18, -0.5, 0.67]).double()
    duels = torch.tensor([[0, 1], [2, 0], [3, 2], [3, 4], [4, 5], [1, 6], [1, 7]])
    x = torch.linspace(-12, 32, 221, dtype=torch.double)
    at = torch.tensor([[0.19]], dtype=torch.double)
    figure = new_figure(5.6, 3.0)
    axes = tidy(figure.subplots())
    engines: list[tuple[str, PreferenceGP]] = []
    for name, model in [
        ("exact (SkewPreferenceGP)", SkewPreferenceGP),
        ("EPPreferenceGP", EPPreferenceGP),
        ("LaplacePreferenceGP", LaplacePreferenceGP),
    ]:
        kernel = ScaleKernel(RBFKernel())
        kernel.outputscale, kernel.base_kernel.lengthscale = 50.0, 0.35
        options = {"num_draws": 16384} if model is SkewPreferenceGP else {}
        likelihood = PairwiseProbitLikelihood(noise=0.5)
        given = {"covar_module": kernel, "likelihood": likelihood, **options}
        engines.append((name, model(places.unsqueeze(-1), duels, **given).eval()))
    for (name, model), (colour, dashes, _) in zip(engines, STYLES, strict=False):
        with torch.no_grad():
            posterior = model.posterior(at)
            if isinstance(model, SkewPreferenceGP):
                density = posterior.density(x.view(-1, 1, 1)).flatten()
                axes.fill_between(x, density, color=colour, alpha=0.15, lw=0)
            else:
                normal = Normal(posterior.mean, posterior.variance.sqrt())
                density = normal.log_prob(x.view(-1, 1, 1)).exp().flatten()
        axes.plot(x, density, color=colour, linestyle=dashes, label=name, lw=2)
    axes.set(xlabel="utility of the design 0.19", yticks=[], ylim=(0, None))
    axes.set(ylabel="density", xlim=(-12, 28))
    axes.legend(frameon=False)
    return figure


# --- Noise


def draw_noise() -> Figure:
    """How often the first of two options is named, and where ties are."""
    figure = new_figure(5.2, 2.7)
    left, right = figure.subplots(1, 2, sharey=True)
    z = torch.linspace(-5, 5, 201, dtype=torch.double)
    nothing = torch.zeros_like(z)
    with torch.no_grad():
        for noise, (colour, dashes, _) in zip((0.1, 1.0, 4.0), STYLES, strict=False):
            likelihood = PairwiseProbitLikelihood(noise=noise).double()
            values = likelihood.win_probability(z, nothing)
            left.plot(z, values, color=colour, ls=dashes, lw=2, label=f"noise {noise}")
        judge = PairwiseProbitLikelihood(tie_threshold=1.0).double()
        tied, won = judge.tie_probability(z, nothing), judge.win_probability(z, nothing)
    right.plot(z, won, color=BLUE, lw=2, label="first is better")
    right.plot(z, tied, color=ORANGE, ls="--", lw=2, label="no difference")
    right.plot(z, won.flip(0), color=GREEN, ls=":", lw=2, label="second is better")
    for axes, title in ((left, "first is better"), (right, "with ties, noise 1")):
        tidy(axes).axvline(0, color="0.85", lw=1, zorder=0)
        axes.set(title=title, xlabel="difference of utilities", ylim=(0, 1.5))
        axes.set_yticks([0, 0.5, 1])
        axes.legend(frameon=False, fontsize=8, loc="upper center")
    left.set_ylabel("probability")
    return figure


# --- Acquisition functions


def draw_acquisition() -> Figure:
    """A utility with its duels, and what each function makes of a challenger."""
    X = torch.tensor([[0.04], [0.16], [0.28], [0.42], [0.94]], dtype=torch.double)
    pairs = torch.tensor([[1, 0], [2, 1], [2, 3], [3, 4], [2, 4]])
    said = Comparisons(pairs, pair_counts=torch.full((5,), 3))
    kernel = ScaleKernel(RBFKernel())
    kernel.outputscale, kernel.base_kernel.lengthscale = 10.0, 0.14
    model = EPPreferenceGP(X, said, covar_module=kernel).eval()
    best = incumbent(model)
    generator = torch.Generator().manual_seed(4)
    rules = [
        ("DuelingUCB", DuelingUCB(model, best)),
        ("DuelingEUBO", DuelingEUBO(model, best)),
        ("DuelingTailedEI", DuelingTailedEI(model, best)),
        ("DuelingEIIG", DuelingEIIG(model, best)),
        ("DuelingKG", DuelingKG(model, best, choices=X)),
        ("DuelingBALD", DuelingBALD(model, best)),
        ("DuelingMUC", DuelingMUC(model, champion(model))),
        ("DuelingThompson", DuelingThompson(model, best, generator)),
    ]
    x = torch.linspace(0, 1, 241, dtype=torch.double).unsqueeze(-1)
    with torch.no_grad():
        posterior = model.posterior(x)
        mean = posterior.mean.squeeze(-1)
        half = 1.96 * posterior.variance.sqrt().squeeze(-1)
        values = [rule(x.unsqueeze(1)) for _, rule in rules]
        won = model.posterior(X).mean.squeeze(-1)
    figure = new_figure(6.4, 7.2)
    top, *panels = figure.subplots(9, 1, sharex=True, height_ratios=[2.6, *8 * [1]])
    line = x.squeeze(-1)
    draw_intervals(tidy(top), line.tolist(), mean, mean - half, mean + half)
    top.plot(X.squeeze(-1), won, "o", color="white", mec="black", label="was shown")
    top.plot(best[0], model.posterior(best).mean[0].detach(), "*", ms=14, color=ORANGE)
    top.annotate(
        *("incumbent", (best.item(), won.max().item()), (8, 6)),
        textcoords="offset points",
        fontsize=8,
    )
    top.set(yticks=[], ylabel="utility", xlim=(0, 1))
    for axes, (name, _), value in zip(panels, rules, values, strict=True):
        tidy(axes).plot(line, value, color=GREEN, lw=1.5)
        axes.fill_between(line, value, value.min(), color=GREEN, alpha=0.15, lw=0)
        at = value.argmax()
        axes.axvline(line[at], color=ORANGE, ls="--", lw=1.5)
        axes.plot(line[at], value[at], "v", color=ORANGE, ms=7, clip_on=False)
        axes.set_yticks([])
        axes.set_ylabel(name, rotation=0, ha="right", va="center", fontsize=9)
    panels[-1].set_xlabel("challenger")
    return figure


if __name__ == "__main__":
    main()
