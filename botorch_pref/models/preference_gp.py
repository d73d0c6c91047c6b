"""The Gaussian process of utilities behind every engine."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import torch
from botorch.exceptions.warnings import InputDataWarning, _get_single_precision_warning
from botorch.models.transforms.input import InputTransform
from botorch.posteriors.posterior import Posterior
from botorch.utils.probability.utils import ndtr
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import Kernel
from gpytorch.means import Mean
from gpytorch.models import GP
from linear_operator import to_linear_operator
from torch import Tensor

from botorch_pref.errors import (
    BotorchPrefError,
    FeedbackError,
)
from botorch_pref.feedback import Comparisons, Feedback
from botorch_pref.inference.engine import Engine
from botorch_pref.inference.posterior_terms import PosteriorTerms
from botorch_pref.inference.prediction import predict
from botorch_pref.inference.solution import Solution
from botorch_pref.inference.solution_cache import SolutionCache
from botorch_pref.inference.utility_prior import UtilityPrior
from botorch_pref.inference.warm_start import FurtherAnswers, row_sources
from botorch_pref.likelihoods.factors.factors import Factors
from botorch_pref.likelihoods.factors.joint_factors import joint_factors
from botorch_pref.likelihoods.resolve import LikelihoodArgument, resolve_likelihoods
from botorch_pref.linalg.dense_covariance import dense_covariance
from botorch_pref.linalg.sparse_design import SparseDesign
from botorch_pref.models.answers.answer_likelihoods import (
    AnswerLikelihoods,
    AnyLikelihood,
)
from botorch_pref.models.answers.supported_answers import check_engine, check_supported
from botorch_pref.models.data.duel_pairs import duel_pairs
from botorch_pref.models.data.module_arguments import check_module
from botorch_pref.models.data.training_arguments import check_training_inputs
from botorch_pref.models.data.training_set import (
    TrainingSet,
    collect_answers,
    collect_feedback,
)
from botorch_pref.models.default_prior import default_covar_module, default_mean_module
from botorch_pref.models.utility_model import UtilityModel
from botorch_pref.posteriors.difference import resolved_variance
from botorch_pref.posteriors.moments import Moments, contrast


class PreferenceGP(UtilityModel, GP):
    r"""Utilities ``f ~ GP(m, k)`` seen through what people say of them.

    Subclasses name an engine. Everything else, from validation to prediction, is the
    same for all: see ``docs/models.md``.

    Args:
        datapoints: ``batch_shape x n x d``; None for a model of the prior alone.
        comparisons: ``batch_shape x m x 2`` integers into ``datapoints``, winner first.
        feedback: Other answers, at most one container of a kind.
        likelihood: A likelihood instead of the default of its kind of feedback, or a
            mapping from kinds to likelihoods.
        mean_module: The prior mean. Default: zero where only differences are seen, a
            learned constant where some answer is absolute.
        covar_module: The kernel. Default: a scaled RBF-ARD kernel with BoTorch's
            dimension-scaled lengthscale prior.
        input_transform: Applied to all inputs, as everywhere in BoTorch.

    Warns:
        InputDataWarning: Of datapoints in single precision, as all of BoTorch's models.

    Raises:
        FeedbackError: Data that cannot mean anything.
        UnsupportedFeedbackError: Data or a likelihood that the engine does not take.
    """

    engine: Engine
    """The method of inference."""
    likelihoods: AnswerLikelihoods
    _cache: SolutionCache[Solution[PosteriorTerms]]
    mean_module: Mean
    covar_module: Kernel

    def __init__(
        self,
        datapoints: Tensor | None = None,
        comparisons: Tensor | Comparisons | None = None,
        *,
        feedback: Sequence[Feedback] = (),
        likelihood: LikelihoodArgument = None,
        mean_module: Mean | None = None,
        covar_module: Kernel | None = None,
        input_transform: InputTransform | None = None,
    ) -> None:
        super().__init__()
        check_engine(self)
        check_module("mean_module", mean_module, Mean)
        check_module("covar_module", covar_module, Kernel)
        check_module("input_transform", input_transform, InputTransform)
        self._cache = SolutionCache()
        blocks = collect_feedback(comparisons, feedback)
        if datapoints is None and blocks:
            raise FeedbackError("There is feedback but there are no datapoints.")
        chosen = resolve_likelihoods(
            blocks, likelihood, self.engine.default_likelihoods
        )
        check_supported(type(self), chosen)
        self.likelihoods = AnswerLikelihoods(chosen)
        if datapoints is not None:
            self._set_data(TrainingSet(datapoints, blocks))
            if datapoints.dtype == torch.float32:
                text = _get_single_precision_warning(str(datapoints.dtype))
                warnings.warn(text, InputDataWarning, stacklevel=2)
        features = self.dim
        if input_transform is not None:
            self.input_transform = input_transform
        if datapoints is not None:
            self.to(datapoints)
            with torch.no_grad():
                # A transform that learns from the data does so in train mode only.
                features = self.transform_inputs(datapoints).shape[-1]
        batch = self.batch_shape
        self.mean_module = mean_module or default_mean_module(blocks, batch)
        self.covar_module = covar_module or default_covar_module(features, batch)
        if datapoints is not None:
            self.to(datapoints)
        if blocks:
            self.factors()

    @property
    def likelihood(self) -> AnyLikelihood:
        """The likelihood of comparisons, or of the only kind of answers there is."""
        return self.likelihoods.leading

    def likelihood_of(self, kind: type[Feedback]) -> AnyLikelihood:
        """The likelihood of a kind of answers.

        Args:
            kind: A class of feedback.

        Raises:
            UnsupportedFeedbackError: The model has none.
        """
        return self.likelihoods.of(kind, self.engine)

    def check_feedback(self, feedback: Sequence[Feedback]) -> None:
        """See base class: there must be a likelihood of each."""
        for block in feedback:
            self.likelihood_of(type(block))

    def factors(self) -> Factors:
        """The factors of all answers, about the distinct points.

        Raises:
            BotorchPrefError: There are no answers.
        """
        blocks = self._factor_blocks(self._answered())
        if self._distinct is not None:
            for block in blocks:
                block.reindex(self._distinct.inverse, len(self._distinct.first))
        return joint_factors(blocks)

    def _answered(self) -> TrainingSet:
        if self._data is None or not self.feedback:
            raise BotorchPrefError(
                "The model has no feedback, hence no evidence; pass comparisons= or "
                "feedback=, or call eval() for predictions of the prior."
            )
        return self._data

    def _factor_blocks(self, data: TrainingSet) -> list[Factors]:
        """Factors of each block of answers, about all datapoints."""
        n = data.datapoints.shape[-2]
        return self.likelihoods.factors(data.feedback, n, self.engine)

    def forward(self, *inputs: Tensor) -> MultivariateNormal:
        """The prior at the training inputs in train mode, else the posterior.

        Args:
            inputs: One tensor, ``batch_shape x q x d``; the training inputs in train
                mode.

        Raises:
            FeedbackError: In train mode, other points than the training inputs.
        """
        if self.training:
            points = check_training_inputs(inputs, self.train_inputs)
            x = self.transform_inputs(points)
            return MultivariateNormal(self.mean_module(x), self.covar_module(x))
        (x,) = inputs
        posterior: Any = self.make_posterior(self.moments(x))
        covariance = to_linear_operator(posterior.covariance_matrix)
        return MultivariateNormal(posterior.mean.squeeze(-1), covariance)

    def prior(self) -> UtilityPrior:
        """The prior of utilities at the distinct points.

        Raises:
            BotorchPrefError: There are no datapoints.
        """
        if self._data is None:
            raise BotorchPrefError(
                "The model has no datapoints whose utilities have a prior; pass "
                "datapoints=, or call posterior(X) for the prior at other points."
            )
        points = self.transformed_points()
        covar = dense_covariance(self.covar_module, points)
        return UtilityPrior(points, self.mean_module(points), covar)

    def log_evidence(self) -> Tensor:
        """The log evidence of all answers under the present hyper-parameters.

        Returns:
            ``batch_shape``; its gradient in kernel, mean and likelihood parameters is
            that of the engine's own evidence, exactly.

        Raises:
            BotorchPrefError: There are no answers.
        """
        factors = self.factors()
        solution = self.engine.solve(self.prior(), factors, self._cache.start)
        evidence = solution.log_evidence
        solution.warn(type(self).__name__)
        self._cache.start = solution.warm_start()
        return evidence

    def solution(self) -> Solution[PosteriorTerms] | None:
        """The engine's solution, found anew where a hyper-parameter has changed.

        Returns:
            None without answers, whose posterior is the prior.
        """
        if not self.feedback:
            return None
        cache, state = self._cache, self._state()
        unchanged = cache.is_of(state)
        if cache.solution is not None and unchanged:
            return cache.solution
        start = cache.start
        if start is not None and not unchanged:
            start = start.at_other_parameters()
        with torch.no_grad():
            solution = self.engine.solve(self.prior(), self.factors(), start)
            _ = solution.terms
        solution.warn(type(self).__name__)
        cache.keep(solution, state)
        return solution

    def _state(self) -> list[Tensor]:
        """Hyper-parameters, and what the input transform has learned."""
        transform = getattr(self, "input_transform", None)
        learned = () if transform is None else transform.buffers()
        return [t.detach() for t in (*self.parameters(), *learned)]

    def posterior_terms(self) -> PosteriorTerms | None:
        """The part of the solution that prediction needs; None without answers.

        With derivatives in the datapoints where these are wanted. They are recorded
        anew each time, at the cost of no solution: nothing that is cached has a graph,
        and every call can be differentiated once.
        """
        solution = self.solution()
        if solution is None:
            return None
        if not (torch.is_grad_enabled() and self._is_differentiated):
            return solution.terms
        prior, cache = self.prior(), self._cache
        if cache.tangent is None:
            with torch.no_grad():
                cache.tangent = solution.tangent(prior.mean)
        change = cache.tangent(prior.covar, prior.mean)
        return replace(
            solution.terms,
            points=prior.points,
            weights=solution.terms.weights + change.weights,
            precision_change=change.precision,
        )

    def diagnostics(self) -> dict[str, Any]:
        """Diagnostics of the engine.

        Returns:
            ``converged``, ``iterations``, ``residual`` (in posterior standard
            deviations) and ``log_evidence``; more where the engine knows more.
        """
        self.eval()
        solution = self.solution()
        if solution is None:
            return {"converged": True, "iterations": 0, "residual": 0.0}
        return solution.diagnostics()

    def moments(self, X: Tensor) -> Moments:
        """See base class."""
        self.check_points("X", X)
        if self.training:
            # Not at every call: BoTorch's walks over all modules.
            self.eval()
        return self._predict(X)

    def _predict(self, X: Tensor) -> Moments:
        X = self.transform_inputs(X)
        return predict(self.mean_module, self.covar_module, self.posterior_terms(), X)

    def _prior_variance(self, X: Tensor) -> Tensor:
        """Prior variances of utilities, ``batch_shape x q``, as of :meth:`moments`.

        Args:
            X: ``batch_shape x q x d``, untransformed.
        """
        variance: Tensor = self.covar_module(self.transform_inputs(X), diag=True)
        return variance

    def make_posterior(self, moments: Moments) -> Posterior:
        """See base class: the engine's."""
        return self.engine.posterior(moments)

    def condition_on_observations(
        self, X: Tensor, Y: Tensor | Feedback | Sequence[Feedback], **kwargs: Any
    ) -> Self:
        """See base class; the engine of the copy starts where that of the model is."""
        answers = collect_answers(Y)
        new = super().condition_on_observations(X, answers, **kwargs)
        after = new._site_rows()
        if self._cache.start is None:
            return new
        blocks = {type(block): block for block in answers}
        ordered = [blocks[type(b)] for b in new.feedback if type(b) in blocks]
        more = TrainingSet(X.detach(), tuple(ordered))
        more = more.map_tensors(lambda t: t.to(X.device))
        factors = joint_factors(self._factor_blocks(more))
        sources = row_sources(self._site_rows(), self.engine.site_rows(factors), after)
        batch = torch.broadcast_shapes(new.batch_shape, sources.shape[:-1])
        further = FurtherAnswers(factors, sources.expand(*batch, -1))
        new._cache = self._cache_after(further, more.datapoints)
        return new

    def _site_rows(self) -> SparseDesign:
        """The rows of the engine's sites, about all datapoints."""
        blocks = self._factor_blocks(self._answered())
        return self.engine.site_rows(joint_factors(blocks))

    def _cache_after(
        self, further: FurtherAnswers, X: Tensor
    ) -> SolutionCache[Solution[PosteriorTerms]]:
        """The start of the engine of a model with further answers, about X."""
        solution, start = self._cache.solution, self._cache.start
        if self.training or solution is None or start is None:
            first = self.engine.initial_sites(further.factors)
            begun = start and start.followed_by(further.sources, first)
            return SolutionCache(begun)
        with torch.no_grad():
            further = further._replace(moments=self._predict(X))
        return SolutionCache(solution.warm_start(further), self._cache.state)

    def duel_probability(
        self, X1: Tensor, X2: Tensor, observation_noise: bool = False
    ) -> Tensor:
        r"""P(X1 beats X2).

        Of utilities, P(X1 beats X2) + P(X2 beats X1) = 1. Where two points are so near
        each other that rounding hides the difference of their utilities, both go to a
        half, see :func:`.resolved_variance`.

        Args:
            X1: ``batch_shape x q x d``.
            X2: ``batch_shape x q x d`` or ``batch_shape x 1 x d``.
            observation_noise: Whether of an answer as the likelihood gives it (with the
                tie threshold, if there is one), or of the utilities themselves.

        Returns:
            ``batch_shape x q``.
        """
        self._check_duels(("X1", "X2"), X1, X2)
        pairs, sign = duel_pairs(X1, X2)
        # Room for batches of the model, for which the pairs would be taken below.
        room = (1,) * (len(self.batch_shape) + 3 - pairs.dim())
        # Each pair is a batch element of its own: covariances of pairs are not needed.
        pairs = pairs.reshape(room + pairs.shape).movedim(-3, 0)
        sign = sign.reshape(room + sign.shape).movedim(-1, 0)
        moments = contrast(self.moments(pairs), 1)
        means, variance = moments.means.squeeze(-1), moments.covariance[..., 0, 0]
        means = means * sign.reshape(*sign.shape, *[1] * (variance.dim() - sign.dim()))
        variance = resolved_variance(variance, self._prior_variance(pairs).sum(-1))
        if observation_noise:
            likelihood = self.likelihood_of(Comparisons)
            win = likelihood.win_probability(means, variance)
        else:
            win = ndtr(means / variance.sqrt())
        return win.mean(0).movedim(0, -1)
