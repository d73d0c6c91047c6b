"""Engines in weight space, and their solutions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from botorch_pref.inference.solution import Solution
from botorch_pref.inference.weight_space.weight_posterior import WeightPosterior


@dataclass(frozen=True, eq=False)
class WeightSolution(Solution[WeightPosterior]):
    """A Gaussian posterior of the weights of linear utilities.

    Attributes:
        posterior: The numbers.
    """

    posterior: WeightPosterior

    @property
    def log_evidence(self) -> Tensor:
        """See base class; its gradient is in the precision of the prior."""
        return self.posterior.log_evidence

    @property
    def terms(self) -> WeightPosterior:
        """See base class: mean and covariance of the weights."""
        return self.posterior

    def diagnostics(self) -> dict[str, Any]:
        """See base class."""
        return {
            "converged": not self.failures,
            "iterations": self.posterior.iterations,
            "residual": self.posterior.residual,
            "log_evidence": self.log_evidence,
        }

    @property
    def failures(self) -> tuple[str, ...]:
        """See base class."""
        known = self.posterior
        text = (
            f"did not converge: after {known.iterations} iterations the residual is "
            f"{known.residual:.1e} posterior standard deviations. Check the scale of "
            "the features and eta."
        )
        stopped = () if known.converged else (text,)
        finite = self.evidence_failures(self.log_evidence)
        return stopped + (finite or self.weight_failures(known.mean))


@dataclass(frozen=True)
class WeightEngine:
    """A method of inference over weights.

    Attributes:
        find: From features, stages, the prior's precision and counts to the posterior.
    """

    find: Callable[[Tensor, Tensor, Tensor, Tensor | None], WeightPosterior]

    def solve(
        self,
        features: Tensor,
        stages: Tensor,
        precision: Tensor,
        counts: Tensor | None = None,
    ) -> WeightSolution:
        r"""The posterior of weights given choices.

        Args:
            features: ``X``, ``batch_shape x n x d``.
            stages: ``batch_shape x L x k`` long, the chosen point first, padded
                with -1.
            precision: :math:`\eta`, positive, ``batch_shape``.
            counts: How often each set was chosen from so, ``batch_shape x L``; None for
                once.
        """
        return WeightSolution(self.find(features, stages, precision, counts))
