"""Preference learning with Laplace's approximation."""

from __future__ import annotations

from botorch_pref.inference.laplace import laplace
from botorch_pref.models.gaussian_preference_gp import GaussianPreferenceGP


class LaplacePreferenceGP(GaussianPreferenceGP):
    """A preference model with Laplace's approximation (Chu and Ghahramani 2005).

    The Gaussian around the mode. The fastest engine, and the least accurate one where
    answers carry little noise: at ``noise=0.01`` and unit output scale its means are off
    by 0.27 prior standard deviations on average, at ``noise=0.25`` by 0.05; see
    ``benchmarks/posterior_accuracy.py``. Prefer :class:`EPPreferenceGP` unless the mode
    itself is wanted.

    The arguments are those of :class:`PreferenceGP`.
    """

    _engine = staticmethod(laplace)
