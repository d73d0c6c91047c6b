"""The protocol of engines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from botorch.posteriors.posterior import Posterior

from botorch_pref.feedback.feedback import Feedback
from botorch_pref.inference.posterior_terms import PosteriorTerms
from botorch_pref.inference.solution import Solution
from botorch_pref.inference.utility_prior import UtilityPrior
from botorch_pref.inference.warm_start import Sites, WarmStart
from botorch_pref.likelihoods.factors.factors import Factors
from botorch_pref.likelihoods.preference_likelihood import PreferenceLikelihood
from botorch_pref.likelihoods.resolve import DEFAULT_LIKELIHOODS
from botorch_pref.linalg.sparse_design import SparseDesign
from botorch_pref.posteriors.gaussian_posterior import gaussian_posterior
from botorch_pref.posteriors.moments import Moments


class Engine(ABC):
    """A method of inference: from a prior and factors to a posterior.

    An engine has settings and no state: models share it, and what it finds is a
    :class:`Solution`.

    Attributes:
        takes: The kinds of factors that it takes, subclasses included.
        default_likelihoods: The likelihood of each kind of answer where the user names
            none.
    """

    takes: ClassVar[frozenset[type[Any]]]
    default_likelihoods: ClassVar[
        Mapping[type[Feedback], type[PreferenceLikelihood[Any]]]
    ] = DEFAULT_LIKELIHOODS

    @abstractmethod
    def solve(
        self, prior: UtilityPrior, factors: Factors, start: WarmStart | None = None
    ) -> Solution[PosteriorTerms]:
        """The posterior of utilities given answers.

        Args:
            prior: Of utilities at the n points.
            factors: m factors on rows of the n points.
            start: Where an earlier solution ended. The solution does not depend on it,
                but for the engine's tolerance; its cost does.
        """

    def accepts(self, factors: type[Factors]) -> bool:
        """Whether the engine takes a kind of factors.

        Args:
            factors: A class.
        """
        return any(issubclass(factors, kind) for kind in self.takes)

    def posterior(self, moments: Moments) -> Posterior:
        """Moments as a posterior of BoTorch's: a Gaussian.

        Args:
            moments: Of utilities, or of linear combinations of them.
        """
        return gaussian_posterior(moments)

    def site_rows(self, factors: Factors) -> SparseDesign:
        """The rows of utilities that have the engine's sites.

        Args:
            factors: Of all answers.
        """
        return factors.rows

    def initial_sites(self, factors: Factors, moments: Moments | None = None) -> Sites:
        """Initial sites of further answers: empty, as if nothing were said yet.

        Args:
            factors: Of the further answers, about their own points.
            moments: Of utilities at these points given the earlier answers; None where
                they are not known.
        """
        rows = self.site_rows(factors)
        none = rows.coefficients.new_zeros(rows.num_rows)
        return Sites(none, none)
