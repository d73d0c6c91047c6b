"""Preference learning with Laplace's approximation."""

from __future__ import annotations

from typing import ClassVar

from botorch_pref.inference.laplace import laplace
from botorch_pref.likelihoods.factors.beta_factors import BetaFactors
from botorch_pref.likelihoods.factors.box_factors import BoxFactors
from botorch_pref.likelihoods.factors.density_factors import DensityFactors
from botorch_pref.likelihoods.factors.logit_factors import LogitFactors
from botorch_pref.likelihoods.factors.plackett_luce_factors import PlackettLuceFactors
from botorch_pref.models.gaussian_preference_gp import GaussianPreferenceGP
from botorch_pref.models.registry import register_model


@register_model("laplace")
class LaplacePreferenceGP(GaussianPreferenceGP):
    """A preference model with Laplace's approximation (Chu and Ghahramani 2005).

    The Gaussian around the mode. The fastest engine, and the least accurate one where
    answers carry little noise beside the output scale; ``benchmarks`` measures by how
    much. Prefer :class:`EPPreferenceGP` unless the mode itself is wanted.

    The arguments are those of :class:`PreferenceGP`.
    """

    takes: ClassVar = frozenset(
        {BetaFactors, BoxFactors, DensityFactors, LogitFactors, PlackettLuceFactors}
    )
    _engine = staticmethod(laplace)
