r"""Duels that new points bring, and the observed points that they challenge.

`DuelingAcquisition` chooses the duels of a question, asks the model for one joint
posterior of all points in them, and averages the values; its subclasses value one duel.
Under every engine the difference of two utilities is a mixture of :math:`S` Gaussians
of equal weight and one variance, :math:`N(\mu_s, \tau^2)`, with :math:`S = 1` for
Laplace, EP and `PairwiseGP`. Values are closed forms of these: nothing is sampled.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.exceptions.errors import UnsupportedError
from botorch.models.model import Model, ModelList
from botorch.posteriors.posterior import Posterior
from botorch.sampling.pathwise.utils import get_train_inputs
from botorch.utils.transforms import (
    average_over_ensemble_models,
    is_ensemble,
    t_batch_mode_transform,
)
from torch import Tensor

from botorch_pref.errors import FeedbackError, UnsupportedFeedbackError
from botorch_pref.likelihoods import DuelLink, ProbitLink
from botorch_pref.linalg.covariance import join_rows
from botorch_pref.models.answer_likelihoods import model_link
from botorch_pref.models.derived_model import DerivedModel
from botorch_pref.models.predictions import awaiting_answers
from botorch_pref.models.utility_model import check_one_to_one
from botorch_pref.numerics.argument_checks import (
    check_finite,
    check_points,
    checked_arguments,
)
from botorch_pref.posteriors.gaussian import (
    difference_mixture,
    duel_mixtures,
    mean_at,
    resolved_variance,
    shared_covariance_mixture,
)


def single_output(model: Model) -> Model:
    """Returns the model after checking that it has one output, one value a point."""
    # `PairwiseGP` knows their number only once it has points.
    if (outputs := getattr(model, "num_outputs", 1)) != 1:
        raise UnsupportedError(
            f"{type(model).__name__} has {outputs} outputs; give a model of one, the "
            "utility."
        )
    return check_one_to_one(model)


@checked_arguments
def observed_points(model: Model) -> Tensor:
    """Returns the points of any BoTorch model, ``batch_shape x n x d``, untransformed.

    The members of an ensemble have the same points, which are returned once.
    """
    if isinstance(model, ModelList):
        raise UnsupportedError(
            f"{type(model).__name__} keeps the training inputs of each model apart; "
            "give its one model, models[0]."
        )
    if not single_output(model).train_inputs:
        raise FeedbackError(
            "The best point so far is wanted of a model without observed points. Ask a "
            "first duel of two points of your choice."
        )
    with torch.no_grad():
        (points,) = get_train_inputs(model, transformed=False)
    if is_ensemble(model) and points.dim() > 2:
        return points.select(-3, 0)
    return points


def shown_points(model: Model, points: Tensor) -> Tensor:
    """Tells which of the observed points are in an answer, ``batch_shape x n``.

    A model of ours may hold rows of a catalogue that nobody was shown. Of other models,
    and of one without answers, all points count. A derived model has the answers of the
    model behind it.
    """
    if isinstance(model, DerivedModel):
        source = model._source
        return model.of_own_points(shown_points(source, observed_points(source)))
    n, blocks = points.shape[-2], getattr(model, "feedback", ())
    in_answer = torch.zeros(n, dtype=torch.bool, device=points.device)
    for block in blocks:
        # Fields with places of datapoints; wide ones have several in each row.
        for name in block.index_fields:
            indices = getattr(block, name)
            if name in block.wide_fields:
                indices = indices.flatten(-2)
            batch = torch.broadcast_shapes(in_answer.shape[:-1], indices.shape[:-1])
            # The last place takes the padding, -1.
            room = torch.zeros(*batch, n + 1, dtype=torch.bool, device=points.device)
            places = indices.expand(*batch, -1) % (n + 1)
            in_answer = in_answer | room.scatter(-1, places, True)[..., :n]
    if is_ensemble(model) and in_answer.dim() > 1:
        # All members have the same answers.
        in_answer = in_answer.select(-2, 0)
    return in_answer if in_answer.any() else ~in_answer


def points_at(points: Tensor, index: Tensor) -> Tensor:
    """Takes one point of each batch by its index, ``batch_shape x 1 x d``."""
    places = index[..., None, None].expand(*index.shape, 1, points.shape[-1])
    expanded = points.expand(*index.shape, *points.shape[-2:])
    return expanded.gather(-2, places).clone()


def champion(model: Model) -> Tensor:
    """Returns the observed point with the largest posterior mean.

    Points that are in no answer, such as rows of a catalogue that nobody was shown, do
    not count.

    Args:
        model: Any BoTorch model with training inputs and one output. The means of the
            members of an ensemble are averaged.

    Returns:
        The point as it was given to the model, ``1 x d``, or ``batch_shape x 1 x d``
        for a batch of models. Of equal means, the earliest.

    Raises:
        FeedbackError: The model has no training inputs.
        UnsupportedError: It has several outputs.
    """
    return points_at(observed_points(model), champion_index(model))


def champion_index(model: Model) -> Tensor:
    """Finds the index of the `champion` among the datapoints, a long ``batch_shape``.

    Args:
        model: See `champion`, also for errors.
    """
    points = observed_points(model)
    mean = mean_at(model, points)
    return mean.masked_fill(~shown_points(model, points), -torch.inf).argmax(-1)


def incumbent(model: Model) -> Tensor:
    r"""Returns the observed point most likely to be better than the others.

    It maximises the expected fraction of the other observed points that it is better
    than, under their joint posterior,

    .. math:: \frac{1}{n - 1} \sum_{j \ne i} P(f(x_i) > f(x_j) \mid D),

    the soft Copeland score of Gonzalez et al. (2017) over observed points. It is the
    reference point of Benavoli, Azzimonti and Piga (2021, section 5). Two points whose
    utilities cannot be told apart beyond rounding each win half of their duels. Of
    equal scores the earliest point is taken. Points that are in no answer do not count.

    Args:
        model: Any BoTorch model with training inputs whose posterior is Gaussian or a
            `SkewNormalPosterior`; `PairwiseGP` included. The scores of the members of
            an ensemble are averaged.

    Returns:
        The point as it was given to the model, before any input transform,
        ``1 x d``, or ``batch_shape x 1 x d`` for a batch of models.

    Raises:
        FeedbackError: The model has no training inputs.
        UnsupportedError: It has several outputs.
    """
    return points_at(observed_points(model), incumbent_index(model))


def incumbent_index(model: Model) -> Tensor:
    """Finds the index of the `incumbent` among the datapoints, a long ``batch_shape``.

    Args:
        model: See `incumbent`, also for errors.
    """
    points = observed_points(model)
    in_answer = shown_points(model, points)
    # Of a batch of models, the points that any of them has seen.
    places = in_answer.reshape(-1, in_answer.shape[-1]).any(0).nonzero().squeeze(-1)
    in_answer = in_answer[..., places]
    with torch.no_grad():
        scores = _copeland_scores(model, points[..., places, :], in_answer)
    scores = scores.mean(-2) if is_ensemble(model) else scores
    return places[scores.masked_fill(~in_answer, -torch.inf).argmax(-1)]


# Mixture components times pairs of points that are worked on at once: 2 MB in float64
# stay in the cache, which is two to three times faster than 32 MB.
_CHUNK_ELEMENTS = 2**18


def _copeland_scores(model: Model, points: Tensor, in_answer: Tensor) -> Tensor:
    """Computes each point's expected wins over points in an answer, as a score.

    Scores and ``in_answer`` are ``batch_shape x n``. Points in no answer have scores
    too, which callers mask.
    """
    n, counted = points.shape[-2], in_answer.to(points)
    posterior = model.posterior(points)
    first, second = torch.triu_indices(n, n, offset=1, device=points.device)
    means, covariance = shared_covariance_mixture(posterior)
    # With the components of a point side by side in memory it takes half the time.
    means = means.movedim(0, -1)
    size = max(1, _CHUNK_ELEMENTS // means[..., 0, :].numel())
    scores = points.new_zeros(means.shape[:-1])
    variances = covariance.diagonal(dim1=-2, dim2=-1).clamp_min(0.0)
    for i, j in zip(first.split(size), second.split(size), strict=True):
        scale = variances[..., i] + variances[..., j]
        gap = means[..., i, :] - means[..., j, :]
        variance = resolved_variance(scale - 2 * covariance[..., i, j], scale)
        # P(f_i > f_j) = erfc(-gap / sqrt(2 variance)) / 2, averaged over components.
        width = -(2 * variance).sqrt().unsqueeze(-1)
        wins = 0.5 * torch.erfc(gap / width).mean(-1)
        scores.index_add_(-1, i, wins * counted[..., j])
        scores.index_add_(-1, j, (1 - wins) * counted[..., i])
    return scores


def better_probability(model: Model, points: Tensor, reference: Tensor) -> Tensor:
    """Computes P(f(x) > f(x_r)) of ``N x d`` points, one half at ``x_r``, ``1 x d``.

    Utilities themselves are compared, without the noise of an answer.
    """
    pairs = torch.stack([points, reference.expand_as(points)], dim=-2)
    means, variance = difference_mixture(model.posterior(pairs), 0, 1)
    wins = torch.special.ndtr(means / variance.clamp_min(1e-12).sqrt()).mean(0)
    return wins.mean(-1) if is_ensemble(model) else wins


def points_of(model: Model, name: str, points: Tensor) -> Tensor:
    """Checks points that an acquisition function keeps: they could be the model's own.

    That is, they are finite and have its columns, device and precision; ``name`` is
    that of the argument. Returns them, in the model's precision.
    """
    inputs = getattr(model, "train_inputs", None)
    like = inputs[0] if inputs and isinstance(inputs[0], Tensor) else None
    # An input transform may add features to those that the user gives.
    has_columns = like is not None and not hasattr(model, "input_transform")
    points = check_points(name, points, like, like.shape[-1] if has_columns else None)  # type: ignore[union-attr]
    if points.shape[-2] == 0:
        raise FeedbackError(
            f"{name} has shape {tuple(points.shape)}: no points; give at least one."
        )
    return check_finite(name, points)


def reference_point(X_ref: Tensor, model: Model) -> Tensor:
    """Checks a reference, ``batch_shape x 1 x d`` or ``d``; returns a detached copy."""
    is_vector = isinstance(X_ref, Tensor) and X_ref.dim() == 1
    point = X_ref.unsqueeze(0) if is_vector else X_ref
    point = points_of(model, "X_ref", point)
    if point.shape[-2] != 1:
        raise FeedbackError(
            f"X_ref has shape {tuple(X_ref.shape)}; give one reference point, 1 x d, "
            "or batch_shape x 1 x d."
        )
    return point.detach().clone()


def check_beside(name: str, points: Tensor, X_ref: Tensor | None) -> Tensor:
    """Checks that points are finite and go with the reference, where there is one."""
    dim = None if X_ref is None else X_ref.shape[-1]
    return check_finite(name, check_points(name, points, X_ref, dim))


FunctionT = TypeVar("FunctionT", bound=Any)


def takes_points(forward: Callable[[FunctionT, Tensor], Tensor]) -> Any:
    """Wraps an acquisition function's ``forward`` to check ``X`` once, as it comes in.

    BoTorch's models do not: of a point that is not finite `PairwiseGP` says that a
    matrix is not positive definite.
    """

    @wraps(forward)
    def checked(self: FunctionT, X: Tensor) -> Tensor:
        """Checks ``X`` beside pending points and the reference, and calls."""
        pending = getattr(self, "X_pending", None)
        if pending is not None:
            check_points("X", X, dim=pending.shape[-1])
        X = check_beside("X", X, getattr(self, "X_ref", None))
        if X.shape[-2] == 0:
            raise FeedbackError(
                f"X has shape {tuple(X.shape)}: no points; give batch_shape x q x d "
                "with q of at least 1."
            )
        return forward(self, X)

    return checked


class ReferenceAcquisition(AcquisitionFunction):
    """Acquisition function of options that meet a reference point, if there is one.

    Pending points are checked as the reference is; a subclass says what they mean.
    """

    X_ref: Tensor | None

    @checked_arguments
    def __init__(self, model: Model, X_ref: Tensor | None = None) -> None:
        super().__init__(model=single_output(model))
        point = None if X_ref is None else reference_point(X_ref, model)
        self.register_buffer("X_ref", point)
        self.set_X_pending()

    def set_X_pending(self, X_pending: Tensor | None = None) -> None:
        """Says which points, ``n x d`` or None, have no answer yet."""
        if X_pending is not None:
            X_pending = check_beside("X_pending", X_pending, self.X_ref)
        super().set_X_pending(X_pending)


def split_pending(
    pending: Tensor | None, X_ref: Tensor | None, size: int
) -> tuple[Tensor | None, Tensor | None]:
    """Splits pending options into those of the same question and of open questions.

    Open questions are complete ones of ``size`` options, in the order of the options;
    what is left at the end is of the same question. With a reference, or options that
    are chosen one at a time, all are of the same question. None stands for no options.
    """
    if pending is None or X_ref is not None or size == 1:
        return pending, None
    num_open = pending.shape[-2] // size * size
    same_question = pending[..., num_open:, :] if num_open < pending.shape[-2] else None
    open_questions = pending[..., :num_open, :] if num_open else None
    return same_question, open_questions


class DuelingAcquisition(ReferenceAcquisition):
    r"""Mean value of the duels that new points bring.

    The options of a question are the ``q`` points of ``X``, the pending points that
    were picked for the same question, and the reference point if there is one. The
    duels of at least one new point count,

    .. math:: \alpha(X) = \frac{1}{|P|} \sum_{\{i, j\} \in P} \alpha(x_i, x_j), \qquad
        P = \big\{\{i, j\} : i \in X, \;
        j \in X \cup X_{same} \cup \{x_r\}, \; i \ne j \big\},

    so that the value of one challenger of a reference (``q = 1``) is that of its duel
    with it, and the value of a pair without one (``q = 2``) that of its own duel.

    **Pending points** of a function with a reference are options of the same question,
    :math:`X_{same}`, and so they are where points are chosen one at a time. Without a
    reference, and with ``q`` points chosen jointly, every ``q`` pending points, in
    their order, are another question that is open; points left over at the end belong
    to the same question. The options of an open question do not meet the new ones. Its
    answers leave the mean and reduce the covariance of the utilities, as
    `awaiting_answers` computes, so that another question becomes the better one. Where
    the model has no link, an answer is expected to be free of noise.

    Points of a batch spread, because the duel of a point with itself teaches nothing.
    (The largest value instead of the mean would have kinks where optimisers stop.)
    Where the value of a duel depends on which of the two is the challenger, the mean of
    both ways counts for two new points.

    Args:
        model: Any BoTorch model with one output whose joint posterior is Gaussian or a
            `SkewNormalPosterior`; a batch of models; or an ensemble, over whose members
            values are averaged.
        X_ref: The reference point, ``1 x d`` (or ``d``), or ``batch_shape x 1 x d`` for
            one reference per t-batch or per batch of the model; None for none.

    Raises:
        FeedbackError: ``X_ref`` is no such point.
        UnsupportedError: The model has several outputs.
    """

    _link: DuelLink | None = None
    parts_differ = False
    """Whether a duel's value depends on which of the two is the challenger."""

    @checked_arguments
    def _foresee_answers(self, link: DuelLink | None) -> None:
        self._link = link
        _ = self.link  # an unknown likelihood is an error here rather than later

    @property
    def link(self) -> DuelLink:
        """Link from utilities to answers, the one given, else the likelihood's.

        Raises:
            UnsupportedFeedbackError: No link was given and the likelihood has none.
        """
        return model_link(self.model) if self._link is None else self._link

    @abstractmethod
    def duel_values(
        self, posterior: Posterior, first: Tensor, second: Tensor
    ) -> Tensor:
        """Values several duels of points of one joint posterior.

        Args:
            posterior: Over new points, pending points of the same question and the
                reference, in this order; others may follow.
            first: Positions of the challengers, ``num_duels``.
            second: Positions of their opponents.

        Returns:
            ``num_duels x batch_shape``.
        """

    def value_alone(self, posterior: Posterior) -> Tensor:
        """Values one new point without any opponent, ``batch_shape``.

        Raises:
            UnsupportedError: Unless a subclass has such a value and overrides this.
        """
        raise UnsupportedError(
            f"{type(self).__name__} without X_ref needs two points to compare; choose "
            "them jointly, optimize_acqf(..., q=2) without sequential=True, or give "
            "X_ref or pending points."
        )

    @takes_points
    @t_batch_mode_transform()
    @average_over_ensemble_models  # type: ignore[arg-type]
    def forward(self, X: Tensor) -> Tensor:
        """Averages the values of the duels of the new points.

        Args:
            X: New points, ``batch_shape x q x d``.

        Returns:
            ``batch_shape``, broadcast with the batch of the model.

        Raises:
            UnsupportedError: A single point has no opponent, and no value alone.
        """
        return self.mean_value(*self.meetings(X), X.shape[-2])

    def meetings(self, X: Tensor) -> tuple[Posterior, Tensor, Tensor]:
        """Returns the duels of the new points ``X``, as :meth:`duel_values` takes them.

        They are a joint posterior of options, and places of challengers and opponents.
        Members of an ensemble are a batch of the posterior.
        """
        size = X.shape[-2]
        same_question, open_questions = split_pending(self.X_pending, self.X_ref, size)
        points = with_others(X, same_question, self.X_ref)
        first, second = new_duels(size, points.shape[-2], X.device)
        if open_questions is None:
            return self._posterior(points), first, second
        return self._awaiting(points, open_questions, size), first, second

    def mean_value(
        self, posterior: Posterior, first: Tensor, second: Tensor, size: int
    ) -> Tensor:
        """Averages the values of the duels of ``size`` new points, see `meetings`.

        The result is ``batch_shape``. A single point without an opponent has its value
        alone, where the function has such a value.
        """
        if len(first) == 0:
            return self.value_alone(posterior)
        values = self.duel_values(posterior, first, second)
        # Where it matters which of two new points is the challenger, each is once.
        if self.parts_differ and size > 1:
            both_new = (second < size).view(-1, *[1] * (values.dim() - 1))
            swapped = self.duel_values(posterior, second, first)
            values = torch.where(both_new, 0.5 * (values + swapped), values)
        return values.mean(0)

    def _posterior(self, points: Tensor) -> Posterior:
        """Returns the joint posterior of the points that may meet."""
        return self.model.posterior(points)

    def _awaiting(self, points: Tensor, open_questions: Tensor, size: int) -> Posterior:
        """Returns the joint posterior once open questions of ``size`` are answered.

        It is of the ``points`` and then of the open questions' options, all of whose
        duels count as answered, see `awaiting_answers`.
        """
        posterior = self._posterior(with_others(points, open_questions))
        start, stop = points.shape[-2], points.shape[-2] + open_questions.shape[-2]
        options = torch.arange(start, stop, device=points.device).view(-1, size)
        first, second = torch.triu_indices(size, size, offset=1, device=points.device)
        duels = options[:, first].flatten(), options[:, second].flatten()
        try:
            link = self.link
        except UnsupportedFeedbackError:
            # An answer without noise.
            link = ProbitLink(0.0)
        return awaiting_answers(posterior, link, *duels)


class DifferenceAcquisition(DuelingAcquisition):
    """Value of duels that depends on the difference of the two utilities alone."""

    @abstractmethod
    def duel_value(self, means: Tensor, variance: Tensor) -> Tensor:
        """Values a duel by the distribution of ``f(x) - f(opponent)``.

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


def with_others(X: Tensor, *more_points: Tensor | None) -> Tensor:
    """Joins new points and then those others that there are, batches broadcast."""
    parts = [X, *(points for points in more_points if points is not None)]
    return join_rows(parts, along=-2)


def new_duels(num_new: int, total: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Lists challengers and opponents of duels of new points, which come first."""
    first, second = torch.triu_indices(total, total, offset=1, device=device)
    new = first < num_new
    return first[new], second[new]
