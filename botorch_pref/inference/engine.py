"""Engines: what one is given, what it finds, and the cache of what it found."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, is_dataclass, replace
from functools import cached_property
from operator import is_
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, Self, TypeVar

import numpy as np
import torch
from botorch.posteriors.posterior import Posterior
from gpytorch.kernels import Kernel
from gpytorch.means import Mean
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from botorch_pref.errors import (
    BotorchPrefError,
    InferenceWarning,
    PrecisionError,
    warn_caller,
)
from botorch_pref.likelihoods.factors import Factors
from botorch_pref.linalg.covariance import (
    RowKernel,
    batched_product,
    block_diagonal,
    dense_covariance,
    join_rows,
)
from botorch_pref.linalg.sparse_design import SparseDesign, row_groups, stack_rows
from botorch_pref.posteriors import Moments, gaussian_posterior
from botorch_pref.posteriors.gaussian import WeightDraws, WeightedMoments


def in_double(value: Any) -> Any:
    """Converts every number to double precision, in which engines compute.

    Single precision has too few digits for answers that are more precise than the
    prior; solutions are returned in the precision of their prior. Takes tensors and
    tuples, lists, factors and data classes of them; anything else comes back as it is.
    What is converted is a copy, with its graph: nothing changes in place.
    """
    if isinstance(value, Tensor):
        is_double = value.dtype is torch.float64 or not value.is_floating_point()
        return value if is_double else value.double()
    if isinstance(value, tuple | list):
        parts = [in_double(part) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    if not isinstance(value, Factors) and not is_dataclass(value):
        return value
    converted = {name: in_double(part) for name, part in vars(value).items()}
    if all(part is getattr(value, name) for name, part in converted.items()):
        return value
    # With `vars`: frozen classes too, and what cached properties have computed.
    twin = copy(value)
    for name, part in converted.items():
        object.__setattr__(twin, name, part)
    return twin


class UtilityPrior(NamedTuple):
    """The Gaussian prior of utilities at some points, and perhaps of what is behind.

    Attributes:
        points: ``X``, ``batch_shape x n x d``, transformed.
        mean: ``m``, ``batch_shape x n``.
        covar: ``K``, ``batch_shape x n x n``. Where weights of covariates stand behind
            the utilities, ``n`` counts these too here and in the mean.
    """

    points: Tensor
    mean: Tensor
    covar: Tensor

    def with_weights(self, covar: Tensor) -> UtilityPrior:
        """Appends weights of covariates, of covariance ``covar``, to the prior."""
        mean = pad(self.mean, (0, covar.shape[-1]))
        return UtilityPrior(self.points, mean, block_diagonal(self.covar, covar))

    def in_double(self) -> UtilityPrior:
        """Converts to double precision, with a covariance that is symmetric.

        Kernels in single precision are symmetric to rounding in single precision alone.
        """
        if self.covar.dtype == torch.float64:
            return self
        points, mean, covar = in_double(tuple(self))
        return UtilityPrior(points, mean, 0.5 * (covar + covar.mT))

    def check_finite(self) -> None:
        """Raises a ``PrecisionError`` where a mean or a covariance is not finite."""
        for name, part in (("mean", self.mean), ("covariance", self.covar)):
            if not bool(part.isfinite().all()):
                raise PrecisionError(
                    f"The prior {name} of utilities is not finite: look for NaN among "
                    "the hyper-parameters, or what the mean and the kernel return."
                )


# Of the largest eigenvalue, for each of the points.
_ROUNDINGS = 64


def check_semidefinite(covar: Tensor) -> None:
    """Raises a ``PrecisionError`` where a kernel is not positive semi-definite.

    A prior covariance, ``batch_shape x n x n``, of such a kernel has an eigenvalue
    below zero by more than rounding. It is called for what an engine could not factor,
    to tell the user why, and costs the eigenvalues.
    """
    eigenvalues = torch.linalg.eigvalsh(covar)
    lowest, highest = eigenvalues[..., 0], eigenvalues[..., -1]
    rounding = _ROUNDINGS * covar.shape[-1] * torch.finfo(covar.dtype).eps
    bad = lowest < -rounding * highest.abs()
    if bool(bad.any()):
        raise PrecisionError(
            "The kernel is not positive semi-definite: prior covariances of utilities "
            f"have the eigenvalue {float(lowest[bad][0]):.2g}, beside "
            f"{float(highest[bad][0]):.2g} for the largest, which no rounding "
            "explains. Some kernels are no covariance of more than one input, such as "
            "CosineKernel: multiply kernels of one input each (active_dims=), or take "
            "another."
        )


@dataclass(frozen=True, eq=False)
class PosteriorTerms:
    r"""Weights and roots that give the posterior of utilities anywhere.

    With :math:`k = K(x, X)` the mean is :math:`m(x) + k w` and the covariance
    :math:`K_{**} - (k Q)(k Q)^T + (k P)(k P)^T`. Where weights of covariates stand
    behind the utilities, ``n`` counts these too, everywhere but in the points.

    Attributes:
        points: ``X``, ``batch_shape x n x d``, transformed.
        weights: ``w``, ``batch_shape x n x s``, one column a draw; ``s = 1`` for a
            Gaussian.
        root: ``Q``, ``batch_shape x n x r``.
        widening: ``P``, ``batch_shape x n x p``, where answers of factors that are not
            log-concave make the posterior wider; mostly None.
        precision_change: ``dM``, ``batch_shape x n x n``, zero in value: carries the
            derivatives of ``Q Q' - P P'``; None where there are none.
    """

    points: Tensor
    weights: Tensor
    root: Tensor
    widening: Tensor | None = None
    precision_change: Tensor | None = None

    @cached_property
    def draws(self) -> WeightDraws:
        """The weights as draws, with their mean and spread."""
        return WeightDraws(self.weights)

    @cached_property
    def of_points(self) -> PosteriorTerms:
        """The terms of utilities alone, where weights of covariates stand behind.

        Predictions at points need no more: their prior covariance with such weights is
        zero.
        """
        n, change = self.points.shape[-2], self.precision_change
        return PosteriorTerms(
            self.points,
            self.weights[..., :n, :],
            self.root[..., :n, :],
            None if self.widening is None else self.widening[..., :n, :],
            None if change is None else change[..., :n, :n],
        )


class TermsChange(NamedTuple):
    """A change of a posterior, zero in value where it only carries derivatives.

    Attributes:
        weights: ``dw``, ``batch_shape x n x s``.
        precision: ``dM``, ``batch_shape x n x n``.
    """

    weights: Tensor
    precision: Tensor


class PosteriorTangent(Protocol):
    """Tangent of a posterior: its first-order change with the prior."""

    def __call__(self, prior: UtilityPrior) -> TermsChange:
        """Computes the posterior's derivative in a prior with a graph, of value 0."""


