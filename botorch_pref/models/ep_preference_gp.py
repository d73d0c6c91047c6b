"""Preference learning with expectation propagation."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from botorch_pref.inference.ep.expectation_propagation import expectation_propagation
from botorch_pref.likelihoods.factors.beta_factors import BetaFactors
from botorch_pref.likelihoods.factors.box_factors import (
    BoxFactors,
    CorrelatedBoxFactors,
)
from botorch_pref.likelihoods.factors.density_factors import DensityFactors
from botorch_pref.likelihoods.factors.logit_factors import LogitFactors
from botorch_pref.models.data.training_set import TrainingSet
from botorch_pref.models.expected_sites import expected_sites
from botorch_pref.models.gaussian_preference_gp import GaussianPreferenceGP
from botorch_pref.models.registry import register_model


@register_model("ep")
class EPPreferenceGP(GaussianPreferenceGP):
    """A preference model with expectation propagation (Chu and Ghahramani 2005b).

    A Gaussian whose moments match those of every answer in turn; exact for one answer,
    very close to the exact means and variances for many (``benchmarks`` measures how
    close). What no Gaussian has is skewness, which shows in the probabilities of duels
    that were already asked, near 0 and 1. :class:`SkewPreferenceGP` is exact.

    The arguments are those of :class:`PreferenceGP`.
    """

    takes: ClassVar = frozenset(
        {BetaFactors, BoxFactors, CorrelatedBoxFactors, DensityFactors, LogitFactors}
    )
    _engine = staticmethod(expectation_propagation)

    def _first_sites(self, more: TrainingSet) -> tuple[Tensor, Tensor]:
        """See base class; what the posterior expects of them, where there is one."""
        if self.training or self._terms is None:
            return super()._first_sites(more)
        return expected_sites(self, more)
