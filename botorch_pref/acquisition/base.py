"""Base classes of dueling acquisition functions: means over the duels that count."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.exceptions.errors import UnsupportedError
from botorch.models.model import Model
from botorch.posteriors.posterior import Posterior
from botorch.utils.transforms import (
    average_over_ensemble_models,
    t_batch_mode_transform,
)
from torch import Tensor

from botorch_pref.errors import FeedbackError, UnsupportedFeedbackError
from botorch_pref.likelihoods.links import DuelLink, ProbitLink
from botorch_pref.models.answers import model_link
from botorch_pref.models.predictions import awaiting_answers
from botorch_pref.numerics.argument_ranges import checked_arguments
from botorch_pref.posteriors.difference import difference_mixture
from botorch_pref.posteriors.gaussian import check_finite, check_points

FunctionT = TypeVar("FunctionT", bound=Any)


def takes_points(forward: Callable[[FunctionT, Tensor], Tensor]) -> Any:
    """An acquisition function's ``forward`` that checks its argument ``X``.

    Shapes and dtypes alone, against those of the reference where there is one: a model
    reads the entries of ``X``, once for every prediction.

    Args:
        forward: Takes ``batch_shape x q x d``.
    """

    @wraps(forward)
    def checked(self: FunctionT, X: Tensor) -> Tensor:
        reference = getattr(self, "X_ref", None)
        dim = None if reference is None else reference.shape[-1]
        X = check_points("X", X, reference, dim)
        if X.shape[-2] == 0:
            raise FeedbackError(
                f"X has shape {tuple(X.shape)}: no points; give batch_shape x q x d "
                "with q of at least 1."
            )
        return forward(self, X)

    return checked


def reference_point(X_ref: Tensor, model: Model) -> Tensor:
    """A detached copy of the reference point with its ``q`` dimension.

    Args:
        X_ref: ``d`` or ``batch_shape x 1 x d``.
        model: The model whose points it is one of.

    Returns:
        ``batch_shape x 1 x d``.

    Raises:
        FeedbackError: It is no tensor of points such as the model's, or of several.
    """
    is_vector = isinstance(X_ref, Tensor) and X_ref.dim() == 1
    point = X_ref.unsqueeze(0) if is_vector else X_ref
    point = points_of(model, "X_ref", point)
    if point.shape[-2] != 1:
        raise FeedbackError(
            f"X_ref has shape {tuple(X_ref.shape)}; give one reference point, 1 x d, "
            "or batch_shape x 1 x d."
        )
    return point.detach().clone()


def points_of(model: Model, name: str, points: Tensor) -> Tensor:
    """Points that are given once with a model, of which all is checked.

    Args:
        model: Whose points they could be.
        name: Of the argument.
        points: ``batch_shape x n x d``.

    Returns:
        The points, in the precision of the model.

    Raises:
        FeedbackError: It is no tensor of points such as the model's, there are none,
            or one is not finite.
    """
    inputs = getattr(model, "train_inputs", None)
    like = inputs[0] if inputs and isinstance(inputs[0], Tensor) else None
    # An input transform may add features to those that it is given.
    known = like is not None and not hasattr(model, "input_transform")
    points = check_points(name, points, like, like.shape[-1] if known else None)  # type: ignore[union-attr]
    if points.shape[-2] == 0:
        raise FeedbackError(
            f"{name} has shape {tuple(points.shape)}: no points; give at least one."
        )
    return check_finite(name, points)


def check_pending(X_pending: Tensor | None, X_ref: Tensor | None) -> Tensor | None:
    """Checks pending points, which are few, once: their entries too.

    Args:
        X_pending: ``n x d``, or None.
        X_ref: The reference, ``batch_shape x 1 x d``, or None where there is none.

    Returns:
        The points, in the precision of the reference.

    Raises:
        FeedbackError: It is no tensor of points such as the reference, or not finite.
    """
    if X_pending is None:
        return None
    dim = None if X_ref is None else X_ref.shape[-1]
    return check_finite("X_pending", check_points("X_pending", X_pending, X_ref, dim))


class DuelingAcquisition(AcquisitionFunction):
    r"""Mean worth of the duels that new points bring.

    Of the options of a question, which are the ``q`` points of ``X``, those of the
    pending points that were picked for the same question, and the reference point if
    there is one, any two may meet. Counted are the duels of at least one new point,

    .. math:: \alpha(X) = \frac{1}{|P|} \sum_{\{i, j\} \in P} \alpha(x_i, x_j), \qquad
        P = \big\{\{i, j\} : i \in X, \;
        j \in X \cup X_{same} \cup \{x_r\}, \; i \ne j \big\},

    so that one challenger of a reference (``q = 1``) is worth its duel with it, and a
    pair without one (``q = 2``) its own duel.

    **Pending points** of a function with a reference are options of the same question,
    :math:`X_{same}`, and so they are where one point is chosen at a time. But where all
    options are chosen jointly, without a reference and ``q`` at a time, every ``q``
    pending points, in their order, are a question of their own that is open: its
    options will not meet the new ones. Its answers leave the mean and reduce the
    covariance of the utilities under which :math:`\alpha` is evaluated, as
    `awaiting_answers` has it, so that another question becomes the better one. What is
    left over of them, the last ones, belongs to the same question. An answer for which
    the model has no link is expected to be free of noise.

    Batches chosen one by one
    (``sequential=True``) or jointly spread: a point dueling with itself teaches nothing
    and improves on nothing. (The hardest opponent instead of the mean would put kinks
    where gradient-based optimisers stop.) Where a challenger's part differs from its
    opponent's, two new points take both parts in turn, and the mean of both counts.

    Args:
        model: Any BoTorch model whose posterior `shared_covariance_mixture` takes.
        X_ref: The reference point, ``1 x d`` (or ``d``), or ``batch_shape x 1 x d`` for
            one reference per t-batch or per batch of the model; None for none.

    Raises:
        FeedbackError: If ``X_ref`` is no such point.
    """

    X_ref: Tensor | None
    _link: DuelLink | None = None
    parts_differ = False
    """Whether a duel's value depends on which of the two is the challenger."""

    @checked_arguments
    def __init__(self, model: Model, X_ref: Tensor | None = None) -> None:
        super().__init__(model=model)
        point = None if X_ref is None else reference_point(X_ref, model)
        self.register_buffer("X_ref", point)
        self.set_X_pending()

    def set_X_pending(self, X_pending: Tensor | None = None) -> None:
        """Says which points were asked about and have no answer yet.

        Args:
            X_pending: ``n x d``, or None.

        Raises:
            FeedbackError: It is no tensor of such points.
        """
        super().set_X_pending(check_pending(X_pending, self.X_ref))

    @checked_arguments
    def _foresee_answers(self, link: DuelLink | None) -> None:
        self._link = link
        _ = self.link  # an unknown likelihood is an error here rather than later

    @property
    def link(self) -> DuelLink:
        """Link from utilities to answers: the one given, else the likelihood's.

        Raises:
            UnsupportedFeedbackError: No link was given and the likelihood has none.
        """
        return model_link(self.model) if self._link is None else self._link

    @abstractmethod
    def duel_values(
        self, posterior: Posterior, first: Tensor, second: Tensor
    ) -> Tensor:
        """Values of several duels of points of one joint posterior.

        Args:
            posterior: Over new points, pending points of the same question and the
                reference, in this order; others may follow.
            first: Positions of the challengers, ``num_duels``.
            second: Positions of their opponents.

        Returns:
            ``num_duels x batch_shape``.
        """

    @property
    def _pending_link(self) -> DuelLink:
        """Link of the answers to open questions."""
        try:
            return self.link
        except UnsupportedFeedbackError:
            return ProbitLink(0.0)

    def _split_pending(self, size: int) -> tuple[Tensor | None, Tensor | None]:
        """Pending options of the same question, and those of other open questions.

        Args:
            size: How many options are new.

        Returns:
            ``m x d`` and ``k * size x d``; None for none.
        """
        pending = self.X_pending
        if pending is None or self.X_ref is not None or size == 1:
            return pending, None
        others = pending.shape[-2] // size * size
        same, asked = pending[..., others:, :], pending[..., :others, :]
        return same if same.shape[-2] else None, asked if others else None

    def value_alone(self, posterior: Posterior) -> Tensor:
        """Value of one new point that nothing can meet, ``batch_shape``."""
        raise UnsupportedError(
            f"{type(self).__name__} without X_ref needs two points to compare; choose "
            "them jointly, optimize_acqf(..., q=2) without sequential=True, or give "
            "X_ref or pending points."
        )

    def _posterior(self, points: Tensor) -> Posterior:
        """Joint posterior of the points that may meet."""
        return self.model.posterior(points)

    def _awaiting(self, points: Tensor, asked: Tensor, size: int) -> Posterior:
        """The same, once the questions that are open have been answered.

        Args:
            points: ``batch_shape x n x d``.
            asked: ``k * size x d``, the options of each question one after the other.
            size: How many options a question has.
        """
        posterior = self._posterior(append_points(points, asked))
        start, stop = points.shape[-2], points.shape[-2] + asked.shape[-2]
        options = torch.arange(start, stop, device=points.device).view(-1, size)
        first, second = torch.triu_indices(size, size, offset=1, device=points.device)
        duels = options[:, first].flatten(), options[:, second].flatten()
        return awaiting_answers(posterior, self._pending_link, *duels)

    @takes_points
    @t_batch_mode_transform()
    @average_over_ensemble_models  # type: ignore[arg-type]
    def forward(self, X: Tensor) -> Tensor:
        """Mean value of the duels of the new points.

        Args:
            X: New points, ``batch_shape x q x d``.

        Returns:
            ``batch_shape``, broadcast with the batch of the model.

        Raises:
            UnsupportedError: If a single point has no opponent and is worth nothing
                alone.
        """
        same, asked = self._split_pending(X.shape[-2])
        points = X
        for others in (same, self.X_ref):
            if others is not None:
                points = append_points(points, others)
        first, second = new_duels(X.shape[-2], points.shape[-2], X.device)
        if asked is None:
            posterior = self._posterior(points)
        else:
            posterior = self._awaiting(points, asked, X.shape[-2])
        if len(first) == 0:
            return self.value_alone(posterior)
        values = self.duel_values(posterior, first, second)
        if self.parts_differ and X.shape[-2] > 1:
            both_new = (second < X.shape[-2]).view(-1, *[1] * (values.dim() - 1))
            swapped = self.duel_values(posterior, second, first)
            values = torch.where(both_new, 0.5 * (values + swapped), values)
        return values.mean(0)


