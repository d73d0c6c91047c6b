"""Preference learning with expectation propagation."""

from __future__ import annotations

from botorch_pref.inference.ep.expectation_propagation import ExpectationPropagation
from botorch_pref.models.preference_gp import PreferenceGP
from botorch_pref.models.registry import register_model


@register_model("ep")
class EPPreferenceGP(PreferenceGP):
    """A preference model with expectation propagation (Chu and Ghahramani 2005b).

    A Gaussian whose moments match those of every answer in turn; exact for one answer,
    very close to the exact means and variances for many (``benchmarks`` measures how
    close). What no Gaussian has is skewness, which shows in the probabilities of duels
    that were already asked, near 0 and 1. :class:`SkewPreferenceGP` is exact.

    The arguments are those of :class:`PreferenceGP`.
    """

    engine = ExpectationPropagation()
