"""The utility of one rater or of a group, from a model of several raters."""

from __future__ import annotations

from typing import Any

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.exceptions.errors import UnsupportedError
from botorch.models.model import Model
from botorch.posteriors.posterior import Posterior
from botorch.utils.transforms import is_ensemble
from torch import Tensor
from torch.special import ndtr

from botorch_pref.errors import BotorchPrefError
from botorch_pref.models.data.duel_pairs import duel_pairs
from botorch_pref.models.preference_gp import PreferenceGP
from botorch_pref.posteriors.moments import Moments, contrast
from botorch_pref.posteriors.query_points import check_points
from botorch_pref.posteriors.transformed_posterior import transformed_posterior


def at_raters(X: Tensor, raters: Tensor) -> Tensor:
    """Every stimulus as every rater meets it.

    Args:
        X: ``batch_shape x q x d`` stimuli.
        raters: ``R x r``, the columns of each rater; or ``R`` numbers.

    Returns:
        ``batch_shape x (q R) x (d + r)``; the raters of a stimulus follow each other.
    """
    columns = _columns(raters).to(X)
    shape = (*X.shape[:-1], len(columns))
    stimuli = X.unsqueeze(-2).expand(*shape, X.shape[-1])
    both = torch.cat([stimuli, columns.expand(*shape, columns.shape[-1])], dim=-1)
    return both.flatten(-3, -2)


def group_mean(moments: Moments, num_raters: int) -> Moments:
    """Moments of utilities averaged over raters.

    Args:
        moments: At ``q R`` points as :func:`at_raters` orders them.
        num_raters: ``R``.

    Returns:
        The moments of ``q`` means. Averaging is linear, so they are exact for each
        component of a mixture.
    """
    return moments.combined(
        lambda points: points.unflatten(-2, (-1, num_raters)).mean(-2)
    )