class DifferenceAcquisition(DuelingAcquisition):
    """Worth of duels that depends on the difference of the two utilities alone."""

    @abstractmethod
    def duel_value(self, means: Tensor, variance: Tensor) -> Tensor:
        """Value of a duel from the distribution of ``f(x) - f(opponent)``.

        Args:
            means: ``num_components x batch_shape``, components of equal weight.
            variance: ``batch_shape``, of each component.

        Returns:
            ``batch_shape``.
        """

    def duel_values(
        self, posterior: Posterior, first: Tensor, second: Tensor
    ) -> Tensor:
        """See base class."""
        return self.duel_value(*duel_mixtures(posterior, first, second))


def duel_mixtures(
    posterior: Posterior, first: Tensor, second: Tensor
) -> tuple[Tensor, Tensor]:
    """Distributions of several differences, with the duels before the batch.

    There, parameters of a link that differ in the batch broadcast as they should.

    Args:
        posterior: Joint posterior that `difference_mixture` takes.
        first: Positions of the first points, ``num_duels``.
        second: Positions of the second points.

    Returns:
        Means, ``num_components x num_duels x batch_shape``, and the variance within
        components, ``num_duels x batch_shape``.
    """
    means, variance = difference_mixture(posterior, first, second)
    return means.movedim(-1, 1), variance.movedim(-1, 0)


def new_duels(num_new: int, total: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Every duel of at least one new point, once.

    Args:
        num_new: The new points are the first ones.
        total: How many points may meet.
        device: Of the result.

    Returns:
        Positions of the challengers, all new, and of their opponents.
    """
    first, second = torch.triu_indices(total, total, offset=1, device=device)
    new = first < num_new
    return first[new], second[new]


def append_points(X: Tensor, others: Tensor) -> Tensor:
    """Points and others as the points of one joint posterior.

    Args:
        X: ``batch_shape x q x d``.
        others: ``other_batch_shape x n x d``, broadcastable with ``X``.

    Returns:
        ``batch_shape x (q + n) x d`` with the others last, batches broadcast.
    """
    batch_shape = torch.broadcast_shapes(X.shape[:-2], others.shape[:-2])
    parts = [points.expand(*batch_shape, *points.shape[-2:]) for points in (X, others)]
    return torch.cat(parts, dim=-2)
