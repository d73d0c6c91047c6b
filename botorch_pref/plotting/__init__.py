"""Figures; needs matplotlib, the extra `plot`."""

from botorch_pref.errors import BotorchPrefError

try:
    import matplotlib  # noqa: F401
except ImportError as error:
    raise BotorchPrefError(
        "figures need matplotlib: pip install 'botorch-pref[plot]'"
    ) from error

from botorch_pref.plotting.figures import draw_drivers, draw_evidence_profile, draw_run

__all__ = ["draw_drivers", "draw_evidence_profile", "draw_run"]
