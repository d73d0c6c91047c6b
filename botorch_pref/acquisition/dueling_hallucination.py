"""Hallucination believers: challengers chosen under one draw of the posterior."""

from __future__ import annotations

from botorch.models.model import Model
from torch import Generator, Tensor

from botorch_pref.acquisition.dueling_eubo import DuelingEUBO
from botorch_pref.acquisition.dueling_ucb import DuelingUCB
from botorch_pref.acquisition.reference.incumbent import incumbent
from botorch_pref.acquisition.registration.registry import register_acquisition
from botorch_pref.acquisition.wrappers.hallucinated_model import HallucinatedModel


@register_acquisition("hbei", reference=incumbent)
class DuelingHBEI(DuelingEUBO):
    r"""Expected improvement under one draw (Takeno et al. 2023, HB-EI).

    .. math:: \alpha(x) = E\big[\max(f(x) - f(x_r), 0) \mid z\big]

    of a :class:`~botorch_pref.acquisition.HallucinatedModel` with the draw :math:`z`,
    made once for the instance. The draw explores, by chance, as Thompson sampling does;
    the improvement is over what it leaves open. (The published code takes the variance
    of :math:`f(x)` for that of the difference.)

    Args:
        model: See :class:`~botorch_pref.acquisition.HallucinatedModel`.
        X_ref: The reference point, ``1 x d``, such as the winner of the last duel; by
            default the `incumbent` of the model, which is no matter of the draw. See
            :class:`.DuelingAcquisition`, also for batches and pending points.
        generator: Source of the draw, on the CPU; torch's default one if None.

    Raises:
        FeedbackError: If the model has observed no points.
        FeedbackError: If ``X_ref`` is no such point.
    """

    def __init__(
        self,
        model: Model,
        X_ref: Tensor | None = None,
        generator: Generator | None = None,
    ) -> None:
        reference = incumbent(model) if X_ref is None else X_ref
        super().__init__(HallucinatedModel(model, generator), reference)


@register_acquisition("hbucb", reference=incumbent)
class DuelingHBUCB(DuelingUCB):
    r"""Upper credible bound under one draw (Takeno et al. 2023, HB-UCB).

    .. math:: \alpha(x) = E[u \mid z]
        + \Phi^{-1}\big(\tfrac{1 + level}{2}\big) \sqrt{Var[u \mid z]}, \qquad
        u = f(x) - f(x_r),

    of a :class:`~botorch_pref.acquisition.HallucinatedModel` with the draw :math:`z`,
    made once for the instance.

    Args:
        model: See :class:`~botorch_pref.acquisition.HallucinatedModel`.
        X_ref: As of `DuelingHBEI`.
        level: Probability of the interval, in (0, 1).
        generator: Source of the draw, on the CPU; torch's default one if None.

    Raises:
        FeedbackError: If the model has observed no points.
        ValueError: If ``level`` is not in (0, 1) or ``X_ref`` is no such point.
    """

    def __init__(
        self,
        model: Model,
        X_ref: Tensor | None = None,
        level: float = 0.95,
        generator: Generator | None = None,
    ) -> None:
        reference = incumbent(model) if X_ref is None else X_ref
        super().__init__(HallucinatedModel(model, generator), reference, level)
