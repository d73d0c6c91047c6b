"""Training data of a model by GPyTorch's and BoTorch's protocol."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any, Self, cast

import torch
from botorch.models.model import Model
from botorch.models.transforms.input import InputTransform
from botorch.utils.containers import BotorchContainer
from botorch.utils.datasets import SupervisedDataset
from torch import Tensor

from botorch_pref.errors import FeedbackError
from botorch_pref.feedback import Comparisons, Feedback
from botorch_pref.models.data.distinct_points import DistinctPoints, distinct_points
from botorch_pref.models.data.ranking_inputs import inputs_from_dataset
from botorch_pref.models.data.training_set import (
    TrainingSet,
    collect_answers,
    collect_feedback,
)


class TrainingDataMixin(Model):
    """Datapoints and answers of a model, its ``train_inputs`` and ``train_targets``."""

    _data: TrainingSet | None = None
    _distinct: DistinctPoints | None = None
    dim: int | None = None
    """``d``, the number of features; None without datapoints."""

    @abstractmethod
    def _forget(self) -> None:
        """Drops everything computed from the data."""

    def _set_data(self, data: TrainingSet) -> None:
        device = data.datapoints.device
        self._data = data.map_tensors(lambda t: t.to(device))
        self._count_points()
        self.dim = data.datapoints.shape[-1]
        self._forget()

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
            FeedbackError: Data that cannot mean anything, or of another shape under
                ``strict``.
        """
        if self._has_transformed_inputs:
            # Stored points are transformed in eval mode; those that come in are not.
            self._revert_to_original_inputs()
            self.set_train_data(datapoints, comparisons, strict, feedback=feedback)
            self._set_transformed_inputs()
            return
        old = self._data
        if datapoints is None:
            if old is None:
                raise FeedbackError("There are no datapoints yet; pass datapoints=.")
            datapoints = old.datapoints
        if strict and (old is None or datapoints.shape != old.datapoints.shape):
            raise FeedbackError(
                f"strict=True, but datapoints has shape {tuple(datapoints.shape)}."
            )
        if comparisons is None and old is not None:
            comparisons = old.comparisons
        if feedback is None:
            feedback = [b for b in self.feedback if not isinstance(b, Comparisons)]
        new = TrainingSet(datapoints, collect_feedback(comparisons, feedback))
        if strict and old is not None and new.shapes != old.shapes:
            raise FeedbackError(
                f"strict=True, but the data have the shapes {new.shapes}, and those "
                f"before them {old.shapes}."
            )
        self._set_data(new)

    def condition_on_observations(
        self, X: Tensor, Y: Tensor | Feedback | Sequence[Feedback], **kwargs: Any
    ) -> Self:
        """A copy of the model with more points and more answers about them.

        Args:
            X: ``batch_shape x n' x d``, untransformed. What is computed with the copy
                has a gradient in it.
            Y: ``batch_shape x m' x 2`` integers into ``X``, winner first; or a
                container of any kind of answer, or several, with indices into ``X``.
                Batch shapes broadcast with each other and with the model's.
            kwargs: Ignored, as BoTorch's protocol asks for.

        Returns:
            The new model, with the same hyper-parameters.

        Raises:
            FeedbackError: Data that cannot mean anything.
            UnsupportedFeedbackError: The model has no likelihood for such answers.
        """
        more = TrainingSet(X, collect_answers(Y))
        new = deepcopy(self, _frozen_parts(self))
        new._has_transformed_inputs, new._original_train_inputs = False, None
        if self.datapoints is None:
            new.to(X)
            new._set_data(more)
        else:
            given = TrainingSet(self.datapoints, self.feedback)
            new._set_data(given.followed_by(more))
        return new.train(self.training)

    @classmethod
    def construct_inputs(
        cls, training_data: SupervisedDataset
    ) -> dict[str, BotorchContainer | Tensor]:
        """Constructor arguments from a data set of answers.

        Args:
            training_data: A `FeedbackDataset`, or BoTorch's ``RankingDataset``.

        Raises:
            UnsupportedFeedbackError: Another data set, or equal ranks among three and
                more.
        """
        return inputs_from_dataset(training_data)

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
        """Every block of answers; without any the posterior is the prior."""
        return () if self._data is None else self._data.feedback

    @property
    def num_outputs(self) -> int:
        """One: the utility."""
        return 1

    @property
    def batch_shape(self) -> torch.Size:
        """The batch shape of the training data."""
        return torch.Size() if self._data is None else self._data.batch_shape

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        super()._apply(fn, recurse)
        before = self._data
        if before is not None:
            self._data = before.map_tensors(fn)
        if self._original_train_inputs is not None:
            self._original_train_inputs = fn(self._original_train_inputs)
        # BoTorch's analytic acquisition functions move the model to where it is already
        # at every call; then nothing is to be computed anew.
        if before is None or self._data is None:
            self._forget()
        elif self._data.datapoints is not before.datapoints:
            self._count_points()
            self._forget()
        return self

    def _count_points(self) -> None:
        # Copies of one point have a gradient each.
        points = None if self._is_differentiated else self.train_inputs[0]
        self._distinct = None if points is None else distinct_points(points)

    @property
    def _is_differentiated(self) -> bool:
        """Whether gradients in the datapoints are wanted."""
        return self.datapoints is not None and self.datapoints.requires_grad

    def _points(self) -> Tensor:
        """The distinct training inputs, transformed, with the graph of the given."""
        given = cast("Tensor", self.datapoints)
        if not self._has_transformed_inputs:
            # All of them: a transform that learns from the data counts duplicates.
            points = self.transform_inputs(given)
        else:
            # Not the stored ones, which BoTorch transforms without a graph, and before
            # the parameters of the transform are set or loaded.
            transform = cast("InputTransform", self.input_transform)
            points = transform.preprocess_transform(given)
        return points if self._distinct is None else points[self._distinct.first]

    def _set_transformed_inputs(self) -> None:
        # BoTorch's own asks for inputs, which a model of the prior alone has not.
        if self._data is not None:
            super()._set_transformed_inputs()
            if self._is_differentiated:
                self._distinct = None

    def _revert_to_original_inputs(self) -> None:
        if self._has_transformed_inputs:
            self._has_transformed_inputs = False
            self.set_train_data(self._original_train_inputs)


def _frozen_parts(model: Model) -> dict[int, Any]:
    """All but modules and their tables, as a memo with which ``deepcopy`` shares it.

    Nothing changes data and results in place, and no copy of a graph can be made.
    """
    return {
        id(part): part
        for part in vars(model).values()
        if not isinstance(part, dict | set)
    }
