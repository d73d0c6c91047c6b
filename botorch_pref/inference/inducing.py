r"""Prior of utilities by way of inducing points, and conditioning on it.

With inducing points ``Z`` and a root ``J`` of :math:`K_{ZZ}^{-1} = J J'`, the utilities
of the datapoints are

.. math::
    f = m + \Phi v + e, \qquad \Phi = K_{XZ} J, \quad v \sim N(0, I), \quad
    e \sim N(0, D), \quad D = \mathrm{diag}(K_{XX} - \Phi \Phi'),

the prior of FITC (Snelson and Ghahramani 2006): what inducing points leave open of a
utility is independent of that of others. The rows ``z = A f`` see the weights ``v``
through :math:`A \Phi`. Out of each factor ``e`` is integrated, as independent from row
to row: it blurs a row by the variance :math:`\delta = (A \circ A) d`, and adds :math:`A
D A'` to the noise that rows of one answer share. Where all points are inducing points,
``D`` is zero and the prior is the exact one.

Conditioning costs :math:`O(n r^2 + r^3)` and ``O(r)`` for each answer: with :math:`G =
\Phi' A' P A \Phi` for the precisions ``P`` that shared noise leaves of sites, see
:mod:`.solvers`, the covariance of ``v`` is :math:`S = (I + G)^{-1}`, its mean :math:`S
\Phi' A' s` for shifts ``s``. In the equation of :class:`.PosteriorTerms`, utilities
anywhere have the weights :math:`J E[v]` and the precision :math:`J (I - S) J'` at the
inducing points.

All that answers say of the weights is a sum over answers, so that processes may have
the inducing points in common and each some of the answers: a sweep adds up matrices of
inducing points over them, and each finds the posterior of all answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, distributed
from torch.nn.functional import embedding_bag, pad

from botorch_pref.errors import BotorchPrefError, PrecisionError
from botorch_pref.inference.conditioning import (
    Balance,
    SitePosterior,
    SiteSolver,
    log_det,
    plus_identity,
    site_cholesky,
)
from botorch_pref.inference.engine import UtilityPrior, in_double
from botorch_pref.inference.solvers import ConditionedNoise
from botorch_pref.likelihoods.factors import ScalarFactors
from botorch_pref.linalg.covariance import block_diagonal, join_rows, psd_root
from botorch_pref.linalg.sparse_design import NoiseBlocks, SparseDesign, take_places
from botorch_pref.numerics.quadrature import LogDerivatives, TiltedMoments

# --- The prior


class InducingPrior(NamedTuple):
    """The prior of utilities at datapoints, by way of inducing points.

    The ``points`` ``Z``, ``batch_shape x r x d``, are transformed; ``mean`` and
    ``variance``, ``batch_shape x n``, are those of the datapoints; ``covar`` is
    ``K_ZZ`` and ``cross`` ``K_XZ``, ``batch_shape x n x r``.
    """

    points: Tensor
    mean: Tensor
    covar: Tensor
    cross: Tensor
    variance: Tensor

    def with_weights(self, covar: Tensor) -> InducingPrior:
        """Appends weights of covariates to the prior, each its own inducing value.

        ``covar`` is their prior covariance, ``p x p``. They stand behind the ``n``
        datapoints and again behind the ``r`` inducing points, which explain them fully.
        """
        weight_variance = covar.diagonal(dim1=-2, dim2=-1)
        return InducingPrior(
            self.points,
            pad(self.mean, (0, covar.shape[-1])),
            block_diagonal(self.covar, covar),
            block_diagonal(self.cross, covar),
            join_rows([self.variance, weight_variance]),
        )

    def in_double(self) -> InducingPrior:
        """Converts to double precision, with a covariance that is symmetric."""
        points, mean, covar, cross, variance = in_double(tuple(self))
        return InducingPrior(points, mean, 0.5 * (covar + covar.mT), cross, variance)

    def check_finite(self) -> None:
        """Raises a ``PrecisionError`` where a mean or a covariance is not finite."""
        for part in (self.covar, self.cross, self.variance):
            UtilityPrior(self.points, self.mean, part).check_finite()


def inverse_root(covar: Tensor, eps: float) -> Tensor:
    """Computes ``J`` with ``J J'`` the inverse of ``covar``, ``batch_shape x r x r``.

    Directions below ``r`` roundings ``eps`` of the largest eigenvalue get a column of
    zeros: points that others determine are no further features. ``eps`` is that of the
    numbers which ``covar`` was computed in.
    """
    values, vectors = torch.linalg.eigh(covar)
    smallest = covar.shape[-1] * eps * values[..., -1:]
    scale = torch.where(values > smallest, values, torch.inf).rsqrt()
    return vectors * scale.unsqueeze(-2)


# --- Conditioning weights of features


# Columns of features that are taken to the answers at once.
_COLUMNS = 32
# Relative difference of equal priors, fitted on different processors.
_ALIKE = 1e-6


def _squares(values: Tensor) -> Tensor:
    return torch.linalg.vecdot(values, values)


class FeatureSolver(SiteSolver):
    r"""Solver on weights of ``features`` :math:`\Phi`; the ``root`` is ``J``."""

    def __init__(
        self,
        prior: InducingPrior,
        root: Tensor,
        rows: SparseDesign,
        noise: NoiseBlocks | None,
    ) -> None:
        """Stores the features ``K_XZ J`` of the datapoints, ``batch_shape x n x r``.

        ``root`` is ``J``, ``r x r``. The prior variances of the datapoints are kept for
        `summed_variance`.
        """
        # K_XZ in place of K: `predict` multiplies it by weights of inducing points.
        super().__init__(prior.cross, rows, noise)
        self.root, self.features = root, prior.cross @ root
        self._prior_variance = prior.variance

    def factor(self, tau: Tensor) -> FeatureFactor:
        """See base class."""
        return FeatureFactor(self, tau)

    def of_rows(self, values: Tensor) -> Iterator[Tensor]:
        """Yields ``A values`` of ``batch_shape x n x k``, some columns at a time.

        Rows may be so many that all columns of them together would fill the memory.
        """
        rows = self.rows
        for part in values.split(_COLUMNS, dim=-1):
            columns = part.contiguous()
            if rows.indices.dim() == 2 == columns.dim():
                # One pass instead of one for each column of ``A``.
                yield embedding_bag(
                    rows.indices,
                    columns,
                    mode="sum",
                    per_sample_weights=rows.coefficients,
                )
            else:
                yield rows.apply_matrix(columns)

    def pulled(self, tau: Tensor, noise: ConditionedNoise) -> Tensor:
        """Multiplies ``A' P A`` by the features, ``batch_shape x n x r``.

        ``P`` are the precisions that the sites, of precisions ``tau``, give to rows
        once ``noise``, which rows share, is integrated out.
        """
        batched = max(self.rows.indices.dim(), self.features.dim(), tau.dim() + 1) > 2
        if self.noise is None and not batched:
            return torch.sparse.mm(self._gram(tau), self.features)
        parts = map(noise.oppose, self.of_rows(self.features))
        return torch.cat([*map(self.rows.adjoint_matrix, parts)], dim=-1)

    @cached_property
    def _places(self) -> tuple[Tensor, Tensor]:
        """Entries of ``A' A`` that are not zero; and where those of each row go."""
        rows, n = self.rows, self.rows.num_points
        entries = rows.indices.unsqueeze(-1) * n + rows.indices.unsqueeze(-2)
        places, inverse = torch.unique(entries.flatten(), return_inverse=True)
        return torch.stack([places // n, places % n]), inverse

    def _gram(self, tau: Tensor) -> Tensor:
        """Sums ``A' diag(t) A``, sparse: answers about the same points add up.

        It is ``n x n``, for one problem and not a batch, without shared noise.
        """
        (places, inverse), c = self._places, self.rows.coefficients
        n = self.rows.num_points
        values = tau[:, None, None] * c.unsqueeze(-1) * c.unsqueeze(-2)
        sums = tau.new_zeros(places.shape[-1]).index_add_(0, inverse, values.flatten())
        return torch.sparse_coo_tensor(
            places,
            sums,
            (n, n),
            device=sums.device,
            is_coalesced=True,
            check_invariants=False,
        )

    def conditioned_noise(self, tau: Tensor) -> ConditionedNoise:
        """Conditions the noise of each answer on its sites."""
        return ConditionedNoise(self.noise, tau)

    @property
    def num_processes(self) -> int:
        """The number of processes that have some of the answers each."""
        return 1

    @cached_property
    def variance(self) -> Tensor:
        """Prior variances of the rows, ``batch_shape x m``, the shared noise included.

        They are those by the features: what these leave open of a row that shares no
        noise is in its factor.
        """
        variance = cast("Tensor", sum(map(_squares, self.of_rows(self.features))))
        return variance if self.noise is None else variance + self.noise.diagonal()

    @cached_property
    def summed_variance(self) -> Tensor:
        """See base class."""
        return self.squares.apply(self._prior_variance)


class SharedFeatureSolver(FeatureSolver):
    """Solver of a process that has some of the answers: it adds up over processes.

    All processes take part in each sum, in the same order: what decides about the next
    one must be the same in all of them.
    """

    def __init__(self, prior: InducingPrior, *arguments: Any) -> None:
        """Checks that all processes have the same prior, then stores the features.

        All processes raise the error: raised in one alone it would leave the others
        waiting for its part of their sums.
        """
        values = torch.cat([prior.points.flatten(), prior.covar.flatten()])
        room = self.largest(_ALIKE * values.abs().amax())
        # Lengths first, for tensors of different lengths cannot be reduced.
        if bool(self._range(values.new_tensor(len(values)))) or bool(
            (self._range(values) > room).any()
        ):
            raise BotorchPrefError(
                "Processes have different inducing points, covariates or kernels; "
                "assign the same inducing_points and hyper-parameters in all of them, "
                "and fit with the same seed: fits that begin anew draw starts."
            )
        super().__init__(prior, *arguments)

    def _range(self, values: Tensor) -> Tensor:
        return self.largest(values) + self.largest(-values)

    @property
    def num_processes(self) -> int:
        """See base class."""
        return distributed.get_world_size()

    def total(self, values: Tensor) -> Tensor:
        """See base class."""
        return _reduced(values, distributed.ReduceOp.SUM)

    def largest(self, values: Tensor) -> Tensor:
        """See base class."""
        return _reduced(values, distributed.ReduceOp.MAX)

    def in_all_processes(self, holds: Tensor) -> Tensor:
        """See base class."""
        return _reduced(holds.to(torch.uint8), distributed.ReduceOp.MIN).bool()

    def conditioned_noise(self, tau: Tensor) -> ConditionedNoise:
        """See base class; raises in all processes where that of one has no factor."""
        noise: ConditionedNoise | None = None
        failed = PrecisionError("The answers of another process are too precise.")
        try:
            noise = super().conditioned_noise(tau)
        except PrecisionError as error:
            failed = error
        if bool(self.in_all_processes(tau.new_tensor(noise is not None))):
            return cast("ConditionedNoise", noise)
        raise failed

    @cached_property
    def resolves_all(self) -> bool:
        """See base class."""
        return bool(self.in_all_processes(self.resolved.all()))

    def bends(self, tau: Tensor) -> bool:
        """Returns False, or refuses negative precisions of the sites of any process.

        Their posterior would ask for the rows of other processes.
        """
        if bool(self.in_all_processes((tau >= 0).all())):
            return False
        raise BotorchPrefError(
            "Some answers contradict others so much that they make utilities less "
            "certain, as those of likelihoods do that are not log-concave; processes "
            "cannot share such answers: fit them in one."
        )


def _reduced(values: Tensor, operation: Any) -> Tensor:
    out = values.detach().clone(memory_format=torch.contiguous_format)
    distributed.all_reduce(out, operation)
    return out


class FeatureFactor(SitePosterior):
    r"""Weights given sites: one factor; ``pulled`` is :math:`A' P A \Phi`."""

    def __init__(self, solver: FeatureSolver, tau: Tensor) -> None:
        """Factors the posterior precision ``I + G`` of the weights ``v``, ``r x r``.

        ``G`` sums the features' ``pulled`` products, ``F' A' P A F``, over processes;
        the covariance of ``v`` is ``(I + G)^-1``.
        """
        self._solver, self.rows, self.tau = solver, solver.rows, tau
        self._site_noise = solver.conditioned_noise(tau)
        self.pulled = solver.pulled(tau, self._site_noise)
        gram = solver.total(solver.features.mT @ self.pulled)
        # Symmetric to the last digit, whatever the order of sums.
        self._gram = 0.5 * (gram + gram.mT)
        self._cholesky = site_cholesky(plus_identity(self._gram))

    @property
    def log_det(self) -> Tensor:
        """``log |B|``, that of weights and of shared noise, of all processes."""
        log_determinant = log_det(self._cholesky)
        return log_determinant + self._solver.total(
            self._site_noise.log_det.expand_as(log_determinant)
        )

    def solve(self, shifts: Tensor) -> Balance:
        """Solves for forces of sites, movements of rows and weights of inducing points.

        For shifts ``s``, ``batch_shape x m x k``, features ``F`` and the ``P``, ``Q``
        and ``M`` of :class:`.ConditionedNoise` the weights of features move by ``v = (I
        + G)^-1 F' A' Q' s``, the rows by ``Q A F v + M s``; the forces are ``Q' s - P A
        F v``. Weights of inducing points, ``batch_shape x r x k``, are ``J v``.
        """
        noise, solver = self._site_noise, self._solver
        softened = noise.soften(shifts, transposed=True)
        pull = solver.total(solver.features.mT @ self.rows.adjoint_matrix(softened))
        white = torch.cholesky_solve(pull, self._cholesky)
        row_movement = self.rows.apply_matrix(solver.features @ white)
        forces, weights = softened - noise.oppose(row_movement), solver.root @ white
        energy = white.square().sum(-2)
        energy = energy + solver.total(noise.energy(forces).expand_as(energy))
        return Balance(forces, noise.moved(row_movement, shifts), weights, energy)

    @cached_property
    def _spread(self) -> Tensor:
        """A root of the posterior covariance of datapoints' ``f``, ``... x n x r``.

        Without what inducing points leave open of these.
        """
        features = self._solver.features
        return torch.linalg.solve_triangular(
            self._cholesky, features.mT, upper=False
        ).mT

    def variance(self) -> Tensor:
        """Computes the posterior variances of the rows, ``batch_shape x m``.

        With features ``F``, the covariance ``S`` of their weights and the ``Q`` and
        ``M`` of :class:`.ConditionedNoise` it is the diagonal of ``Q A (F S F') A' Q' +
        M``, of ``A (F S F') A'`` without shared noise.
        """
        noise, parts = self._site_noise, self._solver.of_rows(self._spread)
        if self._solver.noise is None:
            return cast("Tensor", sum(map(_squares, parts)))
        explained = cast("Tensor", sum(_squares(noise.soften(part)) for part in parts))
        noise_blocks = NoiseBlocks(
            self._solver.noise.rows, noise.covariance, explained.shape[-1]
        )
        return explained + noise_blocks.diagonal()

    def root(self) -> Tensor:
        """Computes ``Q`` with ``J (I - S) J' = Q Q'``, ``batch_shape x r x r``.

        ``S`` is the posterior covariance of the weights ``v`` of features. Answers
        reduce the prior covariance ``K_ZZ`` of inducing points by ``K_ZZ Q Q' K_ZZ``.
        """
        u = psd_root(self._gram)
        cholesky = site_cholesky(plus_identity(u.mT @ u))
        half = torch.linalg.solve_triangular(cholesky, u.mT, upper=False)
        return self._solver.root @ half.mT

    def row_root(self) -> Tensor:
        """See base class."""
        return self._site_noise.with_root(self.rows.apply_matrix(self._spread))

    def noise_precision(self, noise: NoiseBlocks) -> Tensor:
        """Computes the blocks ``P - P A (F S F') A' P`` of answers that share noise.

        ``P`` are the precisions that sites give to ``A f`` there, and ``F S F'`` is the
        posterior covariance of datapoints by features. ``-1/2`` times these is a part
        of the evidence's gradient in that noise.
        """
        if self._solver.noise is None:
            return super().noise_precision(noise)
        precision = self._site_noise.precision
        for part in self._solver.of_rows(self._spread):
            block_part = noise.take(self._site_noise.oppose(part))
            precision = precision - block_part @ block_part.mT
        return precision

    def covariance(self) -> Tensor:
        """Computes ``J S J'``, ``... x r x r``, with the covariance ``S`` of ``v``."""
        root = self._solver.root
        return root @ torch.cholesky_solve(root.mT, self._cholesky)

    def point_precision(self) -> tuple[Tensor, Tensor]:
        """Computes ``M p``, ``batch_shape x n x r``, and ``p' M p``, ``r x r``.

        With ``M = A' W A`` answers reduce the covariance ``K = F F'`` that features
        give datapoints to ``K - K M K``; ``W`` is that of :mod:`.conditioning`, and
        this ``M`` not that of noise. ``p = K_XZ K_ZZ^-1`` projects inducing points to
        datapoints. Derivatives of evidence and posterior in the prior are made of both.
        """
        root = self._solver.root
        inner = torch.cholesky_solve(root.mT, self._cholesky)
        return self.pulled @ inner, root @ (self._gram @ inner)


# --- What inducing points leave open


class BlurredFactors(ScalarFactors):
    """Factors of rows ``z`` that are known up to noise of variances ``blur``.

    The ``noise`` is what rows share, instead of that of the exact factors.
    """

    def __init__(
        self, exact_factors: ScalarFactors, blur: Tensor, noise: NoiseBlocks | None
    ) -> None:
        """Blurs factors by variances, ``... x m``, and replaces shared noise."""
        self.exact, self.blur = exact_factors, blur
        self.rows, self.noise = exact_factors.rows, noise

    def log_prob(self, z: Tensor) -> LogDerivatives:
        """See base class."""
        return self.exact.log_partition(z, self.blur.expand_as(z))

    def curvature_gradient(self, z: Tensor, weights: Tensor) -> Tensor:
        """Computes the gradient of ``sum_i weights_i second_i(z)`` in ``z``."""
        with torch.enable_grad():
            z = z.detach().requires_grad_()
            (gradient,) = torch.autograd.grad(
                (weights * self.log_prob(z).second).sum(), z
            )
        return gradient

    def log_partition(self, mean: Tensor, variance: Tensor) -> LogDerivatives:
        """See base class."""
        return self.exact.log_partition(mean, variance + self.blur)

    def tilted(self, mean: Tensor, variance: Tensor) -> TiltedMoments:
        """See base class."""
        moments = self.exact.tilted(mean, variance + self.blur)
        return moments._replace(ratio=moments.ratio - self.blur * moments.second)


def _open_noise(
    noise: NoiseBlocks, rows: SparseDesign, open_variance: Tensor
) -> Tensor:
    """Computes ``A D A'`` of the rows of each answer, with the open variances ``D``.

    They are ``... x num_blocks x k x k`` of ``open_variance``, ``batch_shape x n``;
    rows of an answer about the same point have its open part in common.
    """
    # Padding of a block is a row of zeros.
    index, coefficients = (
        pad(part, (0, 0, 0, 1))[..., noise.rows, :].flatten(-2)
        for part in (rows.indices, rows.coefficients)
    )
    is_same_point = index.unsqueeze(-1) == index.unsqueeze(-2)
    variance = take_places(open_variance, index.flatten(-2))
    variance = variance.unflatten(-1, index.shape[-2:])
    weighted = (coefficients * variance).unsqueeze(-1)
    product = weighted * coefficients.unsqueeze(-2) * is_same_point
    k, width = noise.rows.shape[-1], rows.indices.shape[-1]
    return product.unflatten(-1, (k, width)).unflatten(-3, (k, width)).sum((-3, -1))


class OpenPart:
    """The part of utilities that inducing points leave open, for factors."""

    def __init__(self, factors: ScalarFactors, open_variance: Tensor) -> None:
        """Stores the open variances of datapoints, ``batch_shape x n``, for factors."""
        self._factors, self.variance = factors, open_variance
        squares = factors.rows.coefficients.square()
        self._squares = replace(factors.rows, coefficients=squares)
        # What is open of rows in blocks is noise there, and no blur besides.
        self._alone = True if factors.noise is None else ~factors.noise.inside

    def row_noise(self, open_variance: Tensor) -> tuple[Tensor, Tensor | None]:
        """Turns open variances of points, ``batch_shape x n``, into noise of rows.

        The first result is the blur, variances ``batch_shape x m``, 0 for rows that
        share noise; the second are the covariances of rows that share noise, ``... x
        num_blocks x k x k``, None without any.
        """
        noise, rows = self._factors.noise, self._factors.rows
        blur = self._squares.apply(open_variance) * self._alone
        return blur, None if noise is None else _open_noise(noise, rows, open_variance)

    def blurred(self) -> BlurredFactors:
        """Makes the factors of rows of features: blurred by what these leave open."""
        noise, (blur, shared) = self._factors.noise, self.row_noise(self.variance)
        if noise is not None and shared is not None:
            noise = NoiseBlocks(noise.rows, noise.covariance + shared, noise.num_rows)
        return BlurredFactors(self._factors, blur, noise)

    def slope(self, of_blur: Tensor, of_noise: Tensor | None) -> Tensor:
        """Differentiates the evidence in open variances, ``batch_shape x n``.

        That is the chain rule from its derivatives ``of_blur`` and ``of_noise`` in the
        two results of `row_noise`.
        """
        with torch.enable_grad():
            open_variance = (
                self.variance.expand(*of_blur.shape[:-1], -1).detach().requires_grad_()
            )
            blur, shared = self.row_noise(open_variance)
            form = (of_blur * blur).sum()
            if of_noise is not None and shared is not None:
                form = form + (of_noise * shared).sum()
            (slope,) = torch.autograd.grad(form, open_variance)
        return slope
