"""Figures; needs matplotlib, the extra `plot`."""

from botorch_pref.errors import BotorchPrefError

try:
    import matplotlib  # noqa: F401
except ImportError as error:
    raise BotorchPrefError(
        "figures need matplotlib: pip install 'botorch-pref[plot]'"
    ) from error

from botorch_pref.plotting.board_figures import plot_boards, plot_leaderboard
from botorch_pref.plotting.figures import (
    draw_run,
    plot_agreement,
    plot_calibration,
    plot_comparisons,
    plot_curves,
    plot_probabilities,
    plot_progress,
)
from botorch_pref.plotting.utility import draw_drivers, plot_effects, plot_utility

__all__ = [
    "draw_drivers",
    "draw_run",
    "plot_agreement",
    "plot_boards",
    "plot_calibration",
    "plot_comparisons",
    "plot_curves",
    "plot_effects",
    "plot_leaderboard",
    "plot_probabilities",
    "plot_progress",
    "plot_utility",
]
