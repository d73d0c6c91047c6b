"""The protocol of what engines find."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

from torch import Tensor

from botorch_pref.errors import BotorchPrefError, InferenceWarning
from botorch_pref.inference.derivatives.posterior_tangent import PosteriorTangent
from botorch_pref.inference.warm_start import FurtherAnswers, WarmStart

TermsT = TypeVar("TermsT", covariant=True)


class Solution(ABC, Generic[TermsT]):
    """A posterior of utilities, as one engine found it from one prior and its factors.

    Immutable: other hyper-parameters or other answers have another solution. What is
    expensive and not always wanted is computed when it is asked for, once.
    """

    @property
    @abstractmethod
    def log_evidence(self) -> Tensor:
        """The log evidence, or the engine's approximation of it, ``batch_shape``.

        Its gradient in everything that the engine was given is exact, of first order.
        """

    @property
    @abstractmethod
    def terms(self) -> TermsT:
        """The part that prediction needs, such as :class:`.PosteriorTerms`."""

    @abstractmethod
    def diagnostics(self) -> dict[str, Any]:
        """Diagnostics of the engine.

        Returns:
            ``converged``, ``iterations``, ``residual`` (in posterior standard
            deviations) and ``log_evidence``; more where the engine knows more.
        """

    @staticmethod
    def evidence_failures(log_evidence: Tensor) -> tuple[str, ...]:
        """A sentence on an evidence that is no number.

        Args:
            log_evidence: ``batch_shape``.

        Returns:
            Nothing where it is finite.
        """
        if bool(log_evidence.isfinite().all()):
            return ()
        found = [float(value) for value in log_evidence.detach().flatten()[:3]]
        text = (
            f"did not converge: the log evidence is {found}, not finite. Check for "
            "extreme hyper-parameters, or use double precision."
        )
        return (text,)

    @staticmethod
    def weight_failures(weights: Tensor) -> tuple[str, ...]:
        """A sentence on weights of a posterior that are no numbers.

        Args:
            weights: Any shape.

        Returns:
            Nothing where all are finite.
        """
        if bool(weights.isfinite().all()):
            return ()
        text = (
            "did not converge: the posterior is not finite. Check for extreme "
            "hyper-parameters, or use double precision."
        )
        return (text,)

    @property
    def failures(self) -> tuple[str, ...]:
        """Sentences on all that did not converge, of what was computed so far."""
        return ()

    def tangent(self, mean: Tensor) -> PosteriorTangent:
        """The solution's change with its prior, to first order.

        Args:
            mean: Prior mean of the points, ``batch_shape x n``.

        Raises:
            BotorchPrefError: The engine knows no derivatives in the points.
        """
        raise BotorchPrefError(
            f"{type(self).__name__} has no derivatives in the points that answers are "
            "about, which look-ahead wants; detach them, or take another engine."
        )

    def warm_start(self, further: FurtherAnswers | None = None) -> WarmStart | None:
        """The engine's next start: with other parameters, or with more answers.

        Args:
            further: Answers that join those of the solution.

        Returns:
            None where the engine always starts anew.
        """
        return None

    def warn(self, owner: str) -> None:
        """Warns of what did not converge.

        Args:
            owner: Who gives the solution, to begin the sentence with.

        Warns:
            InferenceWarning: Once for each of :attr:`failures`.
        """
        for failure in self.failures:
            warnings.warn(f"{owner} {failure}", InferenceWarning, stacklevel=3)


def check_solution(engine: object, found: object) -> None:
    """Checks what an engine returns.

    Args:
        engine: The engine.
        found: What its ``solve`` returned.

    Raises:
        TypeError: It is no :class:`Solution`.
    """
    if not isinstance(found, Solution):
        raise TypeError(
            f"{type(engine).__name__}.solve returned {found!r}; return a Solution."
        )
