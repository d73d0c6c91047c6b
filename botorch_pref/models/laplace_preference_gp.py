"""Preference learning with Laplace's approximation."""

from __future__ import annotations

from botorch_pref.inference.laplace import Laplace
from botorch_pref.models.preference_gp import PreferenceGP
from botorch_pref.models.registry import register_model


@register_model("laplace")
class LaplacePreferenceGP(PreferenceGP):
    """A preference model with Laplace's approximation (Chu and Ghahramani 2005).

    The Gaussian around the mode. The fastest engine, and the least accurate one where
    answers carry little noise beside the output scale; ``benchmarks`` measures by how
    much. Prefer :class:`EPPreferenceGP` unless the mode itself is wanted.

    The arguments are those of :class:`PreferenceGP`.
    """

    engine = Laplace()
