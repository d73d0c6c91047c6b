"""Figure of an evidence profile."""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

from botorch_pref.evaluation.explanation.evidence_profile import DROP, EvidenceProfile

COLOUR = "#0072b2"


def draw_evidence_profile(profile: EvidenceProfile, path: Path) -> None:
    """Draws an evidence profile to a PNG file.

    The log evidence below its maximum, the level 1.92 nats below, and the interval of
    values above that level, shaded. The axis of positive values is logarithmic.

    Args:
        profile: What is drawn.
        path: Where the PNG goes.
    """
    figure = Figure(figsize=(5, 3.5), layout="constrained")
    axes = figure.subplots()
    axes.axvspan(*profile.interval, color=COLOUR, alpha=0.15)
    below = (profile.log_evidence - profile.log_evidence.max()).tolist()
    axes.plot(profile.values.tolist(), below, ".-", color=COLOUR)
    axes.axhline(-DROP, color="0.5", linewidth=1)
    if float(profile.values[0]) > 0:
        axes.set_xscale("log")
    axes.set_xlabel(profile.parameter)
    axes.set_ylabel("log evidence below best")
    figure.savefig(path, dpi=150, format="png")
