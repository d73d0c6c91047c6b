"""Probability of improvement and information gained by a duel with the reference."""

from __future__ import annotations

from copy import copy

import torch
from botorch.models.model import Model
from torch import Tensor

from botorch_pref.acquisition.dueling_acquisition import DifferenceAcquisition
from botorch_pref.acquisition.reference.incumbent import incumbent
from botorch_pref.acquisition.registration.registry import register_acquisition
from botorch_pref.likelihoods.links.duel_link import DuelLink
from botorch_pref.likelihoods.links.win_and_information import win_and_information
from botorch_pref.numerics.argument_ranges import checked_arguments


@register_acquisition("eiig", reference=incumbent)
class DuelingEIIG(DifferenceAcquisition):
    r"""Dueling expected improvement and information gain.

    .. math::
        \alpha(x) = k \log P(x \succ x_r) + IG(x, x_r), \qquad
        IG = h\big(P(x \succ x_r)\big) - E[h(g(f(x) - f(x_r)))],

    maximised, where :math:`P(x \succ x_r) = E[g(f(x) - f(x_r))]` includes the noise of
    the answer, :math:`g` is the link of the likelihood and :math:`h` the binary entropy
    in nats (Benavoli, Azzimonti and Piga 2021, section 5, where the information gain is
    printed with the opposite sign). Both terms are closed forms, see
    :mod:`botorch_pref.likelihoods.links.probit_link`.

    Args:
        model: Any BoTorch model whose posterior `shared_covariance_mixture` takes.
        X_ref: The reference point, ``1 x d``; see :class:`.DuelingAcquisition`, also
            for batches and pending points.
        k: Weight of improvement, nonnegative: 0.1 explores more than 0.5.
        link: How the answer follows from the difference of utilities. By default that
            of ``model.likelihood``, with its present parameters.

    Raises:
        UnsupportedFeedbackError: If no link is given and the likelihood has none.
        ValueError: If ``k`` is negative or ``X_ref`` is no such point.
    """

    parts_differ = True

    @checked_arguments
    def __init__(
        self,
        model: Model,
        X_ref: Tensor,
        k: float = 0.1,
        link: DuelLink | None = None,
    ) -> None:
        if not k >= 0:
            raise ValueError(f"k is {k}; give a weight of at least 0.")
        super().__init__(model, X_ref)
        self.k = k
        self._foresee_answers(link)

    def duel_value(self, means: Tensor, variance: Tensor) -> Tensor:
        """See base class."""
        log_win, information = win_and_information(self.link, means, variance)
        return self.k * log_win + information

    def feasible_value(self, X: Tensor, log_valid: Tensor) -> Tensor:
        r"""Value of points that may fail, :math:`k \log (P \, P(win)) + P \, IG`.

        To improve, a trial must be valid and win; a failed one answers no question.

        Args:
            X: New points, ``batch_shape x q x d``.
            log_valid: :math:`\log P`, that all are valid, ``batch_shape``.
        """
        information = copy(self)
        information.k = 0.0
        missed = -torch.expm1(log_valid) * information(X)
        value: Tensor = self(X)
        return value + self.k * log_valid - missed
