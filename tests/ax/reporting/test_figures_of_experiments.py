"""Figures of experiments: designs by name, in mixed spaces with constraints."""

from typing import Any

import matplotlib._pylab_helpers
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from torch import Tensor

from botorch_pref import BotorchPrefError
from botorch_pref.ax import PreferenceExperiment
from botorch_pref.models import plausible_models
from botorch_pref.plotting import plot_effects, plot_progress, plot_utility
from botorch_pref.posteriors.gaussian import central_interval


@pytest.fixture
def fitted_once(
    played: PreferenceExperiment, monkeypatch: pytest.MonkeyPatch
) -> PreferenceExperiment:
    """The experiment, whose model is fitted once for a figure and its test."""
    adapter = played.fitted_adapter()
    monkeypatch.setattr(played, "fitted_adapter", lambda **_: adapter)
    return played


def intervals(
    experiment: PreferenceExperiment, designs: list[dict[str, Any]]
) -> tuple[Tensor, Tensor, Tensor]:
    adapter = experiment.fitted_adapter()
    posterior = adapter.utility.posterior(adapter.points_of(designs))
    return central_interval(posterior, 0.95)


def averaged_mean(model: Any, points: Tensor) -> Tensor:
    """Averages the mean over plausible models, each in units of its noise."""
    members, unit = plausible_models(model), model.likelihood.noise.sqrt()
    with torch.no_grad():
        means = [
            m.posterior(points).mean.squeeze(-1) / m.likelihood.noise.sqrt()
            for m in members
        ]
        return unit.squeeze() * torch.stack(means).mean(0)


def star(axes: Axes) -> list[float]:
    (line,) = [line for line in axes.lines if line.get_marker() == "*"]
    return [float(line.get_xdata()[0]), float(line.get_ydata()[0])]


def duels(axes: Axes) -> list[Any]:
    lines = [c for c in axes.collections if isinstance(c, LineCollection)]
    of_bars = {id(line) for bar in axes.containers for line in bar[2]}
    return [s for c in lines if id(c) not in of_bars for s in c.get_segments()]


def bars(axes: Axes, number: int = 0) -> tuple[Tensor, Tensor]:
    """Reads means, and the ends of bars, ``n x 2``."""
    marks, _, (lines,) = axes.containers[number]
    ends = torch.stack([torch.as_tensor(s)[:, 1] for s in lines.get_segments()])
    means = [float(y) for y in marks.get_ydata()]
    return torch.tensor(means, dtype=torch.double), ends


def test_numbers_and_choices_have_their_posteriors(
    fitted_once: PreferenceExperiment,
) -> None:
    best = dict(fitted_once.recommend())
    axes = plot_utility(fitted_once, "grind")
    assert axes.get_xscale() == "log"
    assert axes.get_xlim() == pytest.approx((0.1, 10))
    assert star(axes) == pytest.approx(
        [best["grind"], float(intervals(fitted_once, [best])[0])]
    )
    x, mean = axes.lines[0].get_data()
    moved = [{**best, "grind": float(g)} for g in x[::25]]
    expected = intervals(fitted_once, moved)
    torch.testing.assert_close(torch.as_tensor(mean)[::25], expected[0])

    axes = plot_utility(fitted_once, "bean")
    assert [t.get_text() for t in axes.get_xticklabels()] == ["a", "b", "c"]
    mean, lower, upper = intervals(fitted_once, [{**best, "bean": b} for b in "abc"])
    bars_of_options, ends = bars(axes)
    torch.testing.assert_close(bars_of_options, mean)
    torch.testing.assert_close(ends, torch.stack([lower, upper], dim=-1))
    # Four questions of two options.
    assert len(duels(axes)) == 4


