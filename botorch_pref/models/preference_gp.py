"""The Gaussian process of utilities behind every engine."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any, NamedTuple, Self

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.exceptions.errors import UnsupportedError
from botorch.models.model import FantasizeMixin, Model
from botorch.models.transforms.input import InputTransform
from botorch.posteriors import Posterior
from botorch.utils.datasets import RankingDataset, SupervisedDataset
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import Kernel
from gpytorch.means import Mean
from gpytorch.models import GP
from torch import Tensor
from torch.nn import ModuleDict

from botorch_pref.errors import (
    BotorchPrefError,
    FeedbackError,
    InferenceWarning,
    UnsupportedFeedbackError,
)
from botorch_pref.feedback import Comparisons, Feedback
from botorch_pref.inference.gaussian_result import GaussianResult
from botorch_pref.likelihoods.factors import Factors
from botorch_pref.likelihoods.joint_factors import joint_factors
from botorch_pref.likelihoods.preference_likelihood import PreferenceLikelihood
from botorch_pref.likelihoods.resolve import LikelihoodArgument, resolve_likelihoods
from botorch_pref.models.default_prior import default_covar_module, default_mean_module
from botorch_pref.models.distinct_points import DistinctPoints, distinct_points
from botorch_pref.models.prediction import Moments, PosteriorTerms, contrast, predict
from botorch_pref.models.training_set import TrainingSet, collect_feedback


class PreferenceGP(Model, GP, FantasizeMixin):  # type: ignore[misc]
    r"""Utilities ``f ~ GP(m, k)`` seen through what people say of them.

    Subclasses name an engine. Everything else, from validation to prediction, is here
    and the same for all: see section 2 of the design notes in ``docs/``.

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

    Raises:
        FeedbackError: Data that cannot mean anything.
        UnsupportedFeedbackError: Data or a likelihood that the engine does not take.
    """

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
        blocks = collect_feedback(comparisons, feedback)
        if datapoints is None and blocks:
            raise FeedbackError("There is feedback but there are no datapoints.")
        chosen = resolve_likelihoods(blocks, likelihood)
        self.likelihoods = ModuleDict({k.__name__: v for k, v in chosen.items()})
        self._data: TrainingSet | None = None
        self._distinct: DistinctPoints | None = None
        self._terms: PosteriorTerms | None = None
        self._fingerprint: list[Tensor] = []
        self._result: GaussianResult | None = None
        self._sites: tuple[Tensor, Tensor] | None = None
        if datapoints is not None:
            self._set_data(TrainingSet(datapoints, blocks))
        batch, dim = self.batch_shape, getattr(self, "dim", None)
        self.mean_module = mean_module or default_mean_module(blocks, batch)
        self.covar_module = covar_module or default_covar_module(dim, batch)
        if input_transform is not None:
            self.input_transform = input_transform
        if datapoints is not None:
            self.to(datapoints)
            self._factors()

    # Data

    def _set_data(self, data: TrainingSet) -> None:
        like = data.datapoints
        self._data = data.map_tensors(lambda t: t.to(like.device))
        self._distinct = distinct_points(like)
        self.dim = like.shape[-1]
        self._forget()

    def _forget(self) -> None:
        self._terms = self._result = self._sites = None

    def set_train_data(
        self,
        datapoints: Tensor | None = None,
        comparisons: Tensor | Comparisons | None = None,
        strict: bool = False,
        *,
        feedback: Sequence[Feedback] | None = None,
    ) -> None:
        """Replaces training data; hyper-parameters stay.

        Args:
            datapoints: ``batch_shape x n x d``; None keeps the present ones.
            comparisons: ``batch_shape x m x 2``; None keeps the present ones.
            strict: Whether shapes must stay as they are.
            feedback: All other answers; None keeps the present ones.

        Raises:
            FeedbackError: Data that cannot mean anything, or of another shape under
                ``strict``.
        """
        old = self._data
        if datapoints is None:
            if old is None:
                raise FeedbackError("There are no datapoints yet; pass datapoints=.")
            datapoints = old.datapoints
        if strict and (old is None or datapoints.shape != old.datapoints.shape):
            raise FeedbackError(
                f"strict=True, but datapoints has shape {tuple(datapoints.shape)}."
            )
        blocks = old.feedback if old is not None else ()
        if comparisons is None:
            comparisons = old.comparisons if old is not None else None
        if feedback is None:
            feedback = [b for b in blocks if not isinstance(b, Comparisons)]
        self._set_data(TrainingSet(datapoints, collect_feedback(comparisons, feedback)))

    @property
    def train_inputs(self) -> tuple[Tensor, ...]:
        """The datapoints in a tuple, transformed in eval mode (GPyTorch's contract)."""
        return () if self._data is None else (self._data.datapoints,)

    @property
    def train_targets(self) -> Tensor | None:
        """The comparisons, ``batch_shape x m x 2``, where there are any."""
        block = None if self._data is None else self._data.comparisons
        return None if block is None else block.pairs

    @property
    def datapoints(self) -> Tensor | None:
        """``batch_shape x n x d``, as they were given."""
        if self._has_transformed_inputs:
            return self._original_train_inputs
        return None if self._data is None else self._data.datapoints

    @property
    def comparisons(self) -> Tensor | None:
        """``batch_shape x m x 2``, winner first, where there are any."""
        return self.train_targets

    @property
    def feedback(self) -> tuple[Feedback, ...]:
        """Every block of answers."""
        return () if self._data is None else self._data.feedback

    @property
    def likelihood(self) -> PreferenceLikelihood:
        """The likelihood of comparisons, or of the only kind of answers there is."""
        first = next(iter(self.likelihoods))
        name = Comparisons.__name__
        return self.likelihoods[name if name in self.likelihoods else first]

    @property
    def num_outputs(self) -> int:
        """One: the utility."""
        return 1

    @property
    def batch_shape(self) -> torch.Size:
        """The batch shape of the training data."""
        return torch.Size() if self._data is None else self._data.batch_shape

    @property
    def has_feedback(self) -> bool:
        """Whether anything was said; the posterior is the prior where not."""
        return bool(self.feedback)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        super()._apply(fn, recurse)
        if self._data is not None:
            self._data = self._data.map_tensors(fn)
            self._distinct = distinct_points(self._data.datapoints)
        self._forget()
        return self

    # Inference

    @abstractmethod
    def _infer(self, covar: Tensor, mean: Tensor, factors: Factors) -> GaussianResult:
        """Runs the engine; ``_sites`` holds where it may start."""

    @abstractmethod
    def _check_factors(self, factors: Factors) -> None:
        """Raises `UnsupportedFeedbackError` for what the engine does not take."""

    def _factors(self) -> Factors | None:
        if self._data is None or not self.has_feedback:
            return None
        n = self._data.datapoints.shape[-2]
        missing = [type(b).__name__ for b in self.feedback]
        missing = [name for name in missing if name not in self.likelihoods]
        if missing:
            raise UnsupportedFeedbackError(
                f"The model has no likelihood for {missing[0]}; build a new model."
            )
        factors = joint_factors(
            [self.likelihoods[type(b).__name__].factors(b, n) for b in self.feedback]
        )
        if self._distinct is not None:
            first, inverse = self._distinct
            factors.rows = factors.rows.reindex(inverse, len(first))
        self._check_factors(factors)
        return factors

    def _points(self) -> Tensor:
        """The distinct training inputs, transformed."""
        (points,) = self.train_inputs
        if self._distinct is not None:
            points = points[self._distinct.first]
        return points if self._has_transformed_inputs else self.transform_inputs(points)

    def _solve(self) -> GaussianResult:
        factors = self._factors()
        if factors is None:
            raise BotorchPrefError(
                "The model has no feedback, hence no evidence; pass comparisons= or "
                "feedback=, or call eval() for predictions of the prior."
            )
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
        if self._result is None:
            return {"converged": True, "iterations": 0, "residual": 0.0}
        return {
            "converged": self._result.converged,
            "iterations": self._result.iterations,
            "residual": self._result.residual,
            "log_evidence": self._result.log_evidence.detach(),
        }

    def _posterior_terms(self) -> PosteriorTerms | None:
        """Cached; computed anew when a hyper-parameter has changed."""
        if not self.has_feedback:
            return None
        parameters = [p.detach() for p in self.parameters()]
        stale = len(parameters) != len(self._fingerprint) or any(
            not torch.equal(a, b)
            for a, b in zip(parameters, self._fingerprint, strict=True)
        )
        if self._terms is None or stale:
            with torch.no_grad():
                self._result = self._solve()
                self._terms = self._terms_of(self._result)
            self._fingerprint = [p.clone() for p in parameters]
        return self._terms

    def _terms_of(self, result: GaussianResult) -> PosteriorTerms:
        weights = result.weights.unsqueeze(-1)
        return PosteriorTerms(self._points(), weights, result.factor.root())

    # Prediction

    def forward(self, x: Tensor) -> MultivariateNormal:
        """The prior at the training inputs in train mode, else the posterior.

        Args:
            x: ``batch_shape x q x d``; the training inputs in train mode.
        """
        if self.training:
            return self._prior(self.transform_inputs(x))
        moments = self._moments(x)
        return MultivariateNormal(moments.means[0], moments.covariance)

    def _moments(self, X: Tensor) -> Moments:
        self.eval()
        X = self.transform_inputs(X)
        return predict(
            self.mean_module, self.covar_module, self._posterior_terms(), X
        )

    @abstractmethod
    def _make_posterior(self, moments: Moments) -> Posterior:
        """The engine's posterior class of some moments."""

    def posterior(
        self,
        X: Tensor,
        output_indices: list[int] | None = None,
        observation_noise: bool | Tensor = False,
        posterior_transform: PosteriorTransform | None = None,
    ) -> Posterior:
        """The joint posterior of utilities.

        Args:
            X: ``batch_shape x q x d``; leading dimensions broadcast against the model's.
            output_indices: None or ``[0]``.
            observation_noise: Whether to add the noise with which the likelihood hears
                each presented item.
            posterior_transform: Applied to the posterior.

        Returns:
            A posterior over ``batch_shape x q x 1``.
        """
        if output_indices not in (None, [0]):
            raise UnsupportedError(
                f"output_indices={output_indices}, but there is one output, the utility."
            )
        moments = self._moments(X)
        if observation_noise is not False:
            variance = (
                self.likelihood.observation_variance
                if observation_noise is True
                else observation_noise.squeeze(-1)
            )
            eye = torch.eye(X.shape[-2], dtype=X.dtype, device=X.device)
            noisy = moments.covariance + variance[..., None, None] * eye
            moments = Moments(moments.means, noisy)
        posterior = self._make_posterior(moments)
        if posterior_transform is not None:
            return posterior_transform(posterior=posterior, X=X)
        return posterior

    def duel_posterior(self, X: Tensor, X_ref: Tensor) -> Posterior:
        """The joint posterior of differences ``f(X) - f(X_ref)``.

        Args:
            X: ``batch_shape x q x d``.
            X_ref: ``batch_shape x 1 x d``, one reference for all, or
                ``batch_shape x q x d``, one each.

        Returns:
            A posterior over ``batch_shape x q x 1``.
        """
        batch = torch.broadcast_shapes(X.shape[:-2], X_ref.shape[:-2])
        both = torch.cat(
            [X.expand(*batch, -1, -1), X_ref.expand(*batch, -1, -1)], dim=-2
        )
        return self._make_posterior(contrast(self._moments(both), X.shape[-2]))

    def duel_probability(
        self, X1: Tensor, X2: Tensor, observation_noise: bool = False
    ) -> Tensor:
        r"""P(X1 beats X2).

        Args:
            X1: ``batch_shape x q x d``.
            X2: ``batch_shape x q x d`` or ``batch_shape x 1 x d``.
            observation_noise: Whether of an answer as the likelihood gives it (with the
                tie threshold, if there is one), or of the utilities themselves.

        Returns:
            ``batch_shape x q``.
        """
        batch = torch.broadcast_shapes(X1.shape[:-2], X2.shape[:-2])
        both = torch.cat(
            [X1.expand(*batch, -1, -1), X2.expand(*batch, -1, -1)], dim=-2
        )
        moments = contrast(self._moments(both), X1.shape[-2])
        variance = moments.covariance.diagonal(dim1=-2, dim2=-1)
        if observation_noise:
            win = self.likelihood.win_probability(moments.means, variance)
        else:
            win = torch.special.ndtr(moments.means / variance.sqrt())
        return win.mean(0)

    # BoTorch's protocol

    def subset_output(self, idcs: list[int]) -> Self:
        """The model itself: it has one output.

        Args:
            idcs: ``[0]``.
        """
        if list(idcs) != [0]:
            raise UnsupportedError(f"idcs={idcs}, but there is one output.")
        return deepcopy(self)

    def condition_on_observations(self, X: Tensor, Y: Tensor, **kwargs: Any) -> Self:
        """A copy of the model with more points and more comparisons of them.

        Args:
            X: ``batch_shape x n' x d``, untransformed.
            Y: ``batch_shape x m' x 2`` integers into ``X``, winner first.
            kwargs: Ignored, as BoTorch's protocol asks for.

        Returns:
            The new model, with the same hyper-parameters.
        """
        new = deepcopy(self)
        new.train()
        offset = 0 if new._data is None else new._data.datapoints.shape[-2]
        pairs = Comparisons(Y).pairs + offset
        batch = torch.broadcast_shapes(X.shape[:-2], pairs.shape[:-2], self.batch_shape)
        points, answers = [X], [pairs]
        if new._data is not None:
            points.insert(0, new._data.datapoints)
        if new.train_targets is not None:
            answers.insert(0, new.train_targets)
        old = None if new._data is None else new._data.comparisons
        comparisons = Comparisons(
            torch.cat([a.expand(*batch, *a.shape[-2:]) for a in answers], dim=-2),
            None if old is None else old.ties,
        )
        joined = torch.cat([p.expand(*batch, *p.shape[-2:]) for p in points], dim=-2)
        new.set_train_data(joined, comparisons)
        return new.train(self.training)

    @classmethod
    def construct_inputs(cls, training_data: SupervisedDataset) -> dict[str, Tensor]:
        """Constructor arguments from BoTorch's data set of comparisons.

        Args:
            training_data: A ``RankingDataset`` of pairs.

        Raises:
            UnsupportedFeedbackError: Another data set, or rankings of three and more.
        """
        if not isinstance(training_data, RankingDataset):
            raise UnsupportedFeedbackError(
                f"{cls.__name__} needs a RankingDataset, got "
                f"{type(training_data).__name__}."
            )
        order = training_data.Y
        if order.shape[-1] != 2:
            raise UnsupportedFeedbackError(
                f"The RankingDataset ranks {order.shape[-1]} items at a time; "
                f"{cls.__name__}.construct_inputs takes pairs."
            )
        indices = training_data._X.indices
        return {
            "datapoints": training_data._X.values,
            "comparisons": torch.gather(indices, dim=-1, index=order),
        }
