"""Ax's acquisition for dueling acquisition functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from ax.core.search_space import SearchSpaceDigest
from ax.generators.torch.botorch_modular.acquisition import Acquisition
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.acquisition.analytic import AnalyticAcquisitionFunction
from botorch.exceptions.errors import CandidateGenerationError, InfeasibilityError
from botorch.generation.sampling import SamplingStrategy
from botorch.models.model import Model
from torch import Tensor

from botorch_pref.acquisition.base import DuelingAcquisition
from botorch_pref.ax.generation.option_space import Constraint, OptionSpace, ToldApart
from botorch_pref.ax.generation.search import QuestionSearch


@dataclass(frozen=True, eq=False)
class QuestionToFind:
    """Task of `PreferenceAcquisition`: the space and what is no question.

    Attributes:
        space: Of the designs.
        apart: What the options must differ from, but for the reference and pending
            points; None where one design is sought.
    """

    space: OptionSpace
    apart: ToldApart | None

    OPTION = "question"
    """The name by which Ax passes it on."""


class PreferenceAcquisition(Acquisition):
    """Ax's acquisition, that looks for the options of one question.

    Whole numbers and choices are valued as they are shown, and options that nobody
    could tell apart, or questions that were asked, are no candidates: see
    `QuestionSearch`.

    Ax hands pending points to input constructors, which then must take them; ours do
    not, because every acquisition function of duels takes them in one way.
    """

    @property
    def reference(self) -> Tensor | None:
        """The point that challengers meet, ``1 x d``; None where pairs are chosen."""
        return getattr(self.acqf, "X_ref", None)

    def _construct_botorch_acquisition(
        self,
        botorch_acqf_class: type[AcquisitionFunction],
        botorch_acqf_options: dict[str, Any],
        model: Model,
    ) -> AcquisitionFunction:
        pending, self.X_pending = self.X_pending, None
        acqf = super()._construct_botorch_acquisition(
            botorch_acqf_class, botorch_acqf_options, model
        )
        self.X_pending = pending
        question = self.options.get(QuestionToFind.OPTION)
        chooses_all = isinstance(acqf, DuelingAcquisition) and acqf.X_ref is None
        if chooses_all and question is not None and question.apart is not None:
            # Whole questions, also where an option of theirs was seen before.
            asked = question.apart.pending.flatten(0, 1)
            pending = asked if len(asked) else None
        # BoTorch's analytic functions take none.
        if pending is not None and not isinstance(acqf, AnalyticAcquisitionFunction):
            acqf.set_X_pending(pending)
        return acqf

    def optimize(
        self,
        n: int,
        search_space_digest: SearchSpaceDigest,
        inequality_constraints: list[Constraint] | None = None,
        equality_constraints: list[Constraint] | None = None,
        fixed_features: dict[int, float] | None = None,
        rounding_func: Callable[[Tensor], Tensor] | None = None,
        optimizer_options: dict[str, Any] | None = None,
        candidate_set: Tensor | None = None,
        sampling_strategy: SamplingStrategy | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The options with the largest value.

        Where features are fixed, or a set of candidates is given, Ax's own search.

        Args:
            n: How many.
            search_space_digest: See base class.
            inequality_constraints: See base class.
            equality_constraints: See base class.
            fixed_features: See base class.
            rounding_func: See base class.
            optimizer_options: Of BoTorch's ``optimize_acqf``.
            candidate_set: See base class.
            sampling_strategy: See base class.

        Returns:
            The options, ``n x d``, the value of each challenger or of all options
            together, and their weights.

        Raises:
            CandidateGenerationError: None was found that satisfies the constraints.
        """
        question = self.options.get(QuestionToFind.OPTION)
        given = candidate_set is not None or sampling_strategy is not None
        if question is None or fixed_features or given:
            return super().optimize(
                n,
                search_space_digest,
                inequality_constraints,
                equality_constraints,
                fixed_features,
                rounding_func,
                optimizer_options,
                candidate_set,
                sampling_strategy,
            )
        search = QuestionSearch(
            question.space,
            torch.tensor(search_space_digest.bounds, dtype=self.dtype).T,
            inequality_constraints or [],
            equality_constraints or [],
            rounding_func,
            optimizer_options or {},
        )
        try:
            found = search.best(self.acqf, n, self._apart(question))
        except InfeasibilityError as error:
            # BoTorch finds no start where whole numbers leave next to no room.
            raise CandidateGenerationError(f"No start was found: {error}") from error
        with torch.no_grad():
            alone = self.reference is not None
            value = self.acqf(found.unsqueeze(1) if alone else found)
        return found, value, torch.ones(n, dtype=self.dtype)

    def _apart(self, question: QuestionToFind) -> ToldApart | None:
        if question.apart is None:
            return None
        return replace(question.apart, reference=self.reference)
