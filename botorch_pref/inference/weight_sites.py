r"""Expectation propagation over weights, with one site for each set of a choice.

A choice of item ``c`` out of a set depends on the differences :math:`y = B \theta` of
utilities from that of one other item of the set, the chosen item's last: its
probability is :math:`\sigma(a(y))`, where
:math:`a = y_c - \log(1 + \sum_j e^{y_j})` is the lead of the chosen item. Each factor
has a Gaussian site :math:`\exp(h' y - y' T y / 2)` whose tilted moments are those of
the posterior. With the cavity :math:`N(m, V)`,

.. math::
    Z = E[\sigma(a(y))], \qquad g = \frac{\partial \log Z}{\partial m}, \qquad
    H = \frac{\partial^2 \log Z}{\partial m^2}, \qquad
    T = -(I + H V)^{-1} H, \qquad h = g + T (m + V g).

The integral over the chosen item, given the others, is that of a logistic function,
done in closed form: see :func:`.smooth_sigmoid`. So that over pairs needs no nodes;
the other items of larger sets are summed over quasi-random normal ones. Where the prior
is so weak that sums over them do not give a posterior, there are twice as many.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from botorch.utils.sampling import draw_sobol_normal_samples
from torch import Tensor
from torch.nn.functional import pad

from botorch_pref.inference.conditioning import log_det, plus_identity
from botorch_pref.inference.gaussian_solution import with_gradient_of
from botorch_pref.inference.weight_space import WeightSolution, laplace_weights
from botorch_pref.linalg.covariance import semidefinite_cholesky
from botorch_pref.linalg.sparse_design import take_rows
from botorch_pref.numerics.logistic_normal import smooth_sigmoid

# Nodes of each set, and of all: sums of few sets are as smooth as those of many.
_NODES, _ALL_NODES, _MOST_NODES = 64, 2**14, 2**11
# Where a step does not lead to a Gaussian, shorter ones are tried, down to this.
_SHORTEST_STEP = 2.0**-4
# A step after which the residual has not fallen so far is followed by shorter ones.
_PROGRESS, _SHORTENED, _SLOWEST = 0.9, 0.7, 0.05


class _Sites(NamedTuple):
    """Natural parameters of sites, ``batch_shape x L x k x k`` and ``... x L x k``."""

    precision: Tensor
    shift: Tensor

    def toward(self, target: _Sites, size: Tensor) -> _Sites:
        """Returns sites at a share ``size``, ``batch_shape``, of the way to others."""
        size = size[..., None, None]
        return _Sites(
            self.precision.lerp(target.precision, size[..., None]),
            self.shift.lerp(target.shift, size),
        )


@dataclass(frozen=True)
class _Posterior:
    """The Gaussian of the weights under some sites, and the cavities of the sets.

    ``factor`` is the Cholesky factor of its ``precision``; ``root`` is lower triangular
    with ``root root'`` the covariance of the cavity of each set.
    """

    precision: Tensor
    factor: Tensor
    mean: Tensor
    cavity_mean: Tensor
    root: Tensor

    def step_from(self, before: _Posterior) -> Tensor:
        """Computes the length of a step in posterior deviations, ``batch_shape``.

        Its square is that of the mean's movement plus half of that of the precision's
        change: twice the divergence of two posteriors that are close.
        """
        moved = (self.mean - before.mean).unsqueeze(-1)
        turned = torch.linalg.solve_triangular(
            self.factor, self.precision - before.precision, upper=False
        )
        turned = torch.linalg.solve_triangular(self.factor, turned.mT, upper=False)
        length = (self.factor.mT @ moved).square().sum((-2, -1))
        return (length + 0.5 * turned.square().sum((-2, -1))).sqrt()


class _Tilted(NamedTuple):
    """Log normalisers of the tilted sets, ``batch_shape x L``, and matching sites."""

    log_normaliser: Tensor
    sites: _Sites


@dataclass(frozen=True)
class _Choices:
    """Sets of items as differences, ``batch_shape x L x k x d``, the chosen one last.

    ``absent`` marks other items that a set lacks, ``batch_shape x L x (k - 1)``;
    ``counts``, ``batch_shape x L``, say how often each choice was made, and
    ``precision`` is that of the prior.
    """

    differences: Tensor
    absent: Tensor
    counts: Tensor
    precision: Tensor

    @classmethod
    def from_stages(
        cls, features: Tensor, stages: Tensor, precision: Tensor, counts: Tensor | None
    ) -> _Choices:
        """Makes the sets of :meth:`.WeightEngine.solve` as differences of features.

        From each option's features those of ``stages[..., 1]``, the first that was not
        chosen, are subtracted; the chosen option, ``stages[..., 0]``, comes last. Sets
        without a second option count 0 times.
        """
        items = take_rows(features, stages.clamp_min(0).flatten(-2))
        items = items.unflatten(-2, stages.shape[-2:])
        order = [*range(2, stages.shape[-1]), 0]
        is_present = (stages[..., order] >= 0) & (stages[..., 1:2] >= 0)
        differences = (
            items[..., order, :] - items[..., 1:2, :]
        ) * is_present.unsqueeze(-1)
        chosen = is_present[..., -1].to(features)
        often = chosen if counts is None else chosen * counts
        return cls(differences, ~is_present[..., :-1], often, precision)

    def nodes(self, number: int) -> Tensor:
        """Draws standard normal nodes of the other items, each with its mirror.

        They are ``number x (k - 1)`` and always the same, so that sites have a fixed
        point; a pair has none, for its integral is in closed form.
        """
        size = self.differences.shape[-2] - 1
        if size == 0:
            return self.differences.new_zeros(1, 0)
        half = draw_sobol_normal_samples(size, number // 2, seed=0)
        half = half.to(self.differences)
        return torch.cat([half, -half])

    def _derivatives(
        self, y: Tensor, variance: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Computes log probability, slopes in the lead, and shares of other items.

        ``y`` are differences from the first other item at nodes, ``batch_shape x L x N
        x k``, and ``variance`` that of the last one, the chosen item's, given the
        others, ``batch_shape x L``. The first three, ``batch_shape x L x N``, are the
        log probability and its derivatives in the lead: the last ``y`` less the
        log-sum-exp of all others. The shares are the derivatives of that log-sum-exp.
        """
        rivals = y[..., :-1].masked_fill(self.absent.unsqueeze(-2), -torch.inf)
        rivals = pad(rivals, (1, 0))
        lead = y[..., -1] - rivals.logsumexp(-1)
        slopes = smooth_sigmoid(lead, variance.unsqueeze(-1))
        return *slopes, rivals.softmax(-1)[..., 1:]

    def _slopes(
        self, weight: Tensor, first: Tensor, second: Tensor, share: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Computes gradient and Hessian of log normalisers, from weighted nodes.

        They are in the cavity mean of the differences ``y``, ``... x L x k`` and ``...
        x L x k x k``. The lead has the gradient ``(-share, 1)`` in ``y``, and the
        second derivatives of a log-sum-exp in the others.
        """
        gradient = pad(-share, (0, 1), value=1.0)
        pull = (weight * first).unsqueeze(-1)
        g = (pull * gradient).sum(-2)
        bend = (weight * (second + first.square())).unsqueeze(-1)
        hessian = (bend * gradient).mT @ gradient - g.unsqueeze(-1) * g.unsqueeze(-2)
        weighted = pull * share
        spread = torch.diag_embed(weighted.sum(-2)) - weighted.mT @ share
        hessian[..., :-1, :-1] -= spread
        return g, 0.5 * (hessian + hessian.mT)

    def sites_at(self, weights: Tensor) -> _Sites:
        """Computes sites that bend as the log probabilities do at some weights.

        The search starts from those at the mode, of Laplace's approximation.
        """
        y = self.differences @ weights[..., None, :, None]
        _, first, second, share = self._derivatives(
            y.mT, torch.zeros_like(y[..., 0, 0])
        )
        g, hessian = self._slopes(torch.ones_like(first), first, second, share)
        return _Sites(-hessian, g - (hessian @ y).squeeze(-1))

    def posterior(self, sites: _Sites) -> tuple[_Posterior, Tensor]:
        """Conditions the prior on sites, and says where that is a Gaussian.

        Sites count as often as their set. Where the second result, ``batch_shape``, is
        False, posterior and cavities are any numbers.
        """
        rows, often = self.differences, self.counts[..., None, None]
        pulled = (often * sites.precision) @ rows
        precision = rows.flatten(-3, -2).mT @ pulled.flatten(-3, -2)
        eye = torch.eye(rows.shape[-1], dtype=rows.dtype, device=rows.device)
        precision = precision + self.precision[..., None, None] * eye
        factor, info = torch.linalg.cholesky_ex(0.5 * (precision + precision.mT))
        proper = info == 0
        factor = torch.where(proper[..., None, None], factor, eye)
        shift = (rows.mT @ (often.squeeze(-1) * sites.shift).unsqueeze(-1)).sum(-3)
        mean = torch.cholesky_solve(shift, factor)
        half = torch.linalg.solve_triangular(
            factor, rows.flatten(-3, -2).mT, upper=False
        ).mT.unflatten(-2, rows.shape[-3:-1])
        # With the root R of a set's marginal covariance its cavity, without one site T,
        # has the covariance R (I - R' T R)^-1 R'.
        marginal_root = semidefinite_cholesky(half @ half.mT)
        lifted, info = torch.linalg.cholesky_ex(
            plus_identity(-marginal_root.mT @ sites.precision @ marginal_root)
        )
        proper = proper & (info == 0).all(-1)
        regular = torch.where(
            proper[..., None, None, None], lifted, plus_identity(0 * lifted)
        )
        root = (
            marginal_root @ torch.linalg.cholesky_ex(torch.cholesky_inverse(regular)).L
        )
        centre = rows @ mean.unsqueeze(-3)
        pull = sites.precision @ centre - sites.shift.unsqueeze(-1)
        cavity = centre + root @ (root.mT @ pull)
        return (
            _Posterior(precision, factor, mean.squeeze(-1), cavity.squeeze(-1), root),
            proper,
        )

    def tilted(self, posterior: _Posterior, nodes: Tensor) -> _Tilted:
        """Computes normalisers of cavities times factors, and sites that match them.

        With the cavity covariance ``V`` of ``y`` and the gradient ``g`` and Hessian
        ``H`` of the log normaliser in its mean, the precision is ``-(I + H V)^-1 H``.
        """
        root, mean = posterior.root, posterior.cavity_mean
        # The root is lower triangular: nodes fix all differences but the last, and
        # leave that the variance of its own entry.
        y = mean.unsqueeze(-2) + nodes @ root[..., :-1].mT
        log_prob, first, second, share = self._derivatives(
            y, root[..., -1, -1].square()
        )
        g, hessian = self._slopes(log_prob.softmax(-1), first, second, share)
        covariance = root @ root.mT
        precision = -torch.linalg.solve(plus_identity(hessian @ covariance), hessian)
        precision = 0.5 * (precision + precision.mT)
        centre = mean.unsqueeze(-1) + covariance @ g.unsqueeze(-1)
        shift = g + (precision @ centre).squeeze(-1)
        normaliser = log_prob.logsumexp(-1) - math.log(len(nodes))
        return _Tilted(normaliser, _Sites(precision, shift))

    def log_evidence(
        self, sites: _Sites, posterior: _Posterior, tilted: _Tilted
    ) -> Tensor:
        """Computes the evidence of EP (Rasmussen and Williams 2006, equation 3.65).

        It is ``batch_shape``: the log normaliser of each tilted set less that of its
        site, as often as the set counts, plus that of prior times sites.
        """
        root, mean = posterior.root, posterior.cavity_mean.unsqueeze(-1)
        inner = plus_identity(root.mT @ sites.precision @ root)
        factor = torch.linalg.cholesky_ex(inner).L
        pull = sites.precision @ mean
        shift = sites.shift.unsqueeze(-1)
        half = torch.linalg.solve_triangular(
            factor, root.mT @ (shift - pull), upper=False
        )
        form = (mean * (shift - 0.5 * pull)).sum((-2, -1))
        site = form + 0.5 * half.square().sum((-2, -1)) - 0.5 * log_det(factor)
        ratio = (self.counts * (tilted.log_normaliser - site)).sum(-1)
        moved = posterior.factor.mT @ posterior.mean.unsqueeze(-1)
        d = self.differences.shape[-1]
        joint = moved.square().sum((-2, -1)) - log_det(posterior.factor)
        return ratio + 0.5 * (joint + d * self.precision.log())


@dataclass(frozen=True)
class _State:
    """Sites, their posterior, and what the factors make of its cavities."""

    sites: _Sites
    posterior: _Posterior
    tilted: _Tilted


def _search(
    choices: _Choices, weights: Tensor, tolerance: float, max_iterations: int
) -> tuple[_State, Tensor, int]:
    """Searches for matching sites, from those at ``weights``.

    A step that leads to no Gaussian is halved, and if that does not help, the number of
    nodes is doubled. The second result has the last steps, ``batch_shape``, in
    posterior standard deviations, infinite where none led to a Gaussian with the most
    nodes; the third is the number of iterations.
    """
    number, iterations = _NODES, 0
    while number < _MOST_NODES and number * choices.counts.shape[-1] < _ALL_NODES:
        number *= 2
    nodes, sites = choices.nodes(number), choices.sites_at(weights)
    posterior, _ = choices.posterior(sites)
    state = _State(sites, posterior, choices.tilted(posterior, nodes))
    size = torch.ones_like(posterior.mean[..., 0])
    best = residual = torch.full_like(size, torch.inf)
    while iterations < max_iterations and bool((residual > tolerance).any()):
        sites = state.sites.toward(state.tilted.sites, size)
        posterior, proper = choices.posterior(sites)
        iterations += 1
        if not bool(proper.all()):
            size = torch.where(proper, size, 0.5 * size)
            if bool((size < _SHORTEST_STEP).any()):
                if number == _MOST_NODES:
                    return state, torch.where(proper, residual, torch.inf), iterations
                number *= 2
                nodes, size = choices.nodes(number), torch.ones_like(size)
                tilted = choices.tilted(state.posterior, nodes)
                state = _State(state.sites, state.posterior, tilted)
            continue
        # As a whole step would be, however short this one was.
        residual = posterior.step_from(state.posterior) / size
        slow = residual > _PROGRESS * best
        size = torch.where(slow, (_SHORTENED * size).clamp_min(_SLOWEST), size)
        best = torch.minimum(best, residual)
        state = _State(sites, posterior, choices.tilted(posterior, nodes))
    return state, residual, iterations


def matched_weights(
    features: Tensor,
    stages: Tensor,
    precision: Tensor,
    counts: Tensor | None = None,
    *,
    tolerance: float = 1e-6,
    max_iterations: int = 100,
) -> WeightSolution:
    r"""Computes the posterior of weights by expectation propagation, and its evidence.

    An iteration costs ``O(d^3 + M d^2)`` for ``M`` items of all sets, as one of Laplace
    does, and 64 or more evaluations of each set; one, if all sets are pairs. Arguments
    are those of :meth:`.WeightEngine.solve`, in double precision; the tolerance is that
    of a step, in posterior standard deviations.
    """
    eta = precision.detach()
    with torch.no_grad():
        start = laplace_weights(features, stages, eta, counts)
        choices = _Choices.from_stages(features, stages, eta, counts)
        state, residual, iterations = _search(
            choices, start.mean, tolerance, max_iterations
        )
        posterior = state.posterior
        value = choices.log_evidence(state.sites, posterior, state.tilted)
        mean, covariance = posterior.mean, torch.cholesky_inverse(posterior.factor)

    def surrogate() -> Tensor:
        """Makes a form with the derivative of the evidence in ``precision``."""
        # At a fixed point only the prior's own dependence on eta is left.
        trace = covariance.diagonal(dim1=-2, dim2=-1).sum(-1)
        slope = features.shape[-1] / eta - trace - mean.square().sum(-1)
        return 0.5 * slope * precision

    return WeightSolution(
        mean=mean,
        covariance=covariance,
        evidence=with_gradient_of(value, surrogate),
        converged=bool((residual <= tolerance).all()),
        iterations=iterations,
        residual=float(residual.max()),
    )
