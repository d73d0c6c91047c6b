"""Preference learning with expectation propagation."""

from __future__ import annotations

from botorch_pref.inference.expectation_propagation import expectation_propagation
from botorch_pref.models.gaussian_preference_gp import GaussianPreferenceGP


class EPPreferenceGP(GaussianPreferenceGP):
    """A preference model with expectation propagation (Chu and Ghahramani 2005b).

    The Gaussian with the best marginal moments that is known how to compute; exact for
    one comparison, within about 0.02 prior standard deviations of the exact means
    otherwise. What no Gaussian can have is skewness: probabilities of duels that were
    already asked can be off by 0.1 near 0 and 1. :class:`SkewPreferenceGP` is exact.

    The arguments are those of :class:`PreferenceGP`.
    """

    _engine = staticmethod(expectation_propagation)
