"""The search for the question that is worth most."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import comb
from typing import Any

import torch
from ax.generators.torch.botorch_modular.optimizer_argparse import optimizer_argparse
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.exceptions.errors import CandidateGenerationError
from botorch.models.model import Model
from botorch.optim.optimize import (
    optimize_acqf,
    optimize_acqf_discrete,
    optimize_acqf_discrete_local_search,
)
from botorch.optim.optimize_mixed import optimize_acqf_mixed_alternating
from botorch.utils.sampling import draw_sobol_samples
from botorch.utils.transforms import is_ensemble
from torch import Tensor

from botorch_pref.acquisition import incumbent
from botorch_pref.acquisition.rules import WrappedAcquisition, nearness
from botorch_pref.ax.generation.option_space import (
    Constraint,
    Coordinate,
    OptionSpace,
    ToldApart,
    can_be_told,
)
from botorch_pref.ax.space.polytope import ROOMY, Frame, share_inside
from botorch_pref.posteriors.difference import difference_mixture

_MARGIN = 1.25
"""The price begins here, in smallest differences, so that the best options above it
differ by one."""


class QuestionValue(WrappedAcquisition):
    r"""Value of the options of a question, found by their coordinates.

    .. math:: \alpha(x) - 2 c \, \Big( \frac{(1.25^2 - r^2)_+}{1.25^2 - 1} \Big)^2

    with the acquisition function :math:`\alpha`, the squared difference :math:`r^2` of
    options that differ least or from the question that was asked (see `ToldApart`), and
    the spread :math:`c` of the values of ``draws``: a question whose options nobody
    could tell apart (:math:`r < 1`) is worth less than one drawn at random, and a
    smooth slope leads out of there.

    Args:
        acquisition: What values options, ``batch_shape x q x d``.
        features: From coordinates to such options.
        apart: What the options must differ from, besides the points that are pending.
        draws: Some questions, ``b x q x d``, features.
    """

    def __init__(
        self,
        acquisition: AcquisitionFunction,
        features: Callable[[Tensor], Tensor],
        apart: ToldApart | None,
        draws: Tensor,
    ) -> None:
        super().__init__(acquisition)
        self._features = features
        self._apart = apart
        self._price = 0.0 if apart is None else 2 * self._spread(draws, apart)

    def forward(self, X: Tensor) -> Tensor:
        """The value, less the price.

        Args:
            X: Coordinates, ``b x q x c`` or as ``features`` takes them.

        Returns:
            ``b``.
        """
        options = self._features(X)
        value: Tensor = self.acquisition(options)
        if self._apart is None:
            return value
        apart = replace(self._apart, others=self.X_pending)
        gap = torch.minimum(apart.smallest_gap(options), apart.novelty(options))
        return value - self._price * nearness(gap, free=_MARGIN**2, full=1.0)

    def _spread(self, draws: Tensor, apart: ToldApart) -> float:
        """Distance of the largest value from that of a middling question."""
        alike = draws.clone()
        alike[..., -1:, :] = (
            draws[..., :1, :] if apart.reference is None else apart.reference[:1]
        )
        with torch.no_grad():
            values = self.acquisition(draws)
            largest = torch.cat([values, self.acquisition(alike)]).nan_to_num().max()
            spread = largest - values.nan_to_num().median()
        return max(float(spread), 1e-6)


MAX_QUESTIONS = 20_000
"""Up to so many questions are valued one by one; of more, neighbours are searched."""

_HOPELESS = 0.005
"""Probability below which nobody need ask whether a design is better than the best.
Models of few answers are often too sure of themselves."""

_CHUNK = 2_048
_EVALUATIONS = 100_000


def best_of_designs(
    acquisition: AcquisitionFunction, designs: Tensor, size: int, apart: ToldApart
) -> Tensor:
    """The most valuable question that was not asked, as long as one is worth asking.

    Worth asking is a question with an option that is better than the reference, or the
    incumbent, with a probability of 0.005 or more. When all of them were asked, those
    that were asked least often count; then those that are not worth it.

    Args:
        acquisition: What values options, ``batch_shape x size x d``.
        designs: ``N x d``.
        size: How many options are chosen, jointly.
        apart: What the options must differ from.

    Returns:
        ``size x d``.

    Raises:
        CandidateGenerationError: No question is left whose options can be told apart
            and that is not pending.
    """
    reference = apart.reference
    if reference is None:
        reference = incumbent(acquisition.model).reshape(-1, designs.shape[-1])
    reference = reference[:1]
    hopeful = _win_probability(acquisition.model, designs, reference) >= _HOPELESS
    hopeful &= (designs != reference).any(-1)

    def rank(places: Tensor) -> Tensor:
        """Place of a question in the order of asking; infinite if not at all."""
        options = designs[places]
        allowed = can_be_told(apart.smallest_gap(options)) & ~apart.is_pending(options)
        asked = apart.times_asked(options)
        late = asked + (len(apart.asked) + 1) * ~hopeful[places].any(-1)
        return torch.where(allowed, late.double(), torch.inf)

    if comb(len(designs), size) > MAX_QUESTIONS:
        return designs[_searched(acquisition, designs, size, rank)]
    places = torch.tensor([*combinations(range(len(designs)), size)]).view(-1, size)
    ranks = _by_chunks(rank, places) if len(places) else torch.zeros(0)
    first = ranks.min() if len(ranks) else torch.inf
    if first == torch.inf:
        raise CandidateGenerationError("No question is left to ask about designs.")
    return designs[_best_of(acquisition, designs, places[ranks == first])]


def _best_of(
    acquisition: AcquisitionFunction, designs: Tensor, places: Tensor
) -> Tensor:
    """The most valuable of some questions, as places of designs."""
    by_place = _AtPlaces(acquisition, designs, places.shape[-1])
    best, _ = optimize_acqf_discrete(
        by_place, 1, places.to(designs), max_batch_size=_CHUNK
    )
    return best.squeeze(0).long()


def _searched(
    acquisition: AcquisitionFunction,
    designs: Tensor,
    size: int,
    rank: Callable[[Tensor], Tensor],
) -> Tensor:
    """The most valuable question that is found by exchanging one option at a time."""
    neighbours = len(designs) * size
    restarts = min(max(_EVALUATIONS // (4 * neighbours), 1), 8)
    choices = [torch.arange(len(designs)).to(designs)] * size
    for last in (0.0, torch.inf):
        by_place = _AtPlaces(acquisition, designs, size, rank, last)
        best, value = optimize_acqf_discrete_local_search(
            by_place, choices, 1, num_restarts=restarts, raw_samples=1_024
        )
        if value > -torch.inf:
            return best.squeeze(0).long()
    raise CandidateGenerationError("No question was found to ask about designs.")


class _AtPlaces(AcquisitionFunction):
    """Value of questions by the places of their options among designs."""

    def __init__(
        self,
        acquisition: AcquisitionFunction,
        designs: Tensor,
        size: int,
        rank: Callable[[Tensor], Tensor] | None = None,
        last: float = torch.inf,
    ) -> None:
        super().__init__(acquisition.model)
        self.acquisition = acquisition
        self._designs, self._size = designs, size
        self._rank, self._last = rank, last

    def forward(self, X: Tensor) -> Tensor:
        """The value; minus infinity of a question that may not be asked.

        Args:
            X: Places, ``b x 1 x size``.
        """
        places = X.squeeze(-2).long()
        with torch.no_grad():
            value: Tensor = self.acquisition(self._designs[places])
            if self._rank is None:
                return value
            ranks = self._rank(places)
        allowed = (ranks <= self._last) & (ranks < torch.inf)
        return torch.where(allowed, value, -torch.inf)


def _win_probability(model: Model, designs: Tensor, reference: Tensor) -> Tensor:
    """Probability that each design is better than the reference, ``N``."""

    def of(points: Tensor) -> Tensor:
        pairs = torch.stack([points, reference.expand_as(points)], dim=-2)
        if is_ensemble(model):
            pairs = pairs.unsqueeze(-3)
        with torch.no_grad():
            means, variance = difference_mixture(model.posterior(pairs), 0, 1)
        wins = torch.special.ndtr(means / variance.clamp_min(1e-12).sqrt()).mean(0)
        return wins.mean(-1) if is_ensemble(model) else wins

    return _by_chunks(of, designs)


def _by_chunks(function: Callable[[Tensor], Tensor], X: Tensor) -> Tensor:
    return torch.cat([function(chunk) for chunk in X.split(_CHUNK)])


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