def test_two_parameters_are_contours_or_a_curve_for_each_choice(
    fitted_once: PreferenceExperiment,
) -> None:
    best = dict(fitted_once.recommend())
    axes = plot_utility(fitted_once, "bean", "dose", at={"ratio": 3})
    assert axes.get_xlabel() == "dose"
    assert axes.get_xlim() == (14, 22)
    legend = axes.get_legend()
    assert legend is not None
    assert [t.get_text() for t in legend.get_texts()] == ["bean a", "bean b", "bean c"]
    x, mean = (torch.as_tensor(v) for v in axes.lines[1].get_data())
    # dose + ratio <= 21: nothing is drawn beyond a dose of 18.
    assert torch.equal(mean.isnan(), x > 18 + 1e-9)
    design = {**best, "bean": "b", "ratio": 3}
    expected, _, _ = intervals(fitted_once, [{**design, "dose": 14.0}])
    torch.testing.assert_close(mean[:1], expected)

    axes = plot_utility(fitted_once, "ratio", "dose")
    assert star(axes) == [best["ratio"], best["dose"]]
    assert len(duels(axes)) == 4

    axes = plot_utility(fitted_once, "cup", "bean")
    assert len(axes.containers) == 3
    moved = [{**best, "cup": cup, "bean": "c"} for cup in (1, 2, 4)]
    torch.testing.assert_close(bars(axes, 2)[0], intervals(fitted_once, moved)[0])


def test_effects_are_those_of_all_parameters_around_the_recommended(
    fitted_once: PreferenceExperiment,
) -> None:
    best = dict(fitted_once.recommend())
    panels = plot_effects(fitted_once)
    # Ax fixes the one machine.
    names = ["dose", "grind", "ratio", "bean", "cup"]
    assert [axes.get_xlabel() for axes in panels] == names
    adapter = fitted_once.fitted_adapter()
    model: Any = adapter.botorch_model
    moved = adapter.points_of([{**best, "bean": b} for b in "abc"])
    change = averaged_mean(model, moved)
    change = change - averaged_mean(model, adapter.points_of([best]))
    torch.testing.assert_close(bars(panels[3])[0], change, rtol=1e-6, atol=1e-6)


def test_progress_has_each_option_and_the_best_so_far(
    fitted_once: PreferenceExperiment,
) -> None:
    axes = plot_progress(fitted_once)
    options = [q.options for q in fitted_once.log.questions]
    adapter = fitted_once.fitted_adapter()
    points = adapter.points_of([dict(o.parameters) for q in options for o in q])
    mean = averaged_mean(adapter.botorch_model, points)
    # Beside the best of them, for comparisons say nothing of the level.
    best = adapter.points_of([fitted_once.recommend()])
    mean = mean - averaged_mean(adapter.botorch_model, best)
    dots, line = axes.lines
    assert list(dots.get_xdata()) == [1, 1, 2, 2, 3, 3, 4, 4]
    torch.testing.assert_close(torch.as_tensor(dots.get_ydata()), mean)
    torch.testing.assert_close(
        torch.as_tensor(line.get_ydata()), mean.cummax(0).values[1::2]
    )
    assert matplotlib._pylab_helpers.Gcf.figs == {}


def test_an_experiment_has_names_and_bounds_of_its_own(
    played: PreferenceExperiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fit() -> None:
        raise AssertionError("a model was fitted for what is refused")

    monkeypatch.setattr(played, "fitted_adapter", fit)
    with pytest.raises(BotorchPrefError, match="leave them out"):
        plot_utility(played, "dose", bounds=torch.zeros(2, 1))
    with pytest.raises(BotorchPrefError, match="at is a tensor"):
        plot_utility(played, "dose", at=torch.zeros(1))
    with pytest.raises(BotorchPrefError, match="no parameter 'heat'"):
        plot_utility(played, "heat")
    with pytest.raises(BotorchPrefError, match="one parameter or"):
        plot_utility(played, "dose", "dose")
    with pytest.raises(BotorchPrefError, match=r"at names \['heat'\]"):
        plot_utility(played, at={"heat": 1})
