"""How a model comes by its posterior, and when it must do so anew."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Self, cast

import torch
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import Kernel
from gpytorch.means import Mean
from torch import Tensor
from torch.nn import ModuleDict

from botorch_pref.errors import (
    BotorchPrefError,
    InferenceWarning,
    UnsupportedFeedbackError,
)
from botorch_pref.feedback import Comparisons, Feedback
from botorch_pref.inference.derivatives.posterior_tangent import (
    GaussianTangent,
    PosteriorTangent,
)
from botorch_pref.inference.gaussian_result import GaussianResult
from botorch_pref.inference.warm_start import carry_rows, row_sources
from botorch_pref.likelihoods.factors.factors import Factors
from botorch_pref.likelihoods.factors.joint_factors import joint_factors
from botorch_pref.likelihoods.preference_likelihood import PreferenceLikelihood
from botorch_pref.linalg.sparse_design import SparseDesign
from botorch_pref.models.data.training_set import TrainingSet, collect_answers
from botorch_pref.models.prediction import PosteriorTerms
from botorch_pref.models.training_data_mixin import TrainingDataMixin


class InferenceMixin(TrainingDataMixin):
    """Likelihoods, evidence and the cached posterior of a model.

    Attributes:
        likelihoods: One likelihood for each kind of feedback, by its name.
        mean_module: The prior mean.
        covar_module: The kernel.
    """

    takes: ClassVar[frozenset[type[Factors]]]
    """The kinds of factors that the engine takes."""
    likelihoods: ModuleDict
    mean_module: Mean
    covar_module: Kernel
    _terms: PosteriorTerms | None = None
    _result: GaussianResult | None = None
    _motion: PosteriorTangent | None = None
    _sites: tuple[Tensor, Tensor] | None = None
    _fingerprint: tuple[Tensor, ...] = ()

    @property
    def likelihood(self) -> PreferenceLikelihood[Any]:
        """The likelihood of comparisons, or of the only kind of answers there is."""
        first = next(iter(self.likelihoods))
        name = Comparisons.__name__
        return cast(
            "PreferenceLikelihood[Any]",
            self.likelihoods[name if name in self.likelihoods else first],
        )

    def _likelihood_of(self, kind: type[Feedback]) -> PreferenceLikelihood[Any]:
        if kind.__name__ in self.likelihoods:
            return cast("PreferenceLikelihood[Any]", self.likelihoods[kind.__name__])
        for module in self.likelihoods.values():
            # Duels of somebody who only ranked so far are heard with the same noise.
            likelihood = cast("PreferenceLikelihood[Any]", module)
            if likelihood.explains.get(kind) in self.takes:
                return likelihood
        raise UnsupportedFeedbackError(
            f"The model has no likelihood for {kind.__name__}; build it with "
            f"likelihood={{{kind.__name__}: ...}}."
        )

    def _set_data(self, data: TrainingSet) -> None:
        for block in data.feedback:
            self._likelihood_of(type(block))
        super()._set_data(data)

    def _forget(self) -> None:
        self._terms = self._result = self._sites = self._motion = None

    @abstractmethod
    def _infer(self, covar: Tensor, mean: Tensor, factors: Factors) -> GaussianResult:
        """Runs the engine; ``_sites`` holds where it may start."""

    def condition_on_observations(
        self, X: Tensor, Y: Tensor | Feedback | Sequence[Feedback], **kwargs: Any
    ) -> Self:
        """See base class; the engine of the copy starts where that of the model is."""
        new = super().condition_on_observations(X, Y, **kwargs)
        after = new._site_rows(new._training_set())
        if self._sites is not None:
            blocks = {type(block): block for block in collect_answers(Y)}
            ordered = [blocks[type(b)] for b in new.feedback if type(b) in blocks]
            more = TrainingSet(X.detach(), tuple(ordered))
            more = more.map_tensors(lambda t: t.to(X.device))
            before = self._site_rows(self._training_set())
            sources = row_sources(before, self._site_rows(more), after)
            batch = torch.broadcast_shapes(new.batch_shape, sources.shape[:-1])
            self._hand_on(new, more, sources.expand(*batch, -1))
        return new

    def _hand_on(self, new: Self, more: TrainingSet, sources: Tensor) -> None:
        """Lets the engine of a model with more answers start where this one ended.

        Args:
            new: The model with more answers.
            more: Those, and the points that they are about.
            sources: Of its rows, see :func:`row_sources`.
        """
        pairs = zip(cast("Any", self._sites), self._first_sites(more), strict=True)
        precision, shift = (carry_rows(sources, *pair) for pair in pairs)
        new._sites = (precision, shift)

    def _first_sites(self, more: TrainingSet) -> tuple[Tensor, Tensor]:
        """Where sites of further answers start: empty, at what is known without them.

        Args:
            more: Further answers and the points that they are about.
        """
        none = more.datapoints.new_zeros(self._site_rows(more).num_rows)
        return none, none

    def _training_set(self) -> TrainingSet:
        if self._data is None or not self.feedback:
            raise BotorchPrefError(
                "The model has no feedback, hence no evidence; pass comparisons= or "
                "feedback=, or call eval() for predictions of the prior."
            )
        return self._data

    def _factor_blocks(self, data: TrainingSet) -> list[Factors]:
        """Factors of each block of answers, about all datapoints."""
        n = data.datapoints.shape[-2]
        return [self._likelihood_of(type(b)).factors(b, n) for b in data.feedback]

    def _factors(self) -> Factors:
        """The factors of all answers, about the distinct points."""
        blocks = self._factor_blocks(self._training_set())
        if self._distinct is not None:
            for block in blocks:
                block.reindex(self._distinct.inverse, len(self._distinct.first))
        return joint_factors(blocks)

    def _site_rows(self, data: TrainingSet) -> SparseDesign:
        """The rows that sites are on, about all datapoints."""
        return joint_factors(self._factor_blocks(data)).rows

    def _solve(self) -> GaussianResult:
        factors = self._factors()
        prior = self._prior(self._points())
        result = self._infer(prior.covariance_matrix, prior.mean, factors)
        self._sites = (result.site_precision, result.site_shift)
        if not result.converged:
            warnings.warn(
                f"{type(self).__name__} did not converge: after {result.iterations} "
                f"iterations the residual is {result.residual:.1e} posterior standard "
                "deviations. Check for extreme noise or output scale.",
                InferenceWarning,
                stacklevel=3,
            )
        return result

    def _prior(self, points: Tensor) -> MultivariateNormal:
        return MultivariateNormal(self.mean_module(points), self.covar_module(points))

    def log_evidence(self) -> Tensor:
        """The log evidence of all answers under the present hyper-parameters.

        Returns:
            ``batch_shape``; its gradient in kernel, mean and likelihood parameters is
            that of the engine's own evidence, exactly.

        Raises:
            BotorchPrefError: There are no answers.
        """
        return self._solve().log_evidence

    def diagnostics(self) -> dict[str, Any]:
        """What the engine knows of the posterior it gives.

        Returns:
            ``converged``, ``iterations``, ``residual`` (in posterior standard
            deviations) and ``log_evidence``; more where the engine knows more.
        """
        self.eval()
        self._posterior_terms()
        if not self.feedback:
            return {"converged": True, "iterations": 0, "residual": 0.0}
        result = self._known_result()
        return {
            "converged": result.converged,
            "iterations": result.iterations,
            "residual": result.residual,
            "log_evidence": result.log_evidence.detach(),
        }

    def _known_result(self) -> GaussianResult:
        """The engine's solution, found now where prediction went without it."""
        if self._result is None:
            with torch.no_grad():
                self._result = self._solve()
        return self._result

    @property
    def _state(self) -> list[Tensor]:
        """Hyper-parameters, and what the input transform has learned."""
        transform = getattr(self, "input_transform", None)
        learned = () if transform is None else transform.buffers()
        return [t.detach() for t in (*self.parameters(), *learned)]

    @property
    def _has_changed(self) -> bool:
        """Whether the state has, since the posterior was computed."""
        state = self._state
        return len(state) != len(self._fingerprint) or any(
            not torch.equal(a, b) for a, b in zip(state, self._fingerprint, strict=True)
        )

    def _posterior_terms(self) -> PosteriorTerms | None:
        """Cached; computed anew when a hyper-parameter has changed."""
        if not self.feedback:
            return None
        if self._terms is None or self._has_changed:
            with torch.no_grad():
                self._terms = self._compute_terms()
            self._motion = None
            self._fingerprint = tuple(t.clone() for t in self._state)
        if torch.is_grad_enabled() and self._is_differentiated:
            return self._recorded(self._terms)
        return self._terms

    def _compute_terms(self) -> PosteriorTerms:
        self._result = self._solve()
        return self._terms_of(self._result)

    def _terms_of(self, result: GaussianResult) -> PosteriorTerms:
        factor = result.factor
        weights = result.weights.unsqueeze(-1)
        return PosteriorTerms(self._points(), weights, factor.root(), factor.widening())

    def _recorded(self, terms: PosteriorTerms) -> PosteriorTerms:
        """The same terms with their derivatives in the datapoints.

        Recorded anew each time, at the cost of no solution: nothing that is cached has
        a graph, and every call can be differentiated once.
        """
        points = self._points()
        prior = self._prior(points)
        covar, mean = prior.covariance_matrix, prior.mean
        if self._motion is None:
            with torch.no_grad():
                self._motion = self._motion_of(mean)
        change = self._motion(covar, mean)
        return terms._replace(
            points=points,
            weights=terms.weights + change.weights,
            precision_change=change.precision,
        )

    def _motion_of(self, mean: Tensor) -> PosteriorTangent:
        return GaussianTangent(mean, cast("GaussianResult", self._result))
