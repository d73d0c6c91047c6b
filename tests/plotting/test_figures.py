from pathlib import Path

import matplotlib.image
import pandas as pd
import pytest
import torch
from matplotlib.figure import Figure
from torch import Tensor

from botorch_pref import Question
from botorch_pref.evaluation import FeatureEffect
from botorch_pref.plotting import draw_drivers, draw_run, plot_leaderboard
from botorch_pref.simulation import RankedQuestion, RunSettings, make_problem

BLUE = torch.tensor([0x00, 0x72, 0xB2]) / 255
ORANGE = torch.tensor([0xD5, 0x5E, 0x00]) / 255


def count(image: torch.Tensor, colour: torch.Tensor) -> int:
    """Counts the pixels of a colour."""
    return int(((image[..., :3] - colour).abs().amax(-1) < 0.01).sum())


def read(path: Path) -> torch.Tensor:
    """Pixels of a PNG file, `height x width x 4`."""
    return torch.tensor(matplotlib.image.imread(path))


PROBLEM = make_problem("forrester")


def answered(number: int, regret: float, options: Tensor) -> RankedQuestion:
    question = Question(options, "DuelingJointKG" if number else "Sobol", "")
    order = PROBLEM.utility(options).argsort(descending=True)
    return RankedQuestion(number, question, order, None, options[0], regret, None)


def test_run_figure_shows_options_the_first_and_the_best_so_far(tmp_path: Path) -> None:
    settings = RunSettings("forrester", 4, 2, 0.0, 0)
    options = torch.linspace(0, 1, 4).double().unsqueeze(-1)
    # A regret of zero cannot be drawn on a logarithmic axis.
    run = [answered(0, 1.0, options), answered(1, 0.0, 0.5 * options)]
    path = tmp_path / "run.png"
    draw_run(settings, PROBLEM, run, path)
    image = read(path)
    assert count(image, BLUE) > 0
    orange = ((image[..., :3] - ORANGE).abs().amax(-1) < 0.01).nonzero()
    # Marks of the options ranked first, above the regret, beside the legend's.
    assert len(orange) > 0
    assert int(orange[:, 0].max()) < 0.6 * image.shape[0]


def test_run_figure_has_regrets_as_shares_of_the_way_from_the_worst_option(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = torch.linspace(0, 1, 4).double().unsqueeze(-1)
    way = PROBLEM.best - float(PROBLEM.utility(options).min())
    run = [answered(0, way, options), answered(1, way / 4, options)]
    figures: list[Figure] = []
    monkeypatch.setattr(
        Figure, "savefig", lambda figure, *_, **__: figures.append(figure)
    )
    draw_run(RunSettings("forrester", 4, 2, 0.0, 0), PROBLEM, run, Path("run.png"))
    shares = figures[0].axes[1].lines[0].get_ydata()
    assert list(shares) == pytest.approx([100, 25])


def test_drivers_figure_draws_every_feature(tmp_path: Path) -> None:
    grid = torch.linspace(0, 1, 5)
    path = tmp_path / "drivers.png"
    effects = [FeatureEffect(name, grid, -grid, 0.1 * grid) for name in "abcde"]
    draw_drivers(effects, "title", path)
    # Bars and five curves fill two rows of three panels; each shows its colour.
    panels = [panel for row in read(path).chunk(2) for panel in row.chunk(3, dim=1)]
    assert all(count(panel, BLUE) > 0 for panel in panels)
    draw_drivers(effects[:1], "title", path)
    assert len(read(path)) == len(panels[0])


def test_no_curve_of_the_drivers_is_cut_off(tmp_path: Path) -> None:
    grid = torch.linspace(0, 1, 30)
    path = tmp_path / "drivers.png"
    slopes = (0.1, 3.0, -2.0)
    effects = [
        FeatureEffect(str(slope), grid, slope * grid, 0 * grid + 0.01)
        for slope in slopes
    ]
    draw_drivers(effects, "title", path)
    above, below = read(path).chunk(2)
    panels = [*above.chunk(3, dim=1)[1:], below.chunk(3, dim=1)[0]]
    for panel in panels:
        blue = ((panel[..., :3] - BLUE).abs().amax(-1) < 0.01).any(0).nonzero()
        # A panel is 600 pixels wide, its axes are more than 400 of them, and Matplotlib
        # leaves a twentieth on both sides of a curve.
        assert int(blue.max() - blue.min()) > 0.9 * 400


def test_dollars_in_names_of_tables_are_no_formulas(tmp_path: Path) -> None:
    """One would be an error, and of the other the dollars would not be drawn."""
    grid, path = torch.linspace(0, 1, 5), tmp_path / "drivers.png"
    table = pd.DataFrame({"utility": [0.0], "lower": [-1.0], "upper": [1.0]})
    table[["rank_lower", "rank_upper"]] = 1
    widths = []
    for name in ("$\\frac$", "$ll$", "ll"):
        draw_drivers([FeatureEffect(name, grid, grid, grid)], f"of {name}", path)
        axes = plot_leaderboard(table.set_axis([name]), f"of {name}")
        axes.figure.savefig(path)
        widths.append(axes.get_yticklabels()[0].get_window_extent().width)
    # A dollar is wider than an l.
    assert widths[1] > widths[2] + 8