class Sites(NamedTuple):
    r"""Gaussian sites :math:`\exp(\nu_i z_i - \tau_i z_i^2 / 2)` of rows of utilities.

    Attributes:
        precision: :math:`\tau`, ``batch_shape x m``.
        shift: :math:`\nu`, ``batch_shape x m``.
    """

    precision: Tensor
    shift: Tensor


class FurtherAnswers(NamedTuple):
    """Answers that join those of a solution.

    Attributes:
        factors: Of the further answers, about their own points.
        sources: Where their rows and those of the earlier answers go.
        moments: Of utilities at their points under the solution; None where it is no
            longer at hand.
    """

    factors: Factors
    sources: RowSources
    moments: Moments | None = None


@dataclass(frozen=True)
class WarmStart:
    """A start of an engine other than the prior.

    Attributes:
        sites: Of an earlier solution.
    """

    sites: Sites

    def at_other_parameters(self) -> Self:
        """Keeps the part that holds where hyper-parameters have changed."""
        return self

    def followed_by(self, sources: RowSources, further: Sites) -> Self:
        """Joins the sites of earlier and of further answers to those of all rows.

        Sites that go to one row add up.
        """
        tau, nu = self.sites
        precision = carry_rows(sources, tau, further.precision, signed=False)
        shift = carry_rows(sources, nu, further.shift, signed=True)
        return replace(self, sites=Sites(precision, shift))