class GroupUtility(Model):
    r"""The mean utility of some raters, as a BoTorch model over stimuli alone.

    .. math:: \bar f(x) = \frac{1}{R} \sum_{r=1}^R f(x, u_r)

    has the posterior that the model of all raters implies, jointly over stimuli: with
    all raters it is their consensus, with one it is his own utility, with one who has
    not answered yet (a new number, or his features) it is what the others let expect
    of him. Anything that takes a BoTorch model takes it: acquisition functions, their
    gradients in the stimulus, :func:`botorch_pref.incumbent`. It follows the model, and
    a later fit or more answers need no new one.

    One prediction evaluates the kernel at all ``q R`` points.

    Args:
        model: Of stimuli and raters, see
            :func:`botorch_pref.models.raters.rater_kernel.rater_covar_module`: the last
            columns of its points are the rater's.
        raters: ``R x r``, the columns of each rater; or ``R`` numbers.

    Raises:
        BotorchPrefError: There are no raters, they are not finite, or no columns are
            left for the stimulus.
    """

    raters: Tensor

    def __init__(self, model: PreferenceGP, raters: Tensor) -> None:
        super().__init__()
        columns = _columns(raters)
        if 0 in columns.shape or columns.dim() != 2:
            raise BotorchPrefError(
                f"raters has shape {tuple(raters.shape)}; give R x r, the columns of "
                "at least one rater, or R numbers."
            )
        if not bool(columns.isfinite().all()):
            raise BotorchPrefError(
                f"raters holds {columns[~columns.isfinite()].tolist()}; give finite "
                "numbers or features."
            )
        if model.dim is not None and model.dim <= columns.shape[-1]:
            raise BotorchPrefError(
                f"Points have {model.dim} columns and raters {columns.shape[-1]}: none "
                "is left for the stimulus."
            )
        self.rater_model = model
        self.register_buffer("raters", columns.detach().clone())

    @property
    def likelihood(self) -> Any:
        """Likelihood of the model of all raters."""
        return self.rater_model.likelihood

    @property
    def num_outputs(self) -> int:
        """One: the mean utility."""
        return 1

    @property
    def batch_shape(self) -> torch.Size:
        """Batch shape of the model of all raters."""
        return self.rater_model.batch_shape

    @property
    def datapoints(self) -> Tensor | None:
        """The distinct stimuli that any rater met, as they were given."""
        return self.train_inputs[0] if self.train_inputs else None

    @property
    def train_inputs(self) -> tuple[Tensor, ...]:
        """The :attr:`datapoints` in a tuple; empty for a model of the prior alone."""
        points = self.rater_model.datapoints
        if points is None:
            return ()
        stimuli = points[..., : -self.raters.shape[-1]]
        return (stimuli if stimuli.dim() > 2 else torch.unique(stimuli, dim=0),)

    @property
    def _num_features(self) -> int | None:
        """Columns of a stimulus; None where an input transform may add some."""
        model, width = self.rater_model, self.raters.shape[-1]
        if model.dim is None or hasattr(model, "input_transform"):
            return None
        return model.dim - width

    def posterior(
        self,
        X: Tensor,
        output_indices: list[int] | None = None,
        observation_noise: bool | Tensor = False,
        posterior_transform: PosteriorTransform | None = None,
    ) -> Posterior:
        """The joint posterior of mean utilities.

        Args:
            X: ``batch_shape x q x d`` stimuli, without columns of raters.
            output_indices: None or ``[0]``.
            observation_noise: False: a group gives no answer, a rater does.
            posterior_transform: Applied to the posterior.

        Returns:
            Of the class that the model has, over ``batch_shape x q x 1``.
        """
        if output_indices not in (None, [0]) or observation_noise is not False:
            raise UnsupportedError(
                f"output_indices={output_indices}, observation_noise="
                f"{observation_noise}: a group has one utility and gives no answers."
            )
        X = check_points("X", X, self.rater_model.datapoints, self._num_features)
        moments = self.rater_model.moments(at_raters(X, self.raters))
        return transformed_posterior(
            self.rater_model.make_posterior,
            group_mean(moments, len(self.raters)),
            posterior_transform,
            X,
        )

    def duel_posterior(self, X: Tensor, X_ref: Tensor) -> Posterior:
        """The posterior of differences of mean utilities, ``f(X) - f(X_ref)``.

        Args:
            X: ``batch_shape x q x d`` stimuli.
            X_ref: ``batch_shape x 1 x d`` or ``batch_shape x q x d``.

        Returns:
            Of the class that the model has, over ``batch_shape x q x 1``.
        """
        num_raters = len(self.raters)
        pairs = torch.cat(torch.broadcast_tensors(X, X_ref), dim=-2)
        pairs = check_points(
            "X", pairs, self.rater_model.datapoints, self._num_features
        )
        moments = self.rater_model.moments(at_raters(pairs, self.raters))
        means = group_mean(moments, num_raters)
        return self.rater_model.make_posterior(contrast(means, X.shape[-2]))

    def duel_probability(
        self, X1: Tensor, X2: Tensor, observation_noise: bool = False
    ) -> Tensor:
        r"""P(X1 beats X2), of mean utilities or in the answer of one of the raters.

        Args:
            X1: ``batch_shape x q x d`` stimuli.
            X2: ``batch_shape x q x d`` or ``batch_shape x 1 x d``.
            observation_noise: Whether of an answer that one of the raters gives, each
                as likely as the others, or of the mean utilities.

        Returns:
            ``batch_shape x q``.
        """
        X1, X2 = torch.broadcast_tensors(X1, X2)
        num_raters, model = len(self.raters), self.rater_model
        if observation_noise:
            first, second = (at_raters(X, self.raters) for X in (X1, X2))
            each = model.duel_probability(first, second, observation_noise=True)
            return each.unflatten(-1, (-1, num_raters)).mean(-1)
        X1 = check_points("X1", X1, model.datapoints, self._num_features)
        pairs = duel_pairs(X1, X2, len(self.batch_shape))
        points = at_raters(pairs.points, self.raters)
        prior = model.prior_variance(points).unflatten(-1, (-1, num_raters)).mean(-1)
        moments = group_mean(model.moments(points), num_raters)
        means, variance = pairs.differences(moments, prior)
        win = ndtr(means / variance.sqrt()).mean(0).movedim(0, -1)
        return win.mean(-2) if is_ensemble(model) else win


def _columns(raters: Tensor) -> Tensor:
    return raters.unsqueeze(-1) if raters.dim() == 1 else raters
