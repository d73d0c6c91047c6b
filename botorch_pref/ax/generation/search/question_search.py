"""The best options of a question: designs valued one by one, or a search of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from ax.generators.torch.botorch_modular.optimizer_argparse import optimizer_argparse
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.exceptions.errors import CandidateGenerationError
from botorch.optim.optimize import optimize_acqf, optimize_acqf_discrete
from botorch.optim.optimize_mixed import optimize_acqf_mixed_alternating
from botorch.utils.sampling import draw_sobol_samples
from torch import Tensor

from botorch_pref.ax.generation.search.finite_search import best_of_designs
from botorch_pref.ax.generation.search.option_space import (
    Constraint,
    Coordinate,
    OptionSpace,
)
from botorch_pref.ax.generation.search.question_value import QuestionValue
from botorch_pref.ax.generation.search.told_apart import ToldApart, can_be_told
from botorch_pref.ax.space.polytope import ROOMY, Frame, share_inside

_MAX_STEPS = 20
"""Whole numbers of up to so many values are tried one by one."""

_DRAWS = 256
"""Questions by which the spread of values is measured."""


@dataclass(frozen=True, eq=False)
class QuestionSearch:
    """Search for the options of a question.

    Attributes:
        space: Of the designs.
        bounds: ``2 x d``, of features.
        constraints: Linear inequalities on features.
        equalities: Linear equalities on features.
        rounding: From features to those that are shown.
        options: Of BoTorch's ``optimize_acqf``.
    """

    space: OptionSpace
    bounds: Tensor
    constraints: Sequence[Constraint]
    equalities: Sequence[Constraint]
    rounding: Callable[[Tensor], Tensor] | None
    options: dict[str, Any]

    def best(
        self, acquisition: AcquisitionFunction, size: int, apart: ToldApart | None
    ) -> Tensor:
        """The options with the largest value.

        Challengers of a reference are chosen one after the other, all options of a
        question without one jointly.

        Args:
            acquisition: What values options, ``batch_shape x q x d``.
            size: How many options are chosen.
            apart: What they must differ from; None where one design is sought.

        Returns:
            Features, ``size x d``.

        Raises:
            CandidateGenerationError: There are none.
        """
        if size > 1 and apart is not None and apart.reference is not None:
            return self._one_by_one(acquisition, size, apart, apart.reference)
        designs = self.space.designs([*self.constraints, *_both_ways(self.equalities)])
        if designs is not None and apart is None:
            found, _ = optimize_acqf_discrete(acquisition, size, designs)
            return found
        if designs is not None:
            assert apart is not None
            return best_of_designs(acquisition, designs, size, apart)
        found = self._searched(acquisition, size, apart)
        if apart is not None and not can_be_told(apart.novelty(found)):
            # All that is worth asking was asked: again, then.
            apart = replace(apart, asked=apart.pending)
            found = self._searched(acquisition, size, apart)
        return found

    def _one_by_one(
        self,
        acquisition: AcquisitionFunction,
        size: int,
        apart: ToldApart,
        reference: Tensor,
    ) -> Tensor:
        pending = getattr(acquisition, "X_pending", None)
        waiting = reference[:0] if pending is None else pending
        options = reference
        for _ in range(size):
            apart = replace(apart, reference=options)
            options = torch.cat([options, self.best(acquisition, 1, apart)])
            chosen = options[len(reference) :]
            acquisition.set_X_pending(torch.cat([waiting, chosen]))
        acquisition.set_X_pending(pending)
        return chosen

    def _searched(
        self, acquisition: AcquisitionFunction, size: int, apart: ToldApart | None
    ) -> Tensor:
        steps = [i for i, c in enumerate(self.space.coordinates) if self._is_stepped(c)]
        draws = draw_sobol_samples(self._coordinate_bounds, _DRAWS, size)
        draws = self.space.features(draws)
        frame = None if steps else self._frame()
        if frame is not None:
            return self._in_frame(frame, acquisition, size, apart, draws)
        if not steps:
            value = QuestionValue(acquisition, self.space.features, apart, draws)
            return self._continuous(value, size)
        num = len(self.space.coordinates)

        def features(X: Tensor) -> Tensor:
            return self.space.features(X.squeeze(-2).unflatten(-1, (size, num)))

        value = QuestionValue(acquisition, features, apart, draws)
        found = self._mixed(value, size, steps)
        return features(found.unsqueeze(0)).squeeze(0)

    def _frame(self) -> Frame | None:
        """Coordinates of a thin or flat polytope, where starts are not found by trying.

        None without constraints, and where these leave room.
        """
        found = self._on_coordinates(self.constraints)
        if found is None or self.equalities:
            return None
        A = torch.zeros(len(found), len(self.space.coordinates), dtype=torch.float64)
        for row, (indices, coefficients, _) in zip(A, found, strict=True):
            row[indices] = -coefficients.to(A)
        b = -torch.tensor([least for *_, least in found], dtype=torch.float64)
        polytope = (A, b, self._coordinate_bounds.double().T)
        return None if share_inside(*polytope) >= ROOMY else Frame.of(*polytope)

    def _in_frame(
        self,
        frame: Frame,
        acquisition: AcquisitionFunction,
        size: int,
        apart: ToldApart | None,
        draws: Tensor,
    ) -> Tensor:
        """The features of the best options, found by their coordinates in a frame."""
        slopes, slack = frame.inequalities
        num_axes = frame.axes.shape[-1]
        if num_axes == 0:
            raise CandidateGenerationError("Constraints leave one design and no other.")

        def features(W: Tensor) -> Tensor:
            return self.space.features(frame.points(W))

        every = torch.arange(num_axes)
        value = QuestionValue(acquisition, features, apart, draws)
        # The polytope is one unit wide along each axis, with the centre in it.
        bounds = torch.ones(2, num_axes, dtype=torch.float64)
        bounds[0] = -1
        found, _ = optimize_acqf(
            value,
            bounds,
            q=size,
            inequality_constraints=[
                (every, -slope, -float(most))
                for slope, most in zip(slopes, slack, strict=True)
            ],
            **optimizer_argparse(
                value,
                optimizer="optimize_acqf",
                optimizer_options={**self.options, "sequential": False},
            ),
        )
        best = features(found)
        return best if self.rounding is None else self.rounding(best)

    def _continuous(self, value: QuestionValue, size: int) -> Tensor:
        rounding = self.rounding

        def shown(X: Tensor) -> Tensor:
            assert rounding is not None
            return self.space.coordinates_of(rounding(self.space.features(X)))

        given = {"sequential": False, **self.options}
        found, _ = optimize_acqf(
            value,
            self._coordinate_bounds,
            q=size,
            inequality_constraints=self._on_coordinates(self.constraints),
            equality_constraints=self._on_coordinates(self.equalities),
            post_processing_func=None if rounding is None else shown,
            **optimizer_argparse(
                value, optimizer="optimize_acqf", optimizer_options=given
            ),
        )
        return self.space.features(found)

    def _mixed(self, value: QuestionValue, size: int, steps: list[int]) -> Tensor:
        """Coordinates of all options side by side, ``1 x (size * c)``."""
        coordinates = self.space.coordinates
        num = len(coordinates)
        values: tuple[dict[int, list[float]], dict[int, list[float]]] = ({}, {})
        for i in steps:
            table = coordinates[i].table
            assert table is not None
            category = coordinates[i].is_category
            tried = torch.arange(len(table)) if category else table[:, 0].sort().values
            for option in range(size):
                values[category][option * num + i] = tried.double().tolist()
        with warnings.catch_warnings():
            # Under constraints BoTorch gives SciPy an option of another method.
            warnings.filterwarnings("ignore", "Unknown solver options: tol")
            # A step that starts where it could end finds nothing better.
            warnings.filterwarnings("ignore", "Optimization failed", RuntimeWarning)
            found, _ = optimize_acqf_mixed_alternating(
                value,
                self._coordinate_bounds.repeat(1, size),
                discrete_dims=values[False],
                cat_dims=values[True],
                inequality_constraints=self._side_by_side(self.constraints, size),
                equality_constraints=self._side_by_side(self.equalities, size),
                **_mixed_options(self.options),
            )
        return found

    @property
    def _coordinate_bounds(self) -> Tensor:
        """``2 x c``."""
        columns = []
        for coordinate in self.space.coordinates:
            if coordinate.is_category:
                assert coordinate.table is not None
                last = float(len(coordinate.table) - 1)
                columns.append(self.bounds.new_tensor([0.0, last]))
            else:
                columns.append(self.bounds[:, coordinate.columns[0]])
        return torch.stack(columns, dim=-1)

    def _is_stepped(self, coordinate: Coordinate) -> bool:
        """Whether values are tried one by one.

        Whole numbers of many values are rounded, unless a constraint could be broken.
        """
        if coordinate.table is None:
            return False
        constrained = {
            int(i) for indices, *_ in self.constraints for i in indices.tolist()
        }
        few = len(coordinate.table) <= _MAX_STEPS
        return few or coordinate.is_category or coordinate.columns[0] in constrained

    def _on_coordinates(
        self, constraints: Sequence[Constraint]
    ) -> list[Constraint] | None:
        """Constraints on coordinates; None without any, as BoTorch wants it."""
        place = {
            coordinate.columns[0]: i
            for i, coordinate in enumerate(self.space.coordinates)
        }
        return [
            (torch.tensor([place[i] for i in indices.tolist()]), coefficients, least)
            for indices, coefficients, least in constraints
        ] or None

    def _side_by_side(
        self, constraints: Sequence[Constraint], size: int
    ) -> list[Constraint] | None:
        """Constraints on each of the options whose coordinates are side by side."""
        num = len(self.space.coordinates)
        return [
            (indices + option * num, coefficients, least)
            for indices, coefficients, least in self._on_coordinates(constraints) or []
            for option in range(size)
        ] or None


def _both_ways(equalities: Sequence[Constraint]) -> list[Constraint]:
    """Equalities as two inequalities each."""
    ways = [(i, a, b) for i, a, b in equalities]
    return [*ways, *((i, -a, -b) for i, a, b in ways)]


def _mixed_options(given: dict[str, Any]) -> dict[str, Any]:
    """Options of ``optimize_acqf`` as the mixed optimiser has them."""
    inner = given.get("options", {})
    limits = {k: inner[k] for k in ("batch_limit", "init_batch_limit") if k in inner}
    if "maxiter" in inner:
        limits["maxiter_continuous"] = inner["maxiter"]
    chosen: dict[str, Any] = {
        k: given[k] for k in ("num_restarts", "raw_samples") if k in given
    }
    defaults: dict[str, Any] = {"num_restarts": 8, "raw_samples": 512}
    return {
        **defaults,
        **chosen,
        "options": {
            # Starts come from draws: relaxed categories mean nothing.
            "initialization_strategy": "random",
            "num_spray_points": 0,
            # Those of more steps are rounded before this optimiser sees them.
            "max_discrete_values": 1_000,
            **limits,
        },
    }
