r"""Preferences of thousands of people: what all share, and a taste of each.

The utility of the item ``x`` to the rater ``u`` is :math:`t(x) + h_u(x)`, with
independent Gaussian processes ``t`` of kernel :math:`k_t` and :math:`h_u` of kernel
:math:`k_h`. The rows of answers about items and raters are

.. math:: z = A t + e, \qquad e = H, \qquad
    \operatorname{cov}(e_i, e_j) = 1[u_i = u_j] \, a_i' K_h a_j ,

so that to an engine the tastes are noise that all answers of a rater share, which
:mod:`botorch_pref.inference.solvers` integrates out exactly, in blocks.

With the forces ``a`` of the rows, the weights ``w`` and the precision ``M`` of the
items, see :mod:`.gaussian_solution`, sites ``T``, :math:`P_u = (N_u +
T_u^{-1})^{-1}` for the block :math:`N_u` of a rater, and the covariances :math:`\kappa`
of :math:`h_u(x)` with the rows of the rater,

.. math::
    E[f_u(x)] &= m(x) + k w + \kappa a_u, \\
    f_u(x) - E[f_u(x)] &= \tilde t(x) - g' \tilde t(Z) + r, \qquad
    g = A_u' P_u \kappa', \\
    \operatorname{cov}(\tilde t(x), \tilde t(x')) &= k_t(x, x') - k M k'^T, \qquad
    \operatorname{cov}(r, r') = 1[u = u'] \, (k_h(x, x') - \kappa P_u \kappa'^T) .
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, Self, cast

import torch
from gpytorch.kernels import Kernel
from torch import Tensor
from torch.nn.functional import pad

from botorch_pref.errors import BotorchPrefError, FeedbackError
from botorch_pref.feedback import Comparisons, Feedback
from botorch_pref.inference import GaussianSolution, PosteriorTerms, UtilityPrior
from botorch_pref.inference.conditioning import SitePosterior, plus_identity
from botorch_pref.likelihoods.factors import Factors
from botorch_pref.linalg import SparseDesign
from botorch_pref.linalg.covariance import block_diagonal, dense_covariance
from botorch_pref.linalg.sparse_design import (
    BlockRows,
    NoiseBlocks,
    NoiseBuckets,
    distinct_rows,
)
from botorch_pref.models.answer_likelihoods import LikelihoodArgument
from botorch_pref.models.crowd_kernels import CrowdKernel, same_raters
from botorch_pref.models.engines import EPPreferenceGP
from botorch_pref.models.kernels import default_covar_module
from botorch_pref.models.rater_groups import at_raters
from botorch_pref.models.training_data import TrainingSet
from botorch_pref.numerics.argument_checks import check_points, checked_arguments
from botorch_pref.posteriors.gaussian import Moments


class _Crowd(NamedTuple):
    """Items, ``k x d``, and ascending raters of data, and each point's places."""

    data: TrainingSet
    items: Tensor
    item_of: Tensor
    raters: Tensor
    rater_of: Tensor


class _Terms(NamedTuple):
    """Posterior terms of what all raters share, and of tastes.

    ``weights`` and ``precision`` are those of the solution, for ``k`` items with ``p``
    weights of covariates behind them; ``between`` is the prior covariance of these.
    """

    weights: Tensor
    precision: Tensor
    between: Tensor
    tastes: list[_Tastes]


class _TasteMoments(NamedTuple):
    """Moments of ``q`` utilities, by what answers say of tastes alone.

    ``shared`` is the prior covariance of what all share with the items and weights,
    and ``influence`` is ``g'``.
    """

    mean: Tensor
    covar: Tensor
    shared: Tensor
    influence: Tensor


class _Tastes(NamedTuple):
    """Tastes of raters by their rows, padded to the most rows of a rater, ``R x M``.

    ``raters`` are ascending numbers, ``forces`` are ``R x M`` and ``precision`` is
    ``P``, ``R x M x M``.
    """

    raters: Tensor
    rows: BlockRows
    forces: Tensor
    precision: Tensor


