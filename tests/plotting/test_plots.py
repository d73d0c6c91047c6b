"""The data of figures against posteriors that BoTorch's own interface gives."""

import itertools
import re
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import matplotlib._pylab_helpers
import pandas as pd
import pytest
import torch
from botorch.models import PairwiseGP
from botorch.models.model import Model
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.text import Text
from torch import Tensor

from botorch_pref import (
    BotorchPrefError,
    Choices,
    Comparisons,
    EPPreferenceGP,
    FullyBayesianEPPreferenceGP,
    PairwiseProbitLikelihood,
    PlackettLuceRegression,
    Question,
    Rankings,
    SkewPreferenceGP,
    Validity,
    default_model,
    incumbent,
)
from botorch_pref.evaluation import leaderboard, rater_agreement
from botorch_pref.evaluation.explanation import Dimension
from botorch_pref.models import rater_covar_module
from botorch_pref.plotting import (
    plot_agreement,
    plot_boards,
    plot_calibration,
    plot_comparisons,
    plot_curves,
    plot_effects,
    plot_leaderboard,
    plot_probabilities,
    plot_progress,
    plot_utility,
)
from botorch_pref.plotting.board_figures import add_caption
from botorch_pref.plotting.drawing import answered_pairs
from botorch_pref.plotting.utility import show_on
from botorch_pref.simulation import RankedQuestion

BOX = torch.tensor([[0.0, 0.0], [1.0, 2.0]], dtype=torch.double)
X = torch.tensor(
    [[0.1, 0.3], [0.9, 1.9], [0.5, 1.0], [0.3, 1.4], [0.7, 0.2]], dtype=torch.double
)
PAIRS = torch.tensor([[2, 0], [2, 1], [3, 0], [2, 4], [0, 1], [3, 4]])
TIES = torch.tensor([[2, 3]])
MODELS = ["ep", "skew", "ensemble", "pairwise"]


@pytest.fixture(autouse=True)
def no_figure_is_left_to_pyplot() -> Iterator[None]:
    yield
    assert matplotlib._pylab_helpers.Gcf.figs == {}


def model_of(kind: str) -> Any:
    if kind == "pairwise":
        return PairwiseGP(X, PAIRS).eval()
    if kind == "ensemble":
        return ensemble()
    model_class = {"ep": EPPreferenceGP, "skew": SkewPreferenceGP}[kind]
    return model_class(X, Comparisons(PAIRS)).eval()


def ensemble() -> FullyBayesianEPPreferenceGP:
    """Makes three members, without the sampler that is slow to compile."""
    model = FullyBayesianEPPreferenceGP(X, Comparisons(PAIRS, TIES))
    generator = torch.Generator().manual_seed(5)
    model.load_mcmc_samples(
        {
            name: parameter.detach()
            + 0.5 * torch.randn(3, *parameter.shape, generator=generator).double()
            for name, parameter in model.named_parameters()
            if parameter.requires_grad
        }
    )
    return model.eval()