class RowSources(NamedTuple):
    """The places of ``m`` earlier and ``m'`` further rows among the ``m''`` of all.

    ``places``, ``batch_shape x (m + m')``, is ``m''`` where a row has none, and
    ``sign`` is -1 where the row that is there has the other sign. ``complete`` says
    whether every row has a place, and every place a row.
    """

    places: Tensor
    sign: Tensor
    num_rows: int
    batch_shape: torch.Size
    complete: bool


def row_sources(
    before: SparseDesign,
    further: SparseDesign,
    after: SparseDesign,
    kinds: tuple[Tensor, Tensor, Tensor] | None = None,
) -> RowSources:
    """Finds where rows of earlier and of further answers are among the rows of all.

    A model with further answers starts from the sites of both, carried there. All three
    designs are about the points of all answers; ``kinds`` has labels of the rows of
    each. A row goes to one in ``after`` of the same label that is equal to it or to its
    negative; where several are, the first of equal answers goes to the first of them.
    """
    all_rows = stack_rows([before, further, after])
    label = None if kinds is None else torch.cat(kinds)
    groups = row_groups(all_rows, label)
    total, count = all_rows.num_rows, before.num_rows + further.num_rows
    if groups is None:
        group = torch.arange(total, device=after.indices.device)
        sign = torch.ones_like(group)
    else:
        group, sign = groups.group, groups.sign
    answer_groups, place_groups = group[..., :count].contiguous(), group[..., count:]
    ordered, order = place_groups.sort(dim=-1, stable=True)
    start, end = (
        torch.searchsorted(ordered.contiguous(), answer_groups, right=right)
        for right in (False, True)
    )
    # The first of equal answers goes to the first equal row, the second to the second,
    # and any more to the last.
    place = start + _rank(answer_groups).minimum((end - start - 1).clamp_min(0))
    place = order.gather(-1, place.clamp_max(after.num_rows - 1))
    places = torch.where(end > start, place, after.num_rows)
    # One place more, for rows that are not in `after`.
    full = torch.cat([sign[..., count:], sign[..., :1]], dim=-1)
    num_sources = torch.zeros_like(full, dtype=torch.long)
    num_sources = num_sources.scatter_add(-1, places, torch.ones_like(places))
    return RowSources(
        places=places,
        sign=(sign[..., :count] * full.gather(-1, places)).to(after.coefficients),
        num_rows=after.num_rows,
        batch_shape=after.indices.shape[:-2],
        complete=not bool(num_sources[..., -1].any())
        and bool((num_sources[..., :-1] > 0).all()),
    )


def _rank(values: Tensor) -> Tensor:
    """Counts the equal values before each, along the last dimension."""
    ordered, order = values.sort(dim=-1, stable=True)
    ordered = ordered.contiguous()
    places = torch.arange(values.shape[-1], device=values.device).expand_as(order)
    rank = places - torch.searchsorted(ordered, ordered)
    return torch.empty_like(order).scatter(-1, order, rank)


def carry_rows(
    sources: RowSources, before: Tensor, further: Tensor, signed: bool
) -> Tensor:
    """Sums values of earlier and further rows, ``signed`` or not, to those of all.

    Signed values, as shifts and observed values are, change their sign with their row;
    precisions do not. ``before`` is ``batch_shape x m``, ``further`` ``batch_shape x
    m'``; rows without a source get 0, and what has no place is left out.
    """
    values = join_rows([before, further])
    values = values * sources.sign if signed else values
    batch = torch.broadcast_shapes(values.shape[:-1], sources.batch_shape)
    out = values.new_zeros(*batch, sources.num_rows + 1)
    index = sources.places.expand(*batch, -1)
    return out.scatter_add(-1, index, values.expand(*batch, -1))[..., :-1]


def cross_covariance(kernel: Kernel, x: Tensor, points: Tensor) -> Tensor:
    """Computes ``K(x, X)``, ``batch_shape x q x n``, of all t-batches at once."""
    if points.dim() == 2 and not kernel.batch_shape:
        # One product with all points, which are not repeated for each t-batch.
        flat = dense_covariance(kernel, x.reshape(-1, x.shape[-1]), points)
        return flat.reshape(*x.shape[:-1], points.shape[-2])
    is_batch = len(kernel.batch_shape) == 1
    if points.dim() == 2 and is_batch and x.dim() > 3 and x.shape[-3] == 1:
        # So under kernels of a batch, whose dimension goes back to its place.
        flat = dense_covariance(kernel, x.reshape(-1, x.shape[-1]), points)
        shape = *x.shape[:-3], x.shape[-2], points.shape[-2]
        return flat.reshape(*kernel.batch_shape, *shape).movedim(0, -3)
    return dense_covariance(kernel, x, points)


