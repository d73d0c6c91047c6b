"""The Gaussian process of utilities behind every engine: model and objective."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import torch
from botorch.exceptions.warnings import InputDataWarning, _get_single_precision_warning
from botorch.models.transforms.input import InputTransform
from botorch.posteriors.posterior import Posterior
from botorch.utils.probability.utils import ndtr
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import Kernel
from gpytorch.means import Mean
from gpytorch.mlls import MarginalLogLikelihood
from gpytorch.models import GP
from linear_operator import to_linear_operator
from torch import Tensor
from torch.nn.functional import pad

from botorch_pref.errors import (
    BotorchPrefError,
    FeedbackError,
    PrecisionError,
    warn_caller,
)
from botorch_pref.feedback import Comparisons, Feedback
from botorch_pref.inference.engine import (
    Engine,
    FurtherAnswers,
    PosteriorTerms,
    RowSources,
    Solution,
    SolutionCache,
    UtilityPrior,
    WarmStart,
    check_semidefinite,
    check_solution,
    conditioned,
    predict,
    row_sources,
)
from botorch_pref.likelihoods import Factors, PreferenceLikelihood
from botorch_pref.linalg.covariance import dense_covariance
from botorch_pref.models import kernels
from botorch_pref.models.answer_likelihoods import (
    DEFAULT_LIKELIHOODS,
    AnswerLikelihoods,
    AnyLikelihood,
    LikelihoodArgument,
    answer_likelihoods,
    check_engine,
)
from botorch_pref.models.duel_pairs import duel_pairs
from botorch_pref.models.fitting import check_trainable, equal, fit
from botorch_pref.models.rater_groups import RaterProduct, at_raters, predict_group
from botorch_pref.models.training_data import TrainingSet, collect_feedback
from botorch_pref.models.utility_model import UtilityModel, check_answered
from botorch_pref.numerics.argument_checks import (
    check_finite,
    check_points,
    checked_arguments,
)
from botorch_pref.posteriors.gaussian import Moments


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
        InputDataWarning: Of datapoints in single precision, as all of BoTorch's models,
            and of features of wide ranges under the default kernel or `DuelKernel`.

    Raises:
        FeedbackError: Data that cannot mean anything.
        UnsupportedFeedbackError: Data or a likelihood that the engine does not take.
    """

    engine: Engine
    """The method of inference."""
    default_likelihoods: ClassVar[
        Mapping[type[Feedback], type[PreferenceLikelihood[Any]]]
    ] = DEFAULT_LIKELIHOODS
    """The likelihood of each kind of answer where the user names none."""
    likelihoods: AnswerLikelihoods
    mean_module: Mean
    covar_module: Kernel
    covariate_module: kernels.CovariateWeights | None
    """The prior of the weights of covariates; None where answers have none."""
    _cache: SolutionCache[Solution[PosteriorTerms]]
    _warned: tuple[object, list[Tensor], set[str]] = (None, [], set())
    """Kinds of failures that were warned of, with which data and hyper-parameters."""

    @checked_arguments
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
        """Validates data and likelihoods, and makes mean and kernel where none came.

        The order counts: default mean and kernel need the number of transformed
        features and the data's batch, and factors, which are made last so that wrong
        answers fail here, need all modules.
        """
        super().__init__()
        check_engine(self)
        self._cache = SolutionCache()
        blocks = collect_feedback(comparisons, feedback)
        self.likelihoods = answer_likelihoods(type(self), blocks, likelihood)
        if input_transform is not None:
            self.input_transform = input_transform
        self.register_module("covariate_module", None)
        features = None
        if datapoints is not None:
            data = TrainingSet(datapoints, blocks)
            if p := data.num_covariates:
                self.covariate_module = kernels.CovariateWeights(p, data.batch_shape)
            self._set_data(data)
            if datapoints.dtype == torch.float32:
                # As all of BoTorch's models do.
                text = _get_single_precision_warning(str(datapoints.dtype))
                warn_caller(text, InputDataWarning)
            self.to(datapoints)
            with torch.no_grad():
                # A transform that learns from the data does so in train mode only.
                inputs = self.transform_inputs(datapoints)
                transformed = check_answered(datapoints, inputs)
            features = transformed.shape[-1]
            if covar_module is None or isinstance(covar_module, kernels.DuelKernel):
                name = "DuelKernel" if covar_module else "the default kernel"
                kernels.warn_of_wide_ranges(transformed, name)
        elif blocks:
            raise FeedbackError("There is feedback but there are no datapoints.")
        batch = self.batch_shape
        self.mean_module = mean_module or kernels.default_mean_module(blocks, batch)
        self.covar_module = covar_module or kernels.default_covar_module(
            features, batch
        )
        if datapoints is not None:
            self.to(datapoints)
        if blocks:
            # What cannot be an answer is an error here.
            self.engine.site_rows(self.factors())

    @property
    def likelihood(self) -> AnyLikelihood:
        """The likelihood of comparisons, or of the only kind of answers there is."""
        return self.likelihoods.leading

    def likelihood_of(self, kind: type[Feedback]) -> AnyLikelihood:
        """Finds the likelihood of a kind of answers, a class of feedback.

        Raises:
            UnsupportedFeedbackError: The model has none.
        """
        return self.likelihoods.likelihood_of(kind, self.engine)

    def check_feedback(self, feedback: Sequence[Feedback]) -> None:
        """See base class: there must be a likelihood of each."""
        for block in feedback:
            self.likelihood_of(type(block))

    def factors(self) -> Factors:
        """Makes the factors of all answers, about the distinct points.

        They are kept until a parameter or a buffer of a likelihood changes; where one
        is learned they are made anew at each call, with its graph.

        Raises:
            BotorchPrefError: There are no answers.
        """
        likelihoods = self.likelihoods
        return self._cache.factors_of(
            [*likelihoods.parameters(), *likelihoods.buffers()], self._made_factors
        )

    def _state(self) -> list[Tensor]:
        """See base class; buffers of likelihoods too, as a lapse rate is one."""
        return [*super()._state(), *(t.detach() for t in self.likelihoods.buffers())]

    def _made_factors(self) -> Factors:
        return self.likelihoods.factors(
            self._answered(), self.engine, self._distinct, self.num_covariates
        )

    @property
    def num_covariates(self) -> int:
        """See base class."""
        module = self.covariate_module
        return 0 if module is None else module.num_covariates

    @property
    def _weight_prior(self) -> Tensor | None:
        """The prior covariance of the weights of covariates; None without any."""
        module = self.covariate_module
        return None if module is None else module.covariance

    def _answered(self) -> TrainingSet:
        """Returns the training data, which have answers; an error without any."""
        if self._data is None or not self.feedback:
            raise BotorchPrefError(
                "The model has no feedback, hence no evidence; pass comparisons= or "
                "feedback=, or call eval() for predictions of the prior."
            )
        return self._data

    def forward(self, *inputs: Tensor) -> MultivariateNormal:
        """Computes the prior at training inputs in train mode, else the posterior.

        Args:
            inputs: One tensor, ``batch_shape x q x d``.

        Raises:
            FeedbackError: In train mode, other points than the training inputs.
        """
        if self.training:
            check_trainable(self)
            if len(inputs) != 1 or not equal(inputs[0], self.train_inputs[0]):
                raise FeedbackError(
                    "In train mode a model takes its training inputs only; call eval() "
                    "for predictions at other points."
                )
            x = self.transform_inputs(inputs[0])
            return MultivariateNormal(self.mean_module(x), self.covar_module(x))
        (x,) = inputs
        posterior: Any = self.make_posterior(self.moments(x))
        covariance = to_linear_operator(posterior.covariance_matrix)
        return MultivariateNormal(posterior.mean.squeeze(-1), covariance)

    def prior(self) -> UtilityPrior:
        """Makes the prior of utilities at distinct points, covariates' weights behind.

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
        # A constant mean is a view of its parameter, which others change in place.
        mean = self.mean_module(points).clone()
        if mean.dim() >= covar.dim():
            covar = covar.expand(*mean.shape[:-1], *covar.shape[-2:])
        prior = UtilityPrior(points, mean, covar)
        weights = self._weight_prior
        return prior if weights is None else prior.with_weights(weights)

    @torch.no_grad()
    def evidence_value(self) -> Tensor:
        """Computes the log evidence, ``batch_shape``, without its gradient.

        The engine may stop earlier then: expectation propagation does, where what is
        left is of second order in the evidence, about its own tolerance.

        Raises:
            BotorchPrefError: There are no answers.
        """
        return self._evidence_solution(self.engine.of_evidence_value).log_evidence

    def log_evidence(self) -> Tensor:
        """Computes the log evidence of all answers under the present hyper-parameters.

        Returns:
            ``batch_shape``; its gradient in kernel, mean and likelihood parameters is
            that of the engine's own evidence, exactly.

        Raises:
            BotorchPrefError: There are no answers.
        """
        return self.evidence_solution().log_evidence

    def evidence_solution(self) -> Solution[PosteriorTerms]:
        """Solves anew for a solution whose evidence has a gradient in hyper-parameters.

        Fits call it. ``engine.of_evidence`` solves, by default EP for a skew model. The
        solution is not kept for predictions, but the next one starts from it.

        Raises:
            BotorchPrefError: There are no answers.
        """
        return self._evidence_solution(self.engine.of_evidence)

    def _evidence_solution(self, engine: Engine) -> Solution[PosteriorTerms]:
        """Solves anew by an engine from where the last solution ended."""
        solution = self._solve(self._cache.start, engine)
        _ = solution.log_evidence  # now: it may fail as it is computed
        self._warn_of(solution)
        self._cache.start = solution.warm_start()
        return solution

    def custom_fit(
        self, mll: MarginalLogLikelihood, **arguments: Any
    ) -> MarginalLogLikelihood:
        """Fits the model for ``fit_gpytorch_mll``: BoTorch's hook.

        Args:
            mll: The objective.
            arguments: Other arguments of ``fit_gpytorch_mll``.
        """
        return fit(mll, **arguments)

    def _solve(
        self, start: WarmStart | None, engine: Engine
    ) -> Solution[PosteriorTerms]:
        """Solves from a start, and once more without it where the engine failed.

        Where precision does not suffice, the error blames the prior if that is wrong.
        """
        factors, prior = self.factors(), self.prior()
        try:
            solution = engine.solve(prior, factors, start)
            check_solution(engine, solution)
            if start is not None and solution.failures:
                # Of far hyper-parameters, as line searches try, it can lead astray.
                solution = engine.solve(prior, factors)
        except PrecisionError:
            prior.check_finite()
            check_semidefinite(prior.covar.detach())
            raise
        return solution

    def _solve_for_prediction(
        self, start: WarmStart | None
    ) -> Solution[PosteriorTerms]:
        """Solves for a solution to keep, with its terms, and warns of what failed."""
        solution = self._solve(start, self.engine)
        _ = solution.terms  # now, without a graph; and it may have failed only here
        self._warn_of(solution)
        return solution

    def _warn_of(self, solution: Solution[PosteriorTerms]) -> None:
        """Warns of what failed in a solution, of each kind of failure once.

        It warns again after a change of data or hyper-parameters, since predictions of
        one state may solve often.
        """
        if not solution.failures:
            return
        state, (cache, old_state, old_kinds) = self._state(), self._warned
        if cache is not self._cache or not all(map(torch.equal, old_state, state)):
            old_kinds = set()
        # Failures of one kind differ in their numbers.
        kinds = {re.split(r"\d", text, maxsplit=1)[0] for text in solution.failures}
        if not kinds <= old_kinds:
            solution.warn(type(self).__name__)
            self._warned = self._cache, [t.clone() for t in state], old_kinds | kinds

    def solution(self) -> Solution[PosteriorTerms] | None:
        """Returns the engine's solution, solved anew if a hyper-parameter has changed.

        None without answers: the posterior is the prior then.
        """
        if not self.feedback:
            return None
        return self._cache.solution_of(
            self.modules(), self._state(), self._solve_for_prediction
        )

    @property
    def _num_batch_dims(self) -> int:
        """The number of batch dimensions of the model or of its solution, the larger.

        Hyper-parameters may have a batch that the data have not, which the solution
        shows; without a current one the model solves.
        """
        if self.training:
            self.eval()
        solution = self.solution()
        solution_dims = 0 if solution is None else solution.terms.weights.dim() - 2
        return max(solution_dims, super()._num_batch_dims)

    def posterior_terms(self) -> PosteriorTerms | None:
        """Returns the solution's part that prediction needs; None without answers.

        It has derivatives in the datapoints where these are wanted: every call can be
        differentiated once.
        """
        terms = self._all_terms()
        return terms.of_points if terms is not None and self.num_covariates else terms

    def _all_terms(self) -> PosteriorTerms | None:
        """Returns terms of points, then covariates' weights; None without answers."""
        solution = self.solution()
        if solution is None:
            return None
        if torch.is_grad_enabled() and self._is_differentiated:
            return self._cache.terms_at(self.prior())
        return solution.terms

    def diagnostics(self) -> dict[str, Any]:
        """Reports what the engine knows of its solution.

        ``converged``, ``iterations``, ``residual`` (in posterior standard deviations),
        ``log_evidence``, and more where the engine knows more.
        """
        self.eval()
        solution = self.solution()
        if solution is None:
            return {"converged": True, "iterations": 0, "residual": 0.0}
        return solution.diagnostics()

    def moments(self, X: Tensor) -> Moments:
        """See base class."""
        X = self.check_points("X", X)
        if self.training:
            # Not at every call: BoTorch's walks over all modules.
            self.eval()
        return self._predict(X)

    def group_moments(self, X: Tensor, raters: Tensor, weights: Tensor) -> Moments:
        """Computes moments of the utility of a group, a weighted sum over raters.

        Args:
            X: ``batch_shape x q x d`` stimuli.
            raters: Columns of each rater behind a stimulus, ``R x r``.
            weights: Of the raters' utilities, ``batch_shape x R``.
        """

        def weighted_sum(values: Tensor) -> Tensor:
            of_each = values.unflatten(-2, (-1, len(raters)))
            return (of_each * weights[..., None, :, None]).sum(-2)

        self.eval()
        points, kernel = self.check_points("X", at_raters(X, raters)), None
        # A transform may take stimulus and rater together.
        if not hasattr(self, "input_transform"):
            kernel = RaterProduct.of(self.covar_module, X.shape[-1])
        if kernel is None:
            return self._predict(points).combined(weighted_sum)
        terms = self.posterior_terms()
        return predict_group(self.mean_module, kernel, terms, X, raters, weights)

    def _predict(self, X: Tensor) -> Moments:
        X = self.transform_inputs(X)
        return predict(self.mean_module, self.covar_module, self.posterior_terms(), X)

    def _predict_with_weights(self, X: Tensor) -> Moments:
        """Predicts moments of utilities, and behind them of covariates' weights."""
        mean, kernel = self.mean_module, self.covar_module
        X = self.transform_inputs(X)
        return predict(mean, kernel, self._all_terms(), X, self._weight_prior)

    def option_posterior(self, X: Tensor, covariates: Tensor) -> Posterior:
        r"""Computes the posterior of options as they are shown, :math:`f(x) + c^T w`.

        Args:
            X: ``batch_shape x q x d``.
            covariates: ``batch_shape x q x p``. At zeros it is :meth:`posterior`.

        Returns:
            A posterior over ``batch_shape x q x 1``.

        Raises:
            FeedbackError: The covariates have another shape, or the model has weights
                of none.
        """
        X, p = self.check_points("X", X), self.num_covariates
        covariates = check_points("covariates", covariates, X)
        if not p or covariates.shape != (*X.shape[:-1], p):
            raise FeedbackError(
                f"covariates has shape {tuple(covariates.shape)} for points of shape "
                f"{tuple(X.shape)}, and the model has weights of {p} covariates: give "
                "one row a point, of answers such as those that the model has."
            )
        covariates = check_finite("covariates", covariates)
        if self.training:
            self.eval()
        return self.make_posterior(
            self._predict_with_weights(X).combined(
                lambda values: values[..., :-p, :] + covariates @ values[..., -p:, :]
            )
        )

    def covariate_posterior(self) -> Posterior:
        """Computes the joint posterior of the weights of covariates.

        Returns:
            A posterior over ``batch_shape x p x 1``, of the class of that of utilities.

        Raises:
            BotorchPrefError: The answers have no covariates.
        """
        weights = self._weight_prior
        if weights is None:
            raise BotorchPrefError(
                "The model has no weights of covariates; make it of answers that have "
                "some, such as Comparisons(pairs, covariates=...)."
            )
        self.eval()
        terms, mean = self._all_terms(), torch.zeros_like(weights[..., 0])
        if terms is None:
            return self.make_posterior(Moments(mean.unsqueeze(0), weights))
        # Independent of the utilities under the prior, behind which they stand.
        cross = pad(weights, (terms.points.shape[-2], 0))
        return self.make_posterior(conditioned(mean, weights, cross, terms))

    def prior_variance(self, X: Tensor) -> Tensor:
        """Computes prior variances of utilities at untransformed ``X``, ``... x q``.

        By them callers tell how much of a difference of utilities is rounding.
        """
        variance: Tensor = self.covar_module(self.transform_inputs(X), diag=True)
        return variance

    def make_posterior(self, moments: Moments) -> Posterior:
        """See base class: the engine's."""
        return self.engine.posterior(moments)

    def _go_on_from(self, before: Self, new_data: TrainingSet) -> None:
        """Starts the engine where that of the model before ended.

        This is the copy with the answers ``new_data`` too, of which nothing is solved
        yet: sites of earlier answers are those of the solution, and those of further
        ones begin as the engine says.
        """
        if before._cache.start is None:
            _ = self.factors()  # what cannot be an answer is an error here
            return
        # Rows that cannot be told apart are matched by their order, that of the blocks.
        new_data = new_data.map_tensors(torch.Tensor.detach).in_order_of(self.feedback)
        factors = before.likelihoods.factors(
            new_data, before.engine, num_covariates=self.num_covariates
        )
        further = FurtherAnswers(factors, before._sources(self, factors))
        # In train mode hyper-parameters may have changed since the solution.
        can_predict = not before.training
        points = new_data.datapoints
        predict = (
            (lambda: before._predict_with_weights(points)) if can_predict else None
        )
        self._cache = before._cache.followed_by(before.engine, further, predict)

    def _sources(self, new: Self, further: Factors) -> RowSources:
        """Finds the row of the model ``new`` for each row of this or of ``further``.

        A warm start puts the sites there. Equal rows are one in ``new``; to be compared
        with these, rows of this model and of the ``further`` answers are written about
        the points of ``new``.
        """
        all_factors = self.factors(), further, new.factors()
        rows = [self.engine.site_rows(factors) for factors in all_factors]
        # A row that shares noise is not equal to one that does not. Rows of an engine's
        # own, such as those of a bound, share none.
        before_noise, further_noise, new_noise = (
            factors.in_noise
            if factors.rows.num_rows == r.num_rows
            else r.indices.new_zeros(r.num_rows)
            for factors, r in zip(all_factors, rows, strict=True)
        )
        num_further = further.rows.num_points - self.num_covariates
        columns, further_columns, count = self._columns_in(new, num_further)
        return row_sources(
            rows[0].reindex(columns, count),
            rows[1].reindex(further_columns, count),
            rows[2],
            (before_noise, further_noise, new_noise),
        )

    def _columns_in(self, new: Self, num_further: int) -> tuple[Tensor, Tensor, int]:
        """Finds the columns of earlier and of further rows among those of ``new``.

        `_sources` compares rows that are written in these columns: the distinct points,
        and behind them the weights of covariates. Points of this model are the first of
        those of ``new``, in which any point may be equal to an earlier one.

        Returns:
            The places of this model's columns, those of ``num_further`` points and the
            weights, and how many columns ``new`` has.
        """
        points, distinct = self._answered().datapoints, new._distinct
        n, p, device = points.shape[-2], self.num_covariates, points.device
        if distinct is None:
            place, count = torch.arange(n + num_further, device=device), n + num_further
        else:
            place, count = distinct.inverse, len(distinct.first)
        weights = torch.arange(count, count + p, device=device)
        earlier = place[:n] if self._distinct is None else place[self._distinct.first]
        columns, further_columns = (
            torch.cat([point_columns, weights])
            for point_columns in (earlier, place[n:])
        )
        return columns, further_columns, count + p

    def duel_probability(
        self, X1: Tensor, X2: Tensor, observation_noise: bool = False
    ) -> Tensor:
        r"""Computes P(X1 beats X2).

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
        X1, X2 = self._check_duels(("X1", "X2"), X1, X2)
        pairs = duel_pairs(X1, X2, self)
        moments, prior = self.moments(pairs.points), self.prior_variance(pairs.points)
        means, variance = pairs.differences(moments, prior)
        if observation_noise:
            likelihood = self.likelihood_of(Comparisons)
            win = likelihood.win_probability(means, variance)
        else:
            win = ndtr(means / variance.sqrt())
        return win.mean(0).movedim(0, -1)
