"""Links of duels: how answers follow from differences of utilities."""

from botorch_pref.likelihoods.links.duel_link import DuelLink
from botorch_pref.likelihoods.links.logit_link import LogitLink
from botorch_pref.likelihoods.links.probit_link import ProbitLink
from botorch_pref.likelihoods.links.quadrature_link import QuadratureLink

__all__ = ["DuelLink", "LogitLink", "ProbitLink", "QuadratureLink"]
