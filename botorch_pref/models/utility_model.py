"""The base of every model of utilities: its data and what it predicts of them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any, Self, TypeVar, cast

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.exceptions.errors import UnsupportedError
from botorch.models.model import FantasizeMixin, Model
from botorch.models.transforms.input import ChainedInputTransform, InputTransform
from botorch.models.utils.assorted import fantasize as fantasize_flag
from botorch.posteriors.posterior import Posterior
from botorch.sampling.base import MCSampler
from botorch.utils.containers import BotorchContainer
from botorch.utils.datasets import SupervisedDataset
from torch import Tensor
from torch.nn import Module

from botorch_pref.errors import FeedbackError, UnsupportedFeedbackError
from botorch_pref.feedback import Comparisons, Feedback
from botorch_pref.inference.engine import SolutionCache
from botorch_pref.linalg.covariance import join_rows
from botorch_pref.models.duel_pairs import fantasy_duels
from botorch_pref.models.training_data import (
    DistinctPoints,
    TrainingSet,
    collect_answers,
    collect_feedback,
    inputs_from_dataset,
    replaced_data,
)
from botorch_pref.numerics.argument_checks import (
    check_finite,
    check_point_pairs,
    check_points,
)
from botorch_pref.posteriors import Moments, contrast
from botorch_pref.posteriors.gaussian import (
    check_output_indices,
    transformed_posterior,
    with_observation_noise,
)

ModelT = TypeVar("ModelT", bound=Model)


def check_one_to_one(model: ModelT) -> ModelT:
    """Returns the model after checking that it predicts one utility of each point.

    Duels and choices need that, which are about the points as they come.

    Raises:
        UnsupportedError: Its input transform makes several points of each.
    """
    transform = getattr(model, "input_transform", None)
    several = None if transform is None else _makes_several(transform)
    if several is not None:
        raise UnsupportedError(
            f"The {type(several).__name__} of this {type(model).__name__} makes "
            "several points of each, which has no utility of its own then: take "
            "posterior(X), which is of all of them, with an acquisition function and a "
            "risk measure of BoTorch's, or a model without that transform."
        )
    return model


def _makes_several(transform: InputTransform) -> InputTransform | None:
    """Finds the part of a transform that makes several points of each, if any does."""
    if isinstance(transform, ChainedInputTransform):
        parts = (_makes_several(cast("InputTransform", t)) for t in transform.values())
        return next(filter(None, parts), None)
    perturbations = getattr(transform, "feature_set", None)
    perturbations = getattr(transform, "perturbation_set", perturbations)
    is_one = isinstance(perturbations, Tensor) and len(perturbations) == 1
    # What transforms training inputs too makes one point of each, or `check_answered`
    # would have refused the model: most such transforms append features.
    is_one |= transform.transform_on_train
    several = transform.is_one_to_many and transform.transform_on_eval
    return transform if several and not is_one else None


def check_answered(points: Tensor, transformed: Tensor) -> Tensor:
    """Returns transformed datapoints, which must be as many as answers are about.

    Raises:
        UnsupportedError: They are several of each.
    """
    if transformed.shape[-2] != points.shape[-2]:
        raise UnsupportedError(
            f"input_transform makes {transformed.shape[-2]} points of the "
            f"{points.shape[-2]} that answers are about; pass it "
            "transform_on_train=False."
        )
    return transformed


class UtilityModel(Model, FantasizeMixin):
    """A model of utilities behind BoTorch's and GPyTorch's protocols.

    It holds datapoints, answers and the last solution. Subclasses say what answers they
    take and what the moments of utilities are.
    """

    dim: int | None = None
    """``d``, the number of features; None without datapoints."""
    _data: TrainingSet | None = None
    _conditioning_data: tuple[Tensor, Tensor] | None = None
    """Points and comparisons that a model without data was conditioned on."""
    _cache: SolutionCache[Any]

    @abstractmethod
    def check_feedback(self, feedback: Sequence[Feedback]) -> None:
        """Checks that the model takes some answers.

        Args:
            feedback: Blocks of answers.

        Raises:
            UnsupportedFeedbackError: The model does not take one of them.
        """

    @abstractmethod
    def moments(self, X: Tensor) -> Moments:
        """Computes moments of utilities at untransformed ``X``, ``... x q x d``."""

    @abstractmethod
    def make_posterior(self, moments: Moments) -> Posterior:
        """Makes a posterior of moments of utilities or their linear combinations."""

    def posterior(  # type: ignore[override]
        self,
        X: Tensor,
        output_indices: list[int] | None = None,
        observation_noise: bool | Tensor = False,
        posterior_transform: PosteriorTransform | None = None,
    ) -> Posterior:
        """Computes the joint posterior of utilities.

        Args:
            X: ``batch_shape x q x d``; leading dimensions broadcast against
                the model's.
            output_indices: None or ``[0]``.
            observation_noise: Whether to add the noise that each item has in an answer,
                by the likelihood; or variances to add, ``batch_shape x q x 1``.
            posterior_transform: Applied to the posterior. Scaling by a
                ``ScalarizedPosteriorTransform`` gives a posterior of the same kind.

        Returns:
            A posterior over ``batch_shape x q x 1``.

        Raises:
            FeedbackError: The noise is no variance.
        """
        check_output_indices(output_indices)
        moments = self.moments(X)
        if observation_noise is not False:
            likelihood = cast("Any", self).likelihood
            moments = with_observation_noise(moments, observation_noise, likelihood)
        return transformed_posterior(
            self.make_posterior, moments, posterior_transform, X
        )

    def check_points(self, name: str, X: Tensor) -> Tensor:
        """Checks the points of a prediction.

        Args:
            name: Of the argument.
            X: Its value.

        Returns:
            The points, in the precision of the model.

        Raises:
            FeedbackError: It is no tensor of such points, or one is not finite.
        """
        return check_finite(
            name, check_points(name, X, self.datapoints, self._num_features)
        )

    def _check_duels(
        self, names: tuple[str, str], X1: Tensor, X2: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Returns the two sides of duels, checked as :meth:`check_points` does.

        The ``names`` of the two arguments are for error messages.
        """
        check_one_to_one(self)
        return check_point_pairs(names, X1, X2, self.datapoints, self._num_features)

    @property
    def _num_features(self) -> int | None:
        """``d`` of points to predict at; None where an input transform may add some."""
        return None if hasattr(self, "input_transform") else self.dim

    def duel_posterior(self, X: Tensor, X_ref: Tensor) -> Posterior:
        """Computes the joint posterior of differences ``f(X) - f(X_ref)``.

        Args:
            X: ``batch_shape x q x d``.
            X_ref: ``batch_shape x 1 x d``, one reference for all, or
                ``batch_shape x q x d``, one each.

        Returns:
            A posterior over ``batch_shape x q x 1``.
        """
        X, X_ref = self._check_duels(("X", "X_ref"), X, X_ref)
        points = join_rows([X, X_ref], along=-2)
        return self.make_posterior(contrast(self.moments(points), X.shape[-2]))

    def subset_output(self, idcs: list[int]) -> Self:
        """Copies the model: it has one output, and ``idcs`` is ``[0]``."""
        if list(idcs) != [0]:
            raise UnsupportedError(f"idcs={idcs}, but there is one output.")
        return deepcopy(self)

    def fantasize(
        self,
        X: Tensor,
        sampler: MCSampler,
        observation_noise: Tensor | None = None,
        **kwargs: Any,
    ) -> Self:
        """Conditions the model on answers to the duels of some points.

        Utilities are drawn with the noise of the answers, and of each pair the larger
        one wins; neither ties nor lapses are drawn. The answers are no differentiable
        function of ``X``; the posterior given them is.

        Args:
            X: ``batch_shape x q x d``, at least two points.
            sampler: Of utilities, as :class:`SobolQMCNormalSampler`; or of pairs,
                winner first, as
                :class:`~botorch_pref.posteriors.gaussian.DuelSampler`. BoTorch's
                pairwise samplers, whose pairs have the loser first, are asked for
                utilities.
            observation_noise: Variances of the noise of the answers instead of the
                likelihood's, ``batch_shape x q x 1``.
            kwargs: For ``condition_on_observations``.

        Returns:
            The new model, of batch shape ``sample_shape x batch_shape``.

        Raises:
            FeedbackError: Fewer than two points, or no points of the model.
        """
        X = self.check_points("X", X)
        if X.shape[-2] < 2:
            raise FeedbackError(
                f"X has shape {tuple(X.shape)}: a fantasy is the answer to a duel, of "
                "an X with q=2 points or more. Acquisition functions that imagine the "
                "value of each point by itself, as qMaxValueEntropy does of pending "
                "points and of all but the last of q, do not suit duels; take one of "
                "botorch_pref.acquisition."
            )
        noise: Any = True if observation_noise is None else observation_noise
        with fantasize_flag():
            posterior = self.posterior(X, observation_noise=noise)
        duels = fantasy_duels(sampler, posterior)
        return self.condition_on_observations(X, duels, **kwargs)

    @property
    def num_covariates(self) -> int:
        """``p``, the number of covariates of answers that have weights in the model."""
        return 0

    def _set_data(self, data: TrainingSet) -> None:
        """Replaces the data by validated ones, or refuses answers of unsuitable kinds.

        Answers move to the device of the datapoints, and the solution is forgotten.
        """
        self.check_feedback(data.feedback)
        if data.num_covariates not in (0, self.num_covariates):
            raise UnsupportedFeedbackError(
                f"The answers have {data.num_covariates} covariates, and this "
                f"{type(self).__name__} has weights for {self.num_covariates}; make an "
                "EPPreferenceGP, LaplacePreferenceGP or SkewPreferenceGP of answers "
                "that have them."
            )
        device = data.datapoints.device
        self._data = data.map_tensors(lambda t: t.to(device))
        self._conditioning_data = None
        self.dim = data.datapoints.shape[-1]
        self._cache = SolutionCache()

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
            datapoints: ``batch_shape x n x d``, untransformed; None keeps the present
                ones.
            comparisons: ``batch_shape x m x 2``; None keeps the present ones.
            strict: Whether shapes must stay as they are.
            feedback: All other answers; None keeps the present ones.

        Raises:
            FeedbackError: Data that cannot mean anything, points in a higher precision
                than the model's, or another shape under ``strict``.
        """
        if self._has_transformed_inputs:
            # Stored points are transformed in eval mode; those that come in are not.
            self._revert_to_original_inputs()
            self.set_train_data(datapoints, comparisons, strict, feedback=feedback)
            self._set_transformed_inputs()
            return
        new = replaced_data(self._data, datapoints, comparisons, feedback, strict)
        if self._data is None:
            self.to(new.datapoints)
        self._set_data(new)

    def condition_on_observations(
        self, X: Tensor, Y: Tensor | Feedback | Sequence[Feedback], **kwargs: Any
    ) -> Self:
        """Copies the model with more points and more answers about them.

        Args:
            X: ``batch_shape x n' x d``, untransformed. What is computed with the copy
                has a gradient in it. The copy of a model without data returns the
                tensors X and Y themselves as its ``datapoints`` and ``comparisons``,
                as `PairwiseGP` does; do not change them in place afterwards.
            Y: ``batch_shape x m' x 2`` integers into ``X``, winner first; or a
                container of any kind of answer, or several, with indices into ``X``.
                Batch shapes broadcast with each other and with the model's.
            kwargs: Ignored, as BoTorch's protocol asks for.

        Returns:
            The new model, with the same hyper-parameters.

        Raises:
            FeedbackError: Data that cannot mean anything, or points in a higher
                precision than the model's.
            UnsupportedFeedbackError: The model has no likelihood for such answers.
        """
        new_data = TrainingSet(X, collect_answers(Y))
        if self.datapoints is None:
            new = self._copy_with(new_data)
            if isinstance(Y, Tensor) and Y.dtype == torch.long and Y.device == X.device:
                new._conditioning_data = X, Y
        else:
            old_data = TrainingSet(self.datapoints, self.feedback)
            new = self._copy_with(old_data.followed_by(new_data))
        with fantasize_flag():  # new points are transformed as those before them
            new._go_on_from(self, new_data)
        return new

    def _copy_with(self, data: TrainingSet) -> Self:
        """Copies the model with other data, and copies of modules and parameters.

        The copy is in the same mode and has no solution yet. Data, engine and all else
        is shared, for nobody changes these in place.
        """
        # Modules, parameters and buffers are in dicts of PyTorch: these are copied.
        shared = {
            id(part): part
            for part in vars(self).values()
            if not isinstance(part, dict | set)
        }
        new = deepcopy(self, shared)
        # The data come untransformed.
        new._has_transformed_inputs, new._original_train_inputs = False, None
        if self.datapoints is None:
            new.to(data.datapoints)
        new._set_data(data)
        return new.train(self.training)

    def _go_on_from(self, before: Self, new_data: TrainingSet) -> None:
        """Starts this copy where the model ``before`` it ended; by default, anew.

        ``new_data`` are what the copy has more than it.
        """

    def with_feedback(self, feedback: Sequence[Feedback]) -> Self:
        """Copies the model with other answers about the same points.

        Held-out scores need that, of copies without some of the answers.

        Args:
            feedback: All of them, with indices into ``datapoints``.

        Returns:
            The new model, with the same hyper-parameters.

        Raises:
            FeedbackError: The model has no points, or the answers cannot mean anything.
            UnsupportedFeedbackError: The model has no likelihood for such answers.
        """
        if self.datapoints is None:
            raise FeedbackError("The model has no points that answers could be about.")
        answers = collect_feedback(None, feedback)
        return self._copy_with(TrainingSet(self.datapoints, answers))

    @classmethod
    def construct_inputs(
        cls, training_data: SupervisedDataset
    ) -> dict[str, BotorchContainer | Tensor]:
        """Makes constructor arguments of a `FeedbackDataset` or a ``RankingDataset``.

        Raises:
            UnsupportedFeedbackError: Another data set, or equal ranks in a batch.
        """
        return inputs_from_dataset(training_data)

    @property
    def train_inputs(self) -> tuple[Tensor, ...]:
        """The datapoints in a tuple, transformed in eval mode (GPyTorch's contract)."""
        return () if self._data is None else (self._data.datapoints,)

    @property
    def train_targets(self) -> Tensor | None:
        """The comparisons, ``batch_shape x m x 2``, where there are any."""
        if self._conditioning_data is not None:
            return self._conditioning_data[1]
        block = None if self._data is None else self._data.comparisons
        return None if block is None else block.pairs

    @property
    def datapoints(self) -> Tensor | None:
        """``batch_shape x n x d``, as they were given."""
        if self._has_transformed_inputs:
            return self._original_train_inputs
        if self._conditioning_data is not None:
            return self._conditioning_data[0]
        return None if self._data is None else self._data.datapoints

    @property
    def comparisons(self) -> Tensor | None:
        """``batch_shape x m x 2``, winner first, where there are any."""
        return self.train_targets

    @property
    def unconsolidated_comparisons(self) -> Tensor:
        """Refused: the objective that wants them is for `PairwiseGP` alone."""
        raise UnsupportedFeedbackError(
            "PairwiseLaplaceMarginalLogLikelihood is of PairwiseGP; "
            f"fit {type(self).__name__} with PreferenceMarginalLogLikelihood."
        )

    @property
    def feedback(self) -> tuple[Feedback, ...]:
        """Every block of answers; without any the posterior is the prior."""
        return () if self._data is None else self._data.feedback

    @property
    def num_data(self) -> int:
        """The number of datapoints or of answers, whichever is smaller.

        Losses are divided by it: the curvature of an evidence grows with the smaller of
        the two.
        """
        num_answers = sum(block.num_rows for block in self.feedback)
        return min(num_answers, self.train_inputs[0].shape[-2])

    @property
    def num_outputs(self) -> int:
        """One, the utility."""
        return 1

    @property
    def batch_shape(self) -> torch.Size:
        """The batch shape of the training data."""
        return torch.Size() if self._data is None else self._data.batch_shape

    @property
    def _num_batch_dims(self) -> int:
        """The number of batch dimensions of predictions at points without any."""
        return len(self.batch_shape)

    def __setattr__(self, name: str, value: Any) -> None:
        """Sets an attribute; another engine or module forgets the solution."""
        super().__setattr__(name, value)
        if name == "engine" or isinstance(value, Module):
            # Another engine has another solution, and other sites to start from. Other
            # modules may have equal parameters.
            self._cache = SolutionCache()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Applies a conversion, as ``to`` and ``double`` do, to the data too."""
        super()._apply(fn, recurse)
        before = self._data
        if before is not None:
            self._data = before.map_tensors(fn)
        if self._original_train_inputs is not None:
            self._original_train_inputs = fn(self._original_train_inputs)
        # BoTorch's analytic acquisition functions move the model to where it is already
        # at every call; then nothing is to be computed anew.
        after = self._data
        if before is None or after is None or after.datapoints is not before.datapoints:
            self._cache, self._conditioning_data = SolutionCache(), None
        return self

    @property
    def _distinct(self) -> DistinctPoints | None:
        """The distinct datapoints; None where all are, or each copy has a gradient."""
        if self._data is None or self._is_differentiated:
            return None
        return self._data.distinct

    @property
    def _is_differentiated(self) -> bool:
        """Whether gradients in the datapoints are wanted."""
        return self.datapoints is not None and self.datapoints.requires_grad

    def _state(self) -> list[Tensor]:
        """Lists what a solution depends on beside data: it is kept until this changes.

        They are hyper-parameters and what the input transform has learned, detached.
        """
        transform = getattr(self, "input_transform", None)
        learned = () if transform is None else transform.buffers()
        return [t.detach() for t in (*self.parameters(), *learned)]

    def transformed_points(self) -> Tensor:
        """Returns the distinct training inputs, transformed, with the user's graph.

        These are the points of the prior and of the factors, ``batch_shape x n x d``.
        """
        # All of them: a transform that learns from the data counts duplicates.
        points = self._transformed_datapoints()
        return points if self._distinct is None else points[self._distinct.first]

    def _transformed_datapoints(self) -> Tensor:
        """Returns all training inputs, transformed, with the user's graph.

        In train mode a transform that learns from data does so here.
        """
        datapoints = cast("Tensor", self.datapoints)
        if not self._has_transformed_inputs:
            return self.transform_inputs(datapoints)
        # Not the stored ones, which BoTorch transforms without a graph, and before
        # the parameters of the transform are set or loaded.
        return cast("InputTransform", self.input_transform).preprocess_transform(
            datapoints
        )

    def _set_transformed_inputs(self) -> None:
        # BoTorch's own asks for inputs, which a model of the prior alone has not.
        if self._data is not None:
            super()._set_transformed_inputs()

    def _revert_to_original_inputs(self) -> None:
        if self._has_transformed_inputs:
            self._has_transformed_inputs = False
            self.set_train_data(self._original_train_inputs)