def posterior_of(model: Model, points: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Computes mean and quantiles .025 and .975, each point by itself."""
    means, ends = [], []
    with torch.no_grad():
        for point in points:
            posterior: Any = model.posterior(point.unsqueeze(0))
            mean = getattr(posterior, "mixture_mean", posterior.mean)
            means.append(mean.flatten()[0])
            levels = points.new_tensor([0.025, 0.975])
            ends.append(posterior.quantile(levels).flatten())
    lower, upper = torch.stack(ends).unbind(-1)
    return torch.stack(means), lower, upper


def band(axes: Axes) -> tuple[Tensor, Tensor]:
    """Reads lower and upper ends of the one band, by increasing places."""
    (filled,) = [c for c in axes.collections if isinstance(c, PolyCollection)]
    (path,) = filled.get_paths()
    corners = torch.as_tensor(path.vertices)
    n = (len(corners) - 3) // 2
    return corners[1 : n + 1, 1], corners[n + 2 : 2 * n + 2, 1].flip(0)


def segments(axes: Axes) -> Tensor:
    """Reads the lines between options, ``m x 2 x 2``."""
    lines = [c for c in axes.collections if isinstance(c, LineCollection)]
    collections = [
        s for c in lines if not c.get_label()[0].isalpha() for s in c.get_segments()
    ]
    return torch.stack([torch.as_tensor(s) for s in collections if len(s) == 2])


@pytest.mark.parametrize("kind", MODELS)
def test_a_curve_has_the_quantiles_of_the_posterior(kind: str) -> None:
    model = model_of(kind)
    axes = plot_utility(model, "dose", bounds=BOX, names=["dose", "heat"])
    x, mean = (torch.as_tensor(v) for v in axes.lines[0].get_data())
    assert axes.get_xlim() == (0, 1)
    assert axes.get_xlabel() == "dose"
    rows = [0, 37, 100]
    held = incumbent(model)[0, 1]
    points = torch.stack([x, held.expand_as(x)], dim=-1)[rows]
    expected, low, high = posterior_of(model, points)
    torch.testing.assert_close(mean[rows], expected, rtol=1e-6, atol=1e-6)
    lower, upper = band(axes)
    torch.testing.assert_close(lower[rows], low, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(upper[rows], high, rtol=1e-5, atol=1e-5)
    star = next(line for line in axes.lines if line.get_marker() == "*")
    assert star.get_xdata()[0] == incumbent(model)[0, 0]
    assert list(star.get_ydata()) == pytest.approx(
        posterior_of(model, incumbent(model))[0].tolist(), abs=1e-6
    )


@pytest.mark.parametrize("kind", MODELS)
def test_every_duel_is_a_line_from_the_loser_to_the_winner(kind: str) -> None:
    pairs = torch.cat([PAIRS, TIES]) if kind == "ensemble" else PAIRS
    model = model_of(kind)
    along = segments(plot_utility(model, 0, bounds=BOX))
    assert len(along) == len(pairs)
    torch.testing.assert_close(along[: len(PAIRS), :, 0], X[PAIRS.flip(-1), 0])
    lines = segments(plot_utility(model, 0, 1, bounds=BOX))
    assert len(lines) == len(pairs)
    torch.testing.assert_close(lines[: len(PAIRS)], X[PAIRS.flip(-1)])
    if kind == "ensemble":
        torch.testing.assert_close(lines[len(PAIRS) :], X[TIES.flip(-1)])


def test_designs_that_failed_are_crosses() -> None:
    failed = torch.tensor([False, True, False, True, True])
    trials = Validity(torch.arange(5), ~failed)
    model = EPPreferenceGP(X, feedback=[Comparisons(PAIRS), trials]).eval()
    along, both = plot_utility(model, 1, bounds=BOX), plot_utility(model, 0, 1)
    alone = plot_utility(EPPreferenceGP(X, feedback=[trials]).eval(), 1, bounds=BOX)
    for axes, columns in ((along, [1]), (both, [0, 1]), (alone, [1])):
        (crosses,) = [line for line in axes.lines if line.get_marker() == "X"]
        places = torch.as_tensor(crosses.get_xydata())[:, : len(columns)]
        torch.testing.assert_close(places, X[failed][:, columns])
    (crosses,) = [line for line in along.lines if line.get_marker() == "X"]
    below = torch.as_tensor(crosses.get_ydata())
    assert below.min() > segments(along)[..., 1].max()


def test_contours_have_the_box_and_the_star() -> None:
    model = model_of("ep")
    own_axes = Figure().subplots()
    axes = plot_utility(model, "b", "a", bounds=BOX, names=["a", "b"], ax=own_axes)
    assert axes is own_axes
    assert axes.get_xlim() == (0, 2)
    assert axes.get_ylim() == (0, 1)
    assert axes.get_xlabel() == "b"
    assert axes.get_ylabel() == "a"
    star = next(line for line in axes.lines if line.get_marker() == "*")
    place = [float(star.get_xdata()[0]), float(star.get_ydata()[0])]
    assert place == incumbent(model)[0].flip(0).tolist()
    # The outermost levels contain the largest and the smallest mean of the grid.
    grid = torch.cartesian_prod(
        torch.linspace(0, 1, 41).double(), torch.linspace(0, 2, 41).double()
    )
    with torch.no_grad():
        mean = model.posterior(grid).mean
    filled = axes.collections[0]
    assert filled.levels[0] <= mean.min()
    assert mean.max() <= filled.levels[-1]
    assert filled.zmin == pytest.approx(float(mean.min()))
    assert filled.zmax == pytest.approx(float(mean.max()))


def test_an_axis_of_whole_numbers_has_no_others() -> None:
    axis = Figure().subplots().yaxis
    show_on(axis, Dimension("shots", (1, 5), whole=True))
    assert axis.get_ticklocs().tolist() == [1, 2, 3, 4, 5]


def test_other_parameters_are_held_where_they_are_wanted() -> None:
    model = model_of("ep")
    by_name = plot_utility(model, 0, bounds=BOX, at={"x1": 0.25})
    by_point = plot_utility(model, 0, bounds=BOX, at=torch.tensor([0.9, 0.25]))
    for axes in (by_name, by_point):
        x, mean = (torch.as_tensor(v)[::50] for v in axes.lines[0].get_data())
        points = torch.stack([x, torch.full_like(x, 0.25)], dim=-1)
        torch.testing.assert_close(mean, posterior_of(model, points)[0])


@pytest.mark.parametrize("kind", ["ep", "skew", "ensemble"])
def test_effects_are_differences_to_the_design(kind: str) -> None:
    model = model_of(kind)
    design = torch.tensor([[0.4, 0.8]], dtype=torch.double)
    panels = plot_effects(model, bounds=BOX, names=["a", "b"], at=design)
    assert [axes.get_xlabel() for axes in panels] == ["a", "b"]
    assert len({axes.get_ylim() for axes in panels}) == 1
    for column, axes in enumerate(panels):
        x, mean = (torch.as_tensor(v) for v in axes.lines[0].get_data())
        # The design is one of the values, the hundredths and fiftieths.
        assert float(mean[40]) == 0
        moved = design.repeat(len(x), 1)
        moved[:, column] = x
        with torch.no_grad():
            posterior: Any = model.duel_posterior(moved[[0, 100]], design)
            expected = getattr(posterior, "mixture_mean", posterior.mean).squeeze(-1)
        torch.testing.assert_close(mean[[0, 100]], expected)
        # With these draws independent of the drawn band's, both have an error.
        with torch.no_grad(), torch.random.fork_rng():
            torch.manual_seed(0)
            draws = model.posterior(moved).rsample(torch.Size([4096])).squeeze(-1)
        curves = (draws - draws[..., 40:41]).flatten(end_dim=-2)
        lower, upper = band(axes)
        inside = ((curves >= lower) & (curves <= upper))[:, x != x[40]].all(-1)
        share = float(inside.double().mean())
        assert abs(share - 0.95) < 4 * (2 * 0.95 * 0.05 / 4096) ** 0.5, (column, share)


def test_choices_of_a_model_have_a_mark_each() -> None:
    points = torch.cat([X, torch.eye(3).double()[[0, 1, 2, 1, 0]]], -1)
    model = default_model(points, PAIRS, categorical=[(2, 4, 3)])
    names = ["dose", "shots", "oat", "cow", "none"]
    design = torch.tensor([0.4, 0.8, 0.0, 0.0, 1.0], dtype=torch.double)
    panels = plot_effects(model, names=names, categorical=[(2, 4, 3)], at=design)
    labels = [axes.get_xlabel() for axes in panels]
    assert labels == ["dose", "shots", "oat, none, cow"]
    ticks = [tick.get_text() for tick in panels[2].get_xticklabels()]
    assert ticks == ["oat", "none", "cow"]
    bars = errorbars(panels[2])
    moved = design.repeat(3, 1)
    moved[:, 2:] = torch.eye(3).double()[[0, 2, 1]]
    with torch.no_grad():
        expected = model.duel_posterior(moved[[0, 2]], design[None]).mean.squeeze(-1)
    torch.testing.assert_close(bars[[0, 2], 1], expected)
    assert bars[1, 1] == 0
    curves = plot_utility(model, "dose", 2, names=names, categorical=[(2, 4, 3)])
    assert len(curves.get_legend().get_texts()) == 3
    with pytest.raises(BotorchPrefError, match="give one of 'x2', 'x4', 'x3'"):
        plot_utility(model, categorical=[(2, 4, 3)], at={"x2, x4, x3": "soy"})
    with pytest.raises(BotorchPrefError, match=r"categorical is \[\(2,\)\]"):
        plot_effects(model, categorical=[(2,)])


def errorbars(axes: Axes) -> Tensor:
    """Reads places, means and both ends of each bar, ``n x 4``."""
    rows = []
    for bar in (c for c in axes.containers if isinstance(c, ErrorbarContainer)):
        marks, _, (lines,) = bar
        for x, y, line in zip(*marks.get_data(), lines.get_segments(), strict=True):
            rows.append([x, y, line[0, 1], line[1, 1]])
    return torch.tensor(rows, dtype=torch.double)


def test_the_matrix_is_of_the_answers_in_the_order_of_the_means() -> None:
    model = model_of("skew")
    names = list("abcde")
    axes = plot_probabilities(model, names=names)
    labels = [text.get_text() for text in axes.get_yticklabels()]
    order = posterior_of(model, X)[0].argsort(descending=True).tolist()
    assert labels == [names[i] for i in order]
    matrix = torch.as_tensor(axes.images[0].get_array().filled(torch.nan))
    with torch.no_grad():
        for row, i in enumerate(order):
            against = model.duel_probability(
                X[i : i + 1].expand(5, 2), X[order], observation_noise=True
            )
            off_diagonal = torch.arange(5) != row
            torch.testing.assert_close(matrix[row][off_diagonal], against[off_diagonal])
    assert matrix.diagonal().isnan().all()
    written = [text.get_text() for text in axes.texts]
    assert len(written) == 20
    assert f"{matrix[0, 1]:.2f}"[1:] in written


def test_arcs_are_answers_for_and_against_the_order() -> None:
    counts = torch.tensor([1, 1, 4, 1, 1, 1])
    answers = Comparisons(PAIRS, TIES, pair_counts=counts)
    sets = Choices(torch.tensor([[0, 3, 4]]), torch.tensor([4]))
    orders = Rankings(torch.tensor([[1, 2, 0]]))
    likelihood = PairwiseProbitLikelihood(tie_threshold=0.5)
    kinds = {Comparisons: likelihood, Choices: likelihood, Rankings: likelihood}
    model = EPPreferenceGP(X, answers, feedback=[sets, orders], likelihood=kinds)
    axes = plot_comparisons(model.eval(), list("abcde"))
    place = posterior_of(model, X)[0].argsort(descending=True).argsort()
    duels = [*PAIRS.tolist(), [4, 0], [4, 3], [1, 2], [1, 0], [2, 0]]
    distinct = {(int(place[i]), int(place[j])) for i, j in duels}
    lines = {c.get_label(): c for c in axes.collections}
    expected = {
        "the upper item was preferred": {p for p in distinct if p[0] < p[1]},
        "the lower item was preferred": {p for p in distinct if p[0] > p[1]},
        "a tie": {tuple(sorted(place[TIES[0]].tolist()))},
    }
    assert all(expected.values())
    for label, pairs in expected.items():
        arcs = lines[label].get_segments()
        ends = {frozenset(map(float, arc[[0, -1], 1].round(3))) for arc in arcs}
        assert ends == {frozenset(map(float, pair)) for pair in pairs}
        assert len(arcs) == len(pairs)
        side = -1 if "lower" in label else 1
        assert all((side * arc[1:-1, 0] > 0).all() for arc in arcs)
    # Four answers that 3 beats 0, the widest arc.
    arcs, widths = (
        lines["the upper item was preferred"].get_segments(),
        lines["the upper item was preferred"].get_linewidths(),
    )
    widest = arcs[int(torch.tensor(widths).argmax())][[0, -1], 1]
    assert {*map(float, widest.round(3))} == {float(place[3]), float(place[0])}
    assert [t.get_text() for t in axes.get_yticklabels()] == [
        "abcde"[i] for i in place.argsort().tolist()
    ]


def test_every_pair_of_an_answer_counts_as_often_as_the_answer() -> None:
    orders = torch.tensor([[1, 2, 0, 3], [3, 1, -1, -1]])
    sets = torch.tensor([[0, 3, 4], [2, 1, -1]])
    pairs = answered_pairs(
        [
            Rankings(orders, counts=torch.tensor([2, 5])),
            Choices(sets, torch.tensor([4, 2]), counts=torch.tensor([3, 7])),
        ]
    )
    counted = zip(pairs.won.tolist(), pairs.won_counts.tolist(), strict=True)
    answers = [*itertools.combinations([1, 2, 0, 3], 2)]
    expected = {**dict.fromkeys(answers, 2), (3, 1): 5, (4, 0): 3, (4, 3): 3, (2, 1): 7}
    assert {tuple(pair): number for pair, number in counted} == expected
    assert len(pairs.won) == len(expected)


def test_calibration_counts_the_favourites() -> None:
    probabilities = torch.tensor([0.55, 0.45, 0.58, 0.91, 0.95, 0.92, 0.08, 0.5])
    axes = plot_calibration(probabilities)
    bars = errorbars(axes)
    # Three favourites of .55 (won), .55 (lost), .58 (won); four near .92, one lost.
    torch.testing.assert_close(
        bars[:, 0], torch.tensor([1.68 / 3, 3.7 / 4]).double(), atol=1e-6, rtol=0
    )
    torch.testing.assert_close(bars[:, 1], torch.tensor([2 / 3, 3 / 4]).double())
    # Wilson (1927): (p + z^2 / 2n +- z sqrt(p q / n + z^2 / 4n^2)) / (1 + z^2 / n).
    z, n, p = 1.959963984540054, torch.tensor([3.0, 4.0]).double(), bars[:, 1]
    middle = (p + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z * (p * (1 - p) / n + z**2 / (4 * n**2)).sqrt() / (1 + z**2 / n)
    torch.testing.assert_close(bars[:, 2], middle - half)
    torch.testing.assert_close(bars[:, 3], middle + half)
    assert [text.get_text() for text in axes.texts] == ["3", "4"]
    plot_calibration(torch.tensor([1.0, 1.0]))


CURVES = {
    "truth": torch.tensor([0.0, 1.0, 4.0]),
    "model": tuple(torch.tensor([0.5, 1.5, 3.0]) + shift for shift in (0.0, -1.0, 2.0)),
}


def test_curves_over_numbers_have_their_bands() -> None:
    x = torch.tensor([1.0, 2.0, 4.0])
    axes = plot_curves(x, CURVES)
    truth, model = (torch.as_tensor(line.get_xydata()) for line in axes.lines)
    torch.testing.assert_close(truth, torch.stack([x, CURVES["truth"]], -1).double())
    torch.testing.assert_close(model, torch.stack([x, CURVES["model"][0]], -1).double())
    lower, upper = band(axes)
    torch.testing.assert_close(lower, CURVES["model"][1].double())
    torch.testing.assert_close(upper, CURVES["model"][2].double())
    assert len({line.get_linestyle() for line in axes.lines}) == 2
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == [*CURVES]


def test_counts_have_ticks_at_whole_numbers_alone() -> None:
    ticks = plot_curves(range(1, 4), {"share": CURVES["truth"]}).get_xticks()
    assert [*ticks] == [round(tick) for tick in ticks]


def test_values_of_names_stand_beside_each_other() -> None:
    axes = plot_curves(ODD_NAMES[:3], CURVES)
    marks = [line for line in axes.lines if line.get_label() == "truth"]
    (bars,) = [c for c in axes.containers if isinstance(c, ErrorbarContainer)]
    middle, _, (sides,) = bars.lines
    (first,), second = (line.get_xdata() for line in marks), middle.get_xdata()
    assert [*first] == pytest.approx([-0.15, 0.85, 1.85])
    assert [*second] == pytest.approx([0.15, 1.15, 2.15])
    assert [*marks[0].get_ydata()] == CURVES["truth"].tolist()
    ends = torch.stack([torch.as_tensor(s)[:, 1] for s in sides.get_segments()])
    torch.testing.assert_close(ends, torch.stack(CURVES["model"][1:], -1).double())
    assert [label.get_text() for label in axes.get_xticklabels()[:2]] == ODD_NAMES[:2]


def test_a_leaderboard_has_its_utilities_and_ranks() -> None:
    table = leaderboard(model_of("ep"), names=list("abcde"), num_samples=64)
    axes = plot_leaderboard(table, "Items")
    mean, place = axes.lines[0].get_data()
    assert list(mean) == table["utility"].tolist()
    assert list(place) == [*range(5)]
    (bars,) = [c for c in axes.collections if isinstance(c, LineCollection)]
    ends = torch.stack([torch.as_tensor(s)[:, 0] for s in bars.get_segments()])
    expected = torch.tensor(table[["lower", "upper"]].to_numpy())
    torch.testing.assert_close(ends, expected)
    first = table.iloc[0]
    label = axes.get_yticklabels()[0].get_text()
    assert label.startswith(f"{table.index[0]}  {first['rank_lower']:.0f}")
    assert axes.get_title() == "Items"


def test_boards_side_by_side_have_the_order_of_the_first() -> None:
    first = leaderboard(model_of("ep"), names=list("abcde"), num_samples=64)
    other = first.iloc[::-1].copy()
    other["utility"] = range(5)
    boards = {"all": first} | {f"kind {i}": other for i in range(13)}
    figure = plot_boards(boards, "Kinds")
    panels = [axes for axes in figure.axes if axes.axison]
    titles = ["all", *(f"kind {i}" for i in range(11))]
    assert [axes.get_title() for axes in panels] == titles
    assert figure.get_suptitle() == "Kinds (the first 12 boards)"
    labels = [label.get_text() for label in panels[0].get_yticklabels()]
    assert labels == [*first.index]
    for axes, board in ((panels[0], first), (panels[1], other)):
        mean, place = axes.lines[0].get_data()
        assert [*mean] == board["utility"].loc[first.index].tolist()
        assert [*place] == [*range(5)]
        # The first item is at the top, and its ranks are beside it.
        assert axes.get_ylim() == (4.5, -0.5)
        row = board.loc[first.index[0]]
        ranks = axes.texts[0].get_text().split(" to ")
        assert {*map(float, ranks)} == {row["rank_lower"], row["rank_upper"]}
    add_caption(figure, "Of " + "many " * 100)
    figure.draw_without_rendering()
    below = figure.get_supxlabel()
    assert below.startswith("utility; ranks to the right\nOf many")
    (caption,) = [text for text in figure.texts if text.get_text() == below]
    assert caption.get_window_extent().width <= figure.bbox.width


ODD_NAMES = ["$\\frac$", "two $ of $ them", 300 * "long ", "d", "e"]
"""Dollars that would be an error of a formula, ones that would not be drawn."""


def labels_of(axes: Axes) -> list[Text]:
    labels = [*axes.get_xticklabels(), *axes.get_yticklabels()]
    named = [axes.xaxis.label, axes.yaxis.label]
    return [text for text in labels + named if text.get_text()]


def figures_of_names() -> Iterator[list[Axes]]:
    model = model_of("ep")
    yield [plot_probabilities(model, names=ODD_NAMES)]
    yield [plot_comparisons(model, names=ODD_NAMES)]
    for pair in (ODD_NAMES[:2], ODD_NAMES[1:3], ODD_NAMES[2:4]):
        yield [plot_utility(model, 0, names=pair, bounds=BOX)]
        yield [plot_utility(model, 0, 1, names=pair, bounds=BOX)]
        yield plot_effects(model, names=pair, bounds=BOX)
    raters = torch.arange(5).double()
    points = torch.cartesian_prod(torch.tensor([0.0, 0.5, 1.0]).double(), raters)
    crowd = EPPreferenceGP(
        points, torch.tensor([[0, 5]]), covar_module=rater_covar_module(1).double()
    )
    few_points = points[::5, :1]
    yield [plot_agreement(crowd.eval(), few_points, raters, ODD_NAMES, num_samples=64)]


def test_names_that_people_gave_are_drawn_as_they_are_in_every_figure() -> None:
    for panels in figures_of_names():
        figure = panels[0].figure
        assert figure is not None
        figure.draw_without_rendering()
        for text in (text for axes in panels for text in labels_of(axes)):
            box = text.get_window_extent()
            # Nothing is cut off at the left or below.
            assert box.x0 >= -1, f"{text} is cut off at the left"
            assert box.y0 >= -1, f"{text} is cut off below"
        for axes in panels:
            assert axes.get_window_extent().width > 0.1 * figure.bbox.width
        labels = [t for axes in panels for t in labels_of(axes) if "$" in t.get_text()]
        assert not any(text.get_parse_math() for text in labels)


def test_one_item_has_no_probabilities() -> None:
    with pytest.raises(BotorchPrefError, match="give items, n x d, two or more"):
        plot_probabilities(model_of("ep"), X[:1])


def test_a_utility_that_is_known_is_drawn() -> None:
    """Linear utilities have no variance at the origin."""
    model = PlackettLuceRegression(X, Comparisons(PAIRS))
    axes = plot_utility(model, 0, bounds=BOX, at=torch.zeros(2).double())
    (band,) = [c for c in axes.collections if isinstance(c, PolyCollection)]
    corners = torch.as_tensor(band.get_paths()[0].vertices)
    at_origin = corners[corners[:, 0] == 0]
    assert at_origin[:, 1].abs().max() == 0
    with torch.no_grad():
        posterior = model.posterior(torch.zeros(1, 2).double())
    levels = torch.tensor([0.1, 0.9]).double()
    assert posterior.quantile(levels).tolist() == [[[0.0]], [[0.0]]]


@pytest.mark.parametrize("letter", "iW")
def test_a_long_name_leaves_a_leaderboard_room(letter: str) -> None:
    names = [3000 * letter, *"bcde"]
    table = leaderboard(model_of("ep"), names=names, num_samples=64)
    axes = plot_leaderboard(table)
    axes.figure.draw_without_rendering()
    assert axes.get_window_extent().width > 0.1 * axes.figure.bbox.width
    labels = {text.get_text().split("  ")[0] for text in axes.get_yticklabels()}
    assert labels == {f"{47 * letter}…", *"bcde"}


@pytest.mark.parametrize("name", ["item", None])
def test_a_leaderboard_read_without_its_index_is_refused(name: str | None) -> None:
    table = leaderboard(model_of("ep"), num_samples=64)
    # The index of numbers would be drawn instead of the names.
    text = table.rename_axis(name).to_csv()
    read = pd.read_csv(StringIO(text))
    with pytest.raises(BotorchPrefError, match=f"the column '{name or 'Unnamed: 0'}'"):
        plot_leaderboard(read)
    plot_leaderboard(pd.read_csv(StringIO(text), index_col=0))


def test_agreement_is_that_of_the_table() -> None:
    generator = torch.Generator().manual_seed(1)
    items = torch.rand(5, 1, dtype=torch.double, generator=generator)
    rows = torch.cat([torch.cat([items, torch.full((5, 1), r)], -1) for r in (0, 1, 2)])
    order = items.squeeze(-1).argsort()
    up = torch.stack([order[1:], order[:-1]], dim=-1)
    answers = torch.cat([up, up + 5, up.flip(-1) + 10])
    model = EPPreferenceGP(rows, answers, covar_module=rater_covar_module(1)).eval()
    people = ["Ada", "Eva", "Ben"]
    noises = pd.DataFrame(
        {
            "noise": [0.5, 4.0, 1.0],
            "lower": [0.2, 1.5, 0.5],
            "upper": [1.0, 9.0, 2.0],
            "outlier": [False, True, False],
        },
        index=people,
    )
    numbers = torch.tensor([0, 2, 1])
    axes = plot_agreement(model, items, numbers, people, reliability=noises)
    drawn = torch.as_tensor(axes.images[0].get_array().filled(torch.nan))
    table = rater_agreement(model, items, numbers, people)["agreement"]
    labels = [text.get_text() for text in axes.get_xticklabels()]
    # Those who agree stand together.
    assert abs(labels.index("Ada") - labels.index("Ben")) == 1
    places = [labels.index(name) for name in ("Ada", "Ben", "Eva")]
    matrix = drawn[places][:, places]
    pairs = {("Ada", "Eva"): (0, 2), ("Ada", "Ben"): (0, 1), ("Eva", "Ben"): (1, 2)}
    for names, place in pairs.items():
        assert float(matrix[place]) == pytest.approx(table[names]), f"cell of {names}"
    assert matrix[0, 1] > 0 > matrix[0, 2]
    (beside,) = axes.child_axes
    x, y = beside.lines[0].get_data()
    assert (
        dict(zip([labels[i] for i in y], x, strict=True)) == noises["noise"].to_dict()
    )
    (outlier,) = beside.texts
    assert outlier.xy == (4.0, labels.index("Eva"))
    with pytest.raises(BotorchPrefError, match="same names"):
        plot_agreement(model, items, numbers, reliability=noises)


def test_the_noises_of_many_raters_stand_free_of_the_colour_bar() -> None:
    items, number = torch.tensor([[0.1], [0.5], [0.8]], dtype=torch.double), 13
    rows = [torch.cat([items, torch.full((3, 1), r)], -1) for r in range(number)]
    up = torch.tensor([[1, 0], [2, 1]]).repeat(number, 1)
    answers = up + 3 * torch.arange(number).repeat_interleave(2).unsqueeze(-1)
    model = EPPreferenceGP(
        torch.cat(rows), answers, covar_module=rater_covar_module(1)
    ).eval()
    noises = pd.DataFrame(
        {"noise": 1.0, "lower": 0.5, "upper": 2.0, "outlier": False},
        index=range(number),
    )
    axes = plot_agreement(model, items, torch.arange(number), reliability=noises)
    axes.figure.draw_without_rendering()
    _, bar = axes.figure.axes
    (beside,) = axes.child_axes
    extent = beside.get_tightbbox()
    assert not extent.overlaps(bar.get_tightbbox())
    assert extent.x1 <= axes.figure.bbox.x1


def test_the_progress_of_a_run_is_its_regret() -> None:
    question = Question(torch.zeros(2, 1).double(), "Sobol", "")
    run = [
        RankedQuestion(n, question, torch.arange(2), None, BOX[0], 1 / (n + 1), None)
        for n in range(4)
    ]
    axes = plot_progress(run)
    x, regret = axes.lines[0].get_data()
    assert list(x) == [1, 2, 3, 4]
    assert list(regret) == [1, 1 / 2, 1 / 3, 1 / 4]


def test_what_cannot_be_drawn_is_named() -> None:
    model = model_of("ep")
    wrong: list[tuple[str, Any]] = [
        ("no parameter 'c'", lambda: plot_utility(model, "c", names=["a", "b"])),
        ("no parameter 2", lambda: plot_utility(model, 2)),
        ("one parameter or two", lambda: plot_utility(model, 0, 0)),
        ("one parameter or two", lambda: plot_utility(model, 0, 1, 1)),
        ("name each once", lambda: plot_utility(model, names=["a", "a"])),
        ("bounds is", lambda: plot_utility(model, bounds=BOX.flip(0))),
        ("at names", lambda: plot_utility(model, at={"dose": 1.0})),
        ("level holds 95.0; give prob", lambda: plot_utility(model, level=95)),
        ("level holds 0.0; give prob", lambda: plot_effects(model, level=0)),
        ("at has shape", lambda: plot_utility(model, at=torch.ones(3))),
        ("give one for each", lambda: plot_effects(model, ax=[Figure().subplots()])),
        ("4 names", lambda: plot_probabilities(model, names=list("abcd"))),
        ("1 of them", lambda: plot_comparisons(model, names=["a"] * 5)),
        ("from 0 to 1", lambda: plot_calibration(torch.tensor([1.5]))),
        ("no questions", lambda: plot_progress([])),
        ("There are 0 curves", lambda: plot_curves([1.0], {})),
        ("6 curves", lambda: plot_curves([1], dict.fromkeys("abcdef", X[0, :1]))),
        (r"shapes \[\(5, 2\)\]; give", lambda: plot_curves([*range(5)], {"a": X})),
        ("of 5 numbers", lambda: plot_curves([*range(5)], {"a": (X[:, 0], X[:, 1])})),
        ("give three or more", lambda: plot_agreement(model, X[:2], torch.arange(2))),
    ]
    for message, call in wrong:
        with pytest.raises(BotorchPrefError, match=message):
            call()
    batch = EPPreferenceGP(X.expand(2, 5, 2), PAIRS.expand(2, 6, 2))
    with pytest.raises(BotorchPrefError, match="a batch of shape"):
        plot_utility(batch)


PAGE = Path(__file__).parents[2] / "docs" / "plotting.md"


def test_the_page_runs_and_has_its_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"^```python\n(.*?)^```", text, re.M | re.S))
    exec(compile(code, PAGE.name, "exec"), {})
    assert (tmp_path / "utility.png").stat().st_size > 10_000