def predict(
    mean: Mean,
    kernel: Kernel,
    terms: PosteriorTerms | None,
    x: Tensor,
    weights: Tensor | None = None,
    cross: Tensor | None = None,
) -> Moments:
    """Predicts means and covariance of utilities at ``x``, ``batch_shape x q x d``.

    They follow from :class:`PosteriorTerms`; without terms they are the prior's, of one
    draw. With the prior covariance of ``weights`` of covariates, ``batch_shape x p x
    p``, the moments of these come behind those of the utilities. ``cross`` is ``K(x,
    X)`` with the terms' points, where it is known already.
    """
    prior_mean, prior_covariance = mean(x), dense_covariance(kernel, x)
    if terms is not None and cross is None:
        cross = cross_covariance(kernel, x, terms.points)
    if weights is not None:
        prior_mean = pad(prior_mean, (0, weights.shape[-1]))
        prior_covariance = block_diagonal(prior_covariance, weights)
        cross = None if cross is None else block_diagonal(cross, weights)
    if terms is None or cross is None:
        return Moments(prior_mean.unsqueeze(0), prior_covariance)
    return conditioned(prior_mean, prior_covariance, cross, terms)


def conditioned(
    prior_mean: Tensor, prior_covariance: Tensor, k: Tensor, terms: PosteriorTerms
) -> Moments:
    """Computes the posterior moments of some values from their prior moments.

    The mean is ``prior_mean + k w``, with a row for each draw of ``w``; the covariance
    is ``prior_covariance - (k Q)(k Q)' + (k P)(k P)' - k dM k'``, with the `weights`,
    `root`, `widening` and `precision_change` of ``terms``, the last zero in value.

    Args:
        prior_mean: ``batch_shape x q``.
        prior_covariance: ``batch_shape x q x q``.
        k: Prior covariance of the values with what ``terms`` are about, the utilities
            at ``n`` points and the weights behind them, ``batch_shape x q x n``.
        terms: See :class:`PosteriorTerms`.
    """
    explained = batched_product(k, terms.root)
    covariance = prior_covariance - explained @ explained.mT
    if terms.widening is not None:
        widened = batched_product(k, terms.widening)
        covariance = covariance + widened @ widened.mT
    if terms.precision_change is not None:
        covariance = covariance - k @ terms.precision_change @ k.mT
    if terms.weights.shape[-1] > 1:
        return WeightedMoments(prior_mean, k, terms.draws, covariance)
    shift = batched_product(k, terms.weights).movedim(-1, 0)
    return Moments(prior_mean + shift, covariance)


Array = NDArray[np.float64]
OfScales = tuple[Array, Array]
"""First and second derivatives in the logs of ``p`` scales, ``p`` and ``p x p``."""
TermsT = TypeVar("TermsT", covariant=True)


