"""Posterior covariances with fixed points, for functions that ask about many others."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple, TypeGuard

import torch
from torch import Tensor

from botorch_pref.inference.engine import PosteriorTerms, cross_covariance, predict
from botorch_pref.models.preference_gp import PreferenceGP
from botorch_pref.posteriors.gaussian import Moments


class CovarianceWith(NamedTuple):
    """Posterior covariances with directions, without those of all points.

    Prior covariances with ``points``, ``n x d``, transformed, are multiplied by
    ``matrix``, ``n x r``. The last points are those of the posterior's terms, where it
    has some.
    """

    model: PreferenceGP
    terms: PosteriorTerms | None
    points: Tensor
    matrix: Tensor

    def __call__(self, X: Tensor) -> tuple[Moments, Tensor]:
        """Computes posterior moments of points ``x``, and covariances ``C(x, X) D``.

        They are covariances with the points and directions that this was made for,
        ``t_batch x q x r``. Points are ``t_batch x q x d``, untransformed; both results
        have a gradient in them.
        """
        mean, kernel = self.model.mean_module, self.model.covar_module
        X, terms = self.model.transform_inputs(X), self.terms
        cross = cross_covariance(kernel, X, self.points)
        count = 0 if terms is None else len(terms.points)
        of_terms = cross[..., cross.shape[-1] - count :]
        moments = predict(mean, kernel, terms, X, cross=of_terms)
        return moments, cross @ self.matrix


class KnownCovariance:
    """`covariance_with` points of one model, kept until it learns more."""

    def __init__(self) -> None:
        self._memory: tuple[object, list[Tensor], Any] | None = None

    def __call__(
        self, model: object, points: Tensor, directions: Tensor
    ) -> tuple[Moments, CovarianceWith] | None:
        """Computes moments of points, and makes `covariance_with` them.

        Both are kept for the next call with equal arguments. None where there is no
        such function: of other models, and of batches.
        """
        if not has_plain_terms(model):
            return None
        if model.training:
            # Before an input transform that learns from points sees these.
            model.eval()
        # The model may learn more, and buffers of a module be loaded anew. Nothing says
        # whether a model without answers has changed.
        solution, arguments = model.solution(), [points, directions]
        if solution is not None and self._memory is not None:
            old_solution, before, result = self._memory
            if old_solution is solution and all(map(torch.equal, before, arguments)):
                return result
        with torch.inference_mode(False), torch.no_grad():
            moments = model.moments(points)
            is_one = moments.mean.dim() == 1 and moments.covariance.dim() == 2
            result = (moments, covariance_with(model, *arguments)) if is_one else None
        self._memory = solution, [part.clone() for part in arguments], result
        return result


def has_plain_terms(model: object) -> TypeGuard[PreferenceGP]:
    """Tells whether a model predicts by its posterior terms alone, as constants.

    Then `covariance_with` holds. It does not of crowds, which predict in
    another way, nor of models with derivatives in their datapoints.
    """
    if not isinstance(model, PreferenceGP) or model._is_differentiated:
        return False
    return type(model)._predict is PreferenceGP._predict


def covariance_with(
    model: PreferenceGP, points: Tensor, directions: Tensor
) -> CovarianceWith:
    """Makes the posterior covariance ``C(x, X) D`` of any points ``x`` with these.

    With the prior covariance ``k`` and the points ``Z``, root ``Q`` and widening
    ``P`` of the model's terms that is ``k(x, X) D - k(x, Z) (Q Q' - P P') k(Z, X)
    D``: prior covariances with ``x`` times a matrix that is made once, for
    acquisition functions that ask about many ``x``. It has no gradients in ``X``
    and ``D``.

    Args:
        model: One that `has_plain_terms`.
        points: ``X``, ``n x d``, untransformed.
        directions: ``D``, ``n x r``.

    Returns:
        A function of ``x``. Of a mixture it is the covariance of each component.
    """
    with torch.no_grad():
        terms, points = model.posterior_terms(), model.transform_inputs(points)
        make = partial(CovarianceWith, model, terms)
        if terms is None:
            return make(points, directions)
        k = cross_covariance(model.covar_module, points, terms.points)
        correction = -terms.root @ ((k @ terms.root).mT @ directions)
        if terms.widening is not None:
            p = terms.widening
            correction = correction + p @ ((k @ p).mT @ directions)
        # The terms' points come last: `CovarianceWith.__call__` relies on it.
        if points.shape == terms.points.shape and torch.equal(points, terms.points):
            return make(points, directions + correction)
        points = torch.cat([points, terms.points])
        return make(points, torch.cat([directions, correction]))
