"""Figures; needs matplotlib, the extra `plot`."""

from botorch_pref.errors import BotorchPrefError

try:
    import matplotlib  # noqa: F401
except ImportError as error:
    raise BotorchPrefError(
        "figures need matplotlib: pip install 'botorch-pref[plot]'"
    ) from error

from botorch_pref.plotting.drivers_figure import draw_drivers
from botorch_pref.plotting.evidence_profile_figure import draw_evidence_profile
from botorch_pref.plotting.run_figure import draw_run

__all__ = ["draw_drivers", "draw_evidence_profile", "draw_run"]