class Solution(ABC, Generic[TermsT]):
    """A posterior of utilities, as one engine found it from one prior and its factors.

    Immutable: other hyper-parameters or other answers have another solution. What is
    expensive and not always wanted is computed when it is asked for, once.
    """

    @property
    @abstractmethod
    def log_evidence(self) -> Tensor:
        """The log evidence, or the engine's approximation of it, ``batch_shape``.

        Its gradient in everything that the engine was given is exact, of first order.
        """

    def evidence_derivatives(self, kernel: RowKernel) -> OfScales | None:
        """Differentiates the log evidence twice, in the logs of a kernel's scales.

        Returns:
            First and second derivatives; None where they are not known, as for a batch.
        """
        return None

    @property
    @abstractmethod
    def terms(self) -> TermsT:
        """The part that prediction needs, such as :class:`.PosteriorTerms`."""

    @abstractmethod
    def diagnostics(self) -> dict[str, Any]:
        """Reports diagnostics of the engine.

        Returns:
            ``converged``, ``iterations``, ``residual`` (in posterior standard
            deviations) and ``log_evidence``; more where the engine knows more.
        """

    @property
    def mean_error(self) -> float:
        """Error of posterior means of utilities, in posterior standard deviations.

        It is what unfinished iterations, rounding and draws leave, without the error of
        the approximation itself; 0 where the engine does not know it.
        """
        return 0.0

    @property
    def failures(self) -> tuple[str, ...]:
        """Sentences on all that did not converge, of what was computed so far."""
        return ()

    def tangent(self, mean: Tensor) -> PosteriorTangent:
        """Linearises the solution's change with its prior.

        Args:
            mean: Prior mean of the points, ``batch_shape x n``.

        Raises:
            BotorchPrefError: The engine knows no derivatives in the points.
        """
        raise BotorchPrefError(
            f"{type(self).__name__} has no derivatives in the points that answers are "
            "about, which look-ahead wants; detach them, or take another engine."
        )

    def warm_start(self, further: FurtherAnswers | None = None) -> WarmStart | None:
        """Makes the engine's next start, with other parameters or with more answers.

        Args:
            further: Answers that join those of the solution.

        Returns:
            None where the engine always starts anew.
        """
        return None

    def warn(self, owner: str) -> None:
        """Warns of what did not converge.

        Args:
            owner: Who gives the solution, to begin the sentence with.

        Warns:
            InferenceWarning: Once for each of :attr:`failures`.
        """
        for failure in self.failures:
            warn_caller(f"{owner} {failure}", InferenceWarning)


def not_finite(log_evidence: Tensor | None, weights: Tensor | None) -> tuple[str, ...]:
    """Describes an evidence or weights that are not finite, in a sentence for users.

    The result, empty where all are finite, is for :attr:`Solution.failures`. An
    argument of None is not checked.
    """
    advice = "Check for extreme hyper-parameters, or use double precision."
    if log_evidence is not None and not bool(log_evidence.isfinite().all()):
        values = [float(value) for value in log_evidence.detach().flatten()[:3]]
        return (
            f"did not converge: the log evidence is {values}, not finite. {advice}",
        )
    if weights is not None and not bool(weights.isfinite().all()):
        return (f"did not converge: the posterior is not finite. {advice}",)
    return ()


def check_solution(engine: object, solution: object) -> None:
    """Raises a ``TypeError`` where an engine's ``solve`` returned no solution."""
    if not isinstance(solution, Solution):
        raise TypeError(
            f"{type(engine).__name__}.solve returned {solution!r}; return a Solution."
        )


class Engine(ABC):
    """A method of inference: from a prior and factors to a posterior.

    An engine has settings and no state: models share it, and what it finds is a
    :class:`Solution`.

    Attributes:
        takes: The kinds of factors that it takes, subclasses included.
    """

    takes: ClassVar[frozenset[type[Any]]]

    @abstractmethod
    def solve(
        self, prior: UtilityPrior, factors: Factors, start: WarmStart | None = None
    ) -> Solution[PosteriorTerms]:
        """Solves for the posterior of utilities given answers.

        Args:
            prior: Of utilities at the n points.
            factors: m factors on rows of the n points.
            start: Where an earlier solution ended. The solution does not depend on it,
                but for the engine's tolerance; its cost does.
        """

    @property
    def of_evidence(self) -> Engine:
        """The engine whose evidence is that of this one: mostly itself."""
        return self

    @property
    def of_evidence_value(self) -> Engine:
        """The engine of an evidence without a gradient, which may take less."""
        return self.of_evidence

    def accepts(self, factors: type[Factors]) -> bool:
        """Tells whether the engine takes a class of factors."""
        return any(issubclass(factors, kind) for kind in self.takes)

    def posterior(self, moments: Moments) -> Posterior:
        """Makes a posterior of BoTorch's of moments of utilities: a Gaussian."""
        return gaussian_posterior(moments)

    def site_rows(self, factors: Factors) -> SparseDesign:
        """Returns the rows of utilities that have the engine's sites."""
        return factors.rows

    def initial_sites(self, factors: Factors, moments: Moments | None = None) -> Sites:
        """Makes initial sites of further answers: empty, as if nothing were said yet.

        Args:
            factors: Of the further answers, about their own points.
            moments: Of utilities at these points given the earlier answers; None where
                they are not known.
        """
        rows = self.site_rows(factors)
        none = rows.coefficients.new_zeros(rows.num_rows)
        return Sites(none, none)