class CrowdPreferenceGP(EPPreferenceGP):
    r"""A preference model of thousands of raters, each with a taste of their own.

    Utilities have the prior of a :class:`.CrowdKernel`, and the posterior is that of
    :class:`EPPreferenceGP` with the same kernel, to rounding. Answers of a rater are a
    block: a sweep costs :math:`O(\sum_u M_u^3 + k^3)` for raters with :math:`M_u`
    different answers each about ``k`` items. So it is for many people who said little
    each, and a few who said much.

    Points carry the number of the rater in their last column. A number that is not
    known is a newcomer, of whom the others let expect what all share.
    :class:`GroupUtility` is the utility of one rater or of a few.

    Args:
        datapoints: ``n x (d + 1)``, items with their raters. Equal rows are one point.
        comparisons: ``m x 2`` integers into ``datapoints``, winner first.
        feedback: Other answers, each about points of one rater.
        likelihood: Of one kind of answers or of several.
        covar_module: A :class:`.CrowdKernel`. Default: one of the package's default
            kernel for what is shared and of another one for tastes.

    Raises:
        FeedbackError: Data that cannot mean anything, that have batches, or an answer
            about points of two raters.
        UnsupportedFeedbackError: Data or a likelihood that EP does not take.
    """

    covar_module: CrowdKernel
    _crowd_cache: _Crowd | None = None
    _terms_cache: tuple[object, _Terms] | None = None

    @checked_arguments
    def __init__(
        self,
        datapoints: Tensor,
        comparisons: Tensor | Comparisons | None = None,
        *,
        feedback: Sequence[Feedback] = (),
        likelihood: LikelihoodArgument = None,
        covar_module: CrowdKernel | None = None,
    ) -> None:
        """Checks the shape of the points, and makes the default kernel of their items.

        It has the two parts of a `CrowdKernel`, each over the columns before the last.
        """
        check_points("datapoints", datapoints)
        if datapoints.dim() != 2 or datapoints.shape[-1] < 2:
            raise FeedbackError(
                f"datapoints has shape {tuple(datapoints.shape)}; give n x (d + 1), "
                "items with the number of the rater behind."
            )
        if covar_module is None:
            dim = datapoints.shape[-1] - 1
            kernels = (default_covar_module(dim, torch.Size()) for _ in range(2))
            covar_module = CrowdKernel(*kernels)
        super().__init__(
            datapoints,
            comparisons,
            feedback=feedback,
            likelihood=likelihood,
            covar_module=covar_module,
        )

    @property
    def _crowd(self) -> _Crowd:
        """The items and the raters of the data, found once for the same data.

        Items stand in the order of their first points, and the numbers of raters
        ascend, since ``searchsorted`` finds raters by them.
        """
        data = cast("TrainingSet", self._data)
        if self._crowd_cache is None or self._crowd_cache.data is not data:
            if data.batch_shape or self._is_differentiated:
                raise FeedbackError(
                    "A crowd has no batches, and no derivatives in the points that "
                    "answers are about; give EPPreferenceGP the same kernel."
                )
            points = self.transformed_points()
            first, item_of = distinct_rows(points[:, :-1])
            raters, rater_of = torch.unique(points[:, -1], return_inverse=True)
            self._crowd_cache = _Crowd(
                data, points[first, :-1], item_of, raters, rater_of
            )
        return self._crowd_cache

    def prior(self) -> UtilityPrior:
        """Makes the prior of what all share, at the items and not at the points.

        Tastes are in the noise of :meth:`factors`. Weights of covariates stand behind.
        """
        items = self._crowd.items
        covar = dense_covariance(self.covar_module.shared, items)
        # A constant mean is a view of its parameter, which others change in place.
        prior = UtilityPrior(items, self.mean_module(items).clone(), covar)
        weights = self._weight_prior
        return prior if weights is None else prior.with_weights(weights)

    def factors(self) -> Factors:
        """Makes the factors of all answers about items, with tastes as shared noise.

        The noise has a block for each rater: the prior covariance of the rater's taste
        at all rows that the rater answered, and noise that rows of one answer share.
        Factors are made anew at each call: the kernel's parameters are in the noise.
        """
        answer_factors, crowd = self._made_factors(), self._crowd
        # First, for rows about points say whose they are, and those about items do not.
        buckets = [
            blocks for _, blocks in _blocks_of_raters(answer_factors.rows, crowd)
        ]
        count, p = len(crowd.items), self.num_covariates
        weights = torch.arange(count, count + p, device=crowd.item_of.device)
        columns = torch.cat([crowd.item_of, weights])
        rows = answer_factors.rows
        scales = self.covar_module.scales(crowd.raters)[crowd.rater_of]
        # Weights of covariates are in deviations of the rater's noise.
        scales = pad(scales, (0, p), value=1.0)[rows.indices]
        rows = replace(rows, coefficients=rows.coefficients * scales)
        answer_factors.rows = rows.reindex(columns, count + p)
        taste_covar = dense_covariance(self.covar_module.own, crowd.items).double()
        # A covariance in single precision is symmetric to its rounding only.
        taste_covar = pad(0.5 * (taste_covar + taste_covar.mT), (0, p, 0, p))
        parts = []
        for blocks in buckets:
            covariance = BlockRows.from_design(answer_factors.rows, blocks).congruence(
                taste_covar
            )
            if answer_factors.noise is not None:
                covariance = covariance + _within_blocks(answer_factors.noise, blocks)
            parts.append(NoiseBlocks(blocks, covariance, answer_factors.rows.num_rows))
        answer_factors.noise = NoiseBuckets(parts)
        return answer_factors

    @property
    def shares_noise(self) -> bool:
        """Whether rows of one answer share noise beside tastes."""
        return self._made_factors().noise is not None

    def raters_of_rows(self) -> Tensor:
        """Returns the number of the rater of each row of :meth:`factors`, ``m``."""
        crowd = self._crowd
        return crowd.raters[_raters_of_rows(self._made_factors().rows, crowd)]

    def posterior_terms(self) -> PosteriorTerms | None:
        """Refuses to give terms.

        The posterior is no function of the covariances with points alone.

        Raises:
            BotorchPrefError: Always.
        """
        raise BotorchPrefError(
            "Draws of whole utilities and look-ahead are not known of a crowd; give "
            "EPPreferenceGP the same kernel, or ask for posterior(X)."
        )

    def _predict(self, X: Tensor) -> Moments:
        return _conditioned_moments(self._conditioned(), self._without_shared(X))

    def _predict_with_weights(self, X: Tensor) -> Moments:
        """Predicts moments of utilities, and behind them of covariates' weights.

        A weight is independent of utilities under the prior, and no taste is in it.
        """
        weights, about = cast("Tensor", self._weight_prior), self._without_shared(X)
        p, count = len(weights), len(self._crowd.items)
        rows = pad(weights, (count, 0)).expand(*about.shared.shape[:-2], -1, -1)
        with_weights = _TasteMoments(
            pad(about.mean, (0, p)),
            block_diagonal(about.covar, weights),
            torch.cat([about.shared, rows], dim=-2),
            pad(about.influence, (0, 0, 0, p)),
        )
        return _conditioned_moments(self._conditioned(), with_weights)

    def _without_shared(self, X: Tensor) -> _TasteMoments:
        r"""Computes moments of utilities of items to raters, of tastes alone.

        With the prior covariances :math:`\kappa` of the taste at a point with the rows
        of the same rater, their forces ``a``, precision ``P`` and design ``A``, the
        mean is :math:`m(x) + \kappa a` and the covariance :math:`k - \kappa P
        \kappa'`. The influence is :math:`g' = \kappa P A`: an error of the shared
        utilities of the items moves the taste by :math:`-g'` times the error. What
        answers say of the shared utilities, `_conditioned_moments` adds.
        """
        items, terms = X[..., :-1], self._conditioned()
        scale = self.covar_module.scales(X[..., -1])
        mean = scale * self.mean_module(items)
        covar = dense_covariance(self.covar_module, X)
        shared, taste_cross = (
            scale.unsqueeze(-1) * part for part in self._covariances_with_items(items)
        )
        influence, number = torch.zeros_like(shared), X[..., -1].detach().contiguous()
        for part in () if terms is None else terms.tastes:
            place = torch.searchsorted(part.raters, number)
            place = place.clamp_max(len(part.raters) - 1)
            # Raters of another bucket, or of none, get the coefficients 0.
            index, c = part.rows.indices[place], part.rows.coefficients[place]
            c = c * (part.raters[place] == number)[..., None, None]
            entries = taste_cross.gather(-1, index.flatten(-2)).unflatten(
                -1, index.shape[-2:]
            )
            cross = (entries * c).sum(-1)
            gain = (cross.unsqueeze(-2) @ part.precision[place]).squeeze(-2)
            spread = (gain.unsqueeze(-1) * c).flatten(-2)
            influence = influence.scatter_add(-1, index.flatten(-2), spread)
            mean = mean + (cross * part.forces[place]).sum(-1)
            covar = covar - torch.where(same_raters(X, X), gain @ cross.mT, 0.0)
        return _TasteMoments(mean, covar, shared, influence)

    def group_moments(self, X: Tensor, raters: Tensor, weights: Tensor) -> Moments:
        """Computes moments of the utility of a group, a weighted sum over raters.

        As the base class does, but without a covariance of the utilities of all raters:
        what all share is summed by the weights, and tastes of different raters are
        independent, so that their moments are added one by one. Columns of a rater
        before the number, here a context, belong to the item.

        Args:
            X: ``batch_shape x q x d`` stimuli.
            raters: Columns of each rater behind a stimulus, the number last, ``R x r``.
            weights: ``R``.
        """
        self.eval()
        kernel, columns = self.covar_module, raters.to(X)
        # A column of zeros, for there may be no others beside the rater's.
        contexts = pad(columns[:, :-1], (1, 0))
        contexts, place = torch.unique(contexts, dim=0, return_inverse=True)
        numbers, member = torch.unique(columns[:, -1], return_inverse=True)
        weights = weights.to(X) * kernel.scales(columns[:, -1])
        # Weights by rater and context; one rater may be listed in several contexts.
        shares = X.new_zeros(len(numbers), len(contexts))
        shares = shares.index_put((member, place), weights, accumulate=True)
        items, total = at_raters(X, contexts[:, 1:]), shares.sum(0)

        def parts(values: Tensor) -> Tensor:
            """Splits rows by context, ``... x q x c x k``."""
            return values.unflatten(-2, (-1, len(contexts)))

        def covariance(part: Kernel, products: Tensor) -> Tensor:
            """Sums a kernel over pairs of contexts by the products of their weights."""
            matrix = parts(dense_covariance(part, items))
            matrix = matrix.unflatten(-1, (-1, len(contexts)))
            return torch.einsum("...qcrd,cd->...qr", matrix, products)

        mean = self.mean_module(items).unflatten(-1, (-1, len(contexts))) @ total
        covar = covariance(kernel.shared, torch.outer(total, total))
        covar = covar + covariance(kernel.own, shares.mT @ shares)
        terms = self._conditioned()
        shared, taste_cross = map(parts, self._covariances_with_items(items))
        shared = torch.einsum("...qck,c->...qk", shared, total)
        influence = torch.zeros_like(shared)
        for number, share in zip(numbers, shares, strict=True):
            # A rater without answers has the taste's prior. With answers the moments
            # change as in `_without_shared`, for the weighted sum over contexts.
            for rows, forces, precision in _tastes_of(terms, number):
                index, c = rows
                entries = (taste_cross[..., index] * c).sum(-1)
                cross = torch.einsum("...qcm,c->...qm", entries, share)
                gain = cross @ precision
                spread = (gain.unsqueeze(-1) * c).flatten(-2)
                influence = influence.index_add(-1, index.flatten(), spread)
                mean = mean + cross @ forces
                covar = covar - gain @ cross.mT
        return _conditioned_moments(
            terms, _TasteMoments(mean, covar, shared, influence)
        )

    def _covariances_with_items(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Computes prior covariances with items: of what all share, and of tastes.

        Both have zeros for the weights of covariates behind.
        """
        kernel, items = self.covar_module, self._crowd.items
        parts = (dense_covariance(k, x, items) for k in (kernel.shared, kernel.own))
        shared, taste = (pad(part, (0, self.num_covariates)) for part in parts)
        return shared, taste

    @torch.inference_mode(False)
    @torch.no_grad()
    def _conditioned(self) -> _Terms | None:
        """Returns the posterior terms of what all share and of each rater's taste.

        They are kept as long as the solution is the same, have no gradients, and are in
        the precision of the prior; None without answers.
        """
        solution = self.solution()
        if not isinstance(solution, GaussianSolution):
            return None
        if self._terms_cache is None or self._terms_cache[0] is not solution:
            noise = cast("NoiseBlocks", self.factors().noise)
            factor, prior = solution.factor, solution.prior
            # Of rows less their prior mean, as forces are defined.
            shifts = solution.sites.shift - factor.tau * factor.rows.apply(
                prior.mean.double()
            )
            forces = factor.solve(shifts.unsqueeze(-1)).forces
            crowd, like = self._crowd, prior.covar
            buckets = _blocks_of_raters(self._made_factors().rows, crowd)
            tastes = [
                _tastes(crowd.raters[raters], factor, part, forces, like)
                for (raters, _), part in zip(buckets, noise.parts, strict=True)
            ]
            weights, precision = solution.weights.to(like), factor.precision().to(like)
            self._terms_cache = solution, _Terms(weights, precision, like, tastes)
        return self._terms_cache[1]

    def _go_on_from(self, before: Self, new_data: TrainingSet) -> None:
        """Starts anew: blocks of raters have other rows."""


def _conditioned_moments(terms: _Terms | None, about: _TasteMoments) -> Moments:
    r"""Adds what answers say of the shared utility ``t`` to moments by tastes alone.

    With the prior covariance ``k`` (``shared``) of ``t`` at the points and at the items
    ``Z``, that of the items, ``K`` (``between``), and the solution's weights ``w`` and
    precision ``M``, the mean gains ``k w``. An error of ``t`` at the items also moves
    the taste, by :math:`-g'` (``influence``) times the error. So the prior covariance
    :math:`k_t`, which is in the moments, becomes the posterior one of ``t(x) - g'
    t(Z)``, whose prior covariance with ``t(Z)`` is :math:`c = k - g' K`,

    .. math:: k_t - g' k' - k g + g' K g - c M c'.

    Without ``terms`` there are no answers, and nothing is added.
    """
    mean, covariance, shared, influence = about
    if terms is not None:
        mean = mean + shared @ terms.weights
        mixed, cross = influence @ shared.mT, shared - influence @ terms.between
        covariance = covariance - mixed - mixed.mT
        covariance = covariance + influence @ terms.between @ influence.mT
        covariance = covariance - cross @ terms.precision @ cross.mT
    return Moments(mean.unsqueeze(0), covariance)


# --- Blocks of raters


def _tastes(
    raters: Tensor,
    factor: SitePosterior,
    noise: NoiseBlocks,
    forces: Tensor,
    like: Tensor,
) -> _Tastes:
    """Collects what predicts the tastes of a bucket of raters, from their rows.

    The precision of a rater's rows is ``P = (N + T^-1)^-1``, with the covariance ``N``
    of the block of ``noise`` and the diagonal site precisions ``T``; computed as ``(I +
    T N)^-1 T``, for sites may be 0, as those of padding are. The ``forces`` of all rows
    of the data, ``m x 1``, turn covariances with rows into means. Results have the
    dtype of ``like``.
    """
    tau = noise.take(factor.tau.unsqueeze(-1))
    inner = plus_identity(tau * noise.covariance)
    precision = torch.linalg.solve(inner, torch.diag_embed(tau.squeeze(-1)))
    rows = BlockRows.from_design(factor.rows, noise.rows)
    rows = replace(rows, coefficients=rows.coefficients.to(like))
    rater_forces = noise.take(forces).squeeze(-1)
    return _Tastes(raters, rows, rater_forces.to(like), precision.to(like))


def _tastes_of(
    terms: _Terms | None, number: Tensor
) -> Iterator[tuple[tuple[Tensor, Tensor], Tensor, Tensor]]:
    """Yields the rows of the rater of this number, with their forces and precision.

    It yields once, or not at all for a rater without data. Rows are indices of items
    with coefficients, each ``M x w``.
    """
    for part in () if terms is None else terms.tastes:
        for place in (part.raters == number).nonzero().flatten():
            rows = part.rows.indices[place], part.rows.coefficients[place]
            yield rows, part.forces[place], part.precision[place]


_SHARE, _LEAST_WIDTH = 0.8, 8
"""Raters with so large a share of the most answers of a bucket are in it; no
bucket follows one whose width is the second number or less."""


def _blocks_of_raters(rows: SparseDesign, crowd: _Crowd) -> list[tuple[Tensor, Tensor]]:
    """Groups raters by numbers of rows, so that blocks need little padding.

    A group has the places of its ``R`` raters in the crowd, ascending, and each rater's
    places among ``rows``, ``R x M``, ascending, padded with the number of all rows, a
    row that does not exist. Every rater is in one group, with answers or without.
    """
    of_row = _raters_of_rows(rows, crowd)
    order = of_row.argsort(stable=True)
    count = torch.bincount(of_row, minlength=len(crowd.raters))
    first = (count.cumsum(0) - count)[of_row[order]]
    # The place of each row among those of its rater.
    column = torch.arange(len(order), device=order.device) - first
    # A block has a row at least, which is padding of a rater without answers.
    widths = _bucket_widths(count.clamp_min(1))
    buckets = torch.searchsorted(widths, count)
    rater_blocks = []
    for number, width in enumerate(widths.tolist()):
        (raters,) = (buckets == number).nonzero(as_tuple=True)
        place = torch.full_like(count, len(raters))
        place[raters] = torch.arange(len(raters), device=order.device)
        inside = buckets[of_row[order]] == number
        blocks = order.new_full((len(raters), width), rows.num_rows)
        blocks[place[of_row[order[inside]]], column[inside]] = order[inside]
        rater_blocks.append((raters, blocks))
    return rater_blocks


def _bucket_widths(count: Tensor) -> Tensor:
    """Finds the widths of buckets of raters, ascending, from each rater's ``count``.

    Counts of rows are 1 or more, and blocks are padded to the width of their bucket,
    its largest count: fewer buckets waste memory on padding, more are more products.
    """
    widths: list[int] = []
    for size in count.unique().flip(0).tolist():
        # The next bucket begins where padding would be more than a fifth of a block,
        # unless the present one is at most `_LEAST_WIDTH` wide.
        if not widths or (widths[-1] > _LEAST_WIDTH and size < _SHARE * widths[-1]):
            widths.append(size)
    return count.new_tensor(widths[::-1])


def _raters_of_rows(rows: SparseDesign, crowd: _Crowd) -> Tensor:
    """Finds the rater of each row, ``m`` places among the raters of the crowd.

    The ``rows`` are about points, as they are before they see items. A row about points
    of two raters is an error.
    """
    # Weights of covariates stand behind the points, and have no rater.
    is_point = rows.indices < len(crowd.rater_of)
    raters = crowd.rater_of[torch.where(is_point, rows.indices, rows.indices[:, :1])]
    is_mixed = (raters != raters[:, :1]).any(-1)
    if bool(is_mixed.any()):
        rater_pair = crowd.raters[raters[is_mixed][0]].unique().tolist()
        raise FeedbackError(
            f"An answer is about points of the raters {rater_pair}; give each answer "
            "points of the rater who gave it."
        )
    return raters[:, 0]


def _within_blocks(noise: NoiseBlocks, blocks: Tensor) -> Tensor:
    """Moves the noise that rows of one answer share into blocks, ``R x M x M``.

    ``blocks`` has the rows of each rater of one bucket, ``R x M``: noise of other rows
    is left out.
    """
    num_rows, width = noise.num_rows, blocks.shape[-1]
    row_places = torch.full((num_rows + 1,), -1, device=blocks.device)
    row_places[blocks.flatten()] = torch.arange(blocks.numel(), device=blocks.device)
    # Padding has a place too, the last, but is no row.
    places = row_places[noise.rows]
    is_inside = (noise.rows < num_rows) & (places >= 0)
    places = places.clamp_min(0)
    pair_inside = is_inside.unsqueeze(-1) & is_inside.unsqueeze(-2)
    # In all blocks, one after the other, an entry is at its row times the width, plus
    # its column, the place of another row within the block.
    flat = places.unsqueeze(-1) * width + (places % width).unsqueeze(-2)
    entries = torch.where(pair_inside, noise.covariance, 0.0).flatten()
    total = entries.new_zeros(blocks.numel() * width)
    return total.index_add(0, flat.flatten(), entries).view(*blocks.shape, width)