def _equal(first: Sequence[Tensor], second: Sequence[Tensor]) -> bool:
    return len(first) == len(second) and all(map(torch.equal, first, second))


SolutionT = TypeVar("SolutionT", bound=Solution[Any])


class SolutionCache(Generic[SolutionT]):
    """A model's last solution, the state it is for, and the next one's start."""

    def __init__(
        self, start: WarmStart | None = None, state: Sequence[Tensor] = ()
    ) -> None:
        """Begins without a solution; the first one will be solved for from ``start``.

        ``state`` are the hyper-parameters and buffers for which that start was found.
        """
        self.start = start
        self.state = tuple(state)
        self.modules: tuple[object, ...] = ()
        self.solution: SolutionT | None = None
        self.tangent: PosteriorTangent | None = None
        self._factors: tuple[list[Tensor], Factors] | None = None

    def factors_of(
        self, state: Sequence[Tensor], make: Callable[[], Factors]
    ) -> Factors:
        """Makes the factors of answers, or returns the last ones.

        New ones are made where a parameter or buffer of the likelihoods, the ``state``,
        has changed or is learned: gradients need a new graph.
        """
        if any(t.requires_grad for t in state):
            return make()
        if self._factors is None or not _equal(state, self._factors[0]):
            self._factors = [t.clone() for t in state], make()
        return self._factors[1]

    def solution_of(
        self,
        modules: Iterable[object],
        state: Sequence[Tensor],
        solve: Callable[[WarmStart | None], SolutionT],
    ) -> SolutionT:
        """Returns the last solution, or solves anew if modules or their state changed.

        Modules are compared by identity, and their state, parameters and buffers, by
        value. ``solve`` takes a start: that of the last solution, with no more than its
        sites where the state has changed.
        """
        unchanged, modules = _equal(state, self.state), tuple(modules)
        if self.solution is not None:
            known_modules = self.modules
            unchanged &= len(modules) == len(known_modules) and all(
                map(is_, modules, known_modules)
            )
            if unchanged:
                return self.solution
        start = self.start
        if start is not None and not unchanged:
            start = start.at_other_parameters()
        # Neither a graph nor inference mode of this caller may stay with the solution,
        # which later callers share.
        with torch.inference_mode(False), torch.no_grad():
            solution = solve(start)
        self.solution, self.tangent = solution, None
        self.start = solution.warm_start()
        # Clones: optimisers change parameters in place.
        self.state, self.modules = tuple(t.clone() for t in state), modules
        return solution

    def terms_at(self, prior: UtilityPrior) -> PosteriorTerms:
        """Returns the solution's terms with derivatives in the prior and its points.

        Predictions take them where the datapoints want gradients, as look-ahead does;
        fits do not. Their values are those of the solution, since changes are zero in
        value and have derivatives only. They are recorded anew each time, at the
        cost of no solution: nothing that is cached has a graph, and every call can be
        differentiated once.
        """
        solution: Any = self.solution
        if self.tangent is None:
            with torch.no_grad():
                self.tangent = solution.tangent(prior.mean)
        change = self.tangent(prior)
        return replace(
            solution.terms,
            points=prior.points,
            weights=solution.terms.weights + change.weights,
            precision_change=change.precision,
        )

    def followed_by(
        self,
        engine: Engine,
        further: FurtherAnswers,
        moments: Callable[[], Moments] | None,
    ) -> Self:
        """Makes the cache of a model with further answers: where its engine starts.

        ``moments`` computes those of utilities at the points of the ``further`` answers
        under the solution; None where hyper-parameters may have changed since.
        """
        if moments is None or self.solution is None:
            first = engine.initial_sites(further.factors)
            start = self.start
            return type(self)(start and start.followed_by(further.sources, first))
        with torch.no_grad():
            further = further._replace(moments=moments())
        return type(self)(self.solution.warm_start(further), self.state)
