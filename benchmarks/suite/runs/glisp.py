"""GLISp, the rival that fits radial basis functions to preferences."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor

from benchmarks.suite.cell import Rule
from botorch_pref.simulation.problem import Problem


class PlayerOfGLISp:
    """GLISp (Bemporad and Piga 2021) by the package ``glis``, with its defaults.

    It asks about one new point and the best so far, which stays the best until a new
    point is preferred. It recommends the best so far.

    GLISp starts with comparisons of its own with the best so far. Here it starts with
    the answers to the random duels that start the runs of all rules. Its best so far is
    then the winner of least cost under the radial basis functions that it fits to them.

    Args:
        rule: Its names.
        problem: What is optimised.
        errs: Whether the judge errs, which GLISp is not told.
        sources: Of the one run's draws.
        num_questions: How long the run is, which GLISp takes into account.

    Raises:
        ImportError: ``glis`` is not installed.
    """

    def __init__(
        self,
        rule: Rule,
        problem: Problem,
        errs: bool,
        sources: Sequence[Generator],
        num_questions: int,
    ) -> None:
        (self.source,) = sources
        self.problem, self.num_questions = problem, num_questions
        self.make_solver = started_solver()
        self.solver: Any = None

    def learn(self, told: Tensor) -> None:
        """Takes the last answer.

        Args:
            told: The options of all questions, the best first, `1 x m x 2 x d`.
        """
        self.told = told[0]
        if self.solver is None:
            self.best = self.told[-1, 0]
            return
        challenger = self._tensor(self.solver.xnext)
        wins = torch.equal(self.told[-1, 0], self.problem.project(challenger))
        with seeded_numpy(self.source):
            self.solver.update(-1 if wins else 1)
        self.best = self.told[-1, 0]

    def recommended(self) -> Tensor:
        """The best point so far, `1 x d`."""
        return self.best.unsqueeze(0)

    def best_anywhere(self) -> Tensor:
        """The best point so far, `1 x d`: GLISp recommends no other."""
        return self.recommended()

    def ask(self) -> Tensor:
        """The next question, `1 x 2 x d`."""
        if self.solver is None:
            with seeded_numpy(self.source):
                self.solver = self._start()
        question = [self._tensor(self.solver.xnext), self._tensor(self.solver.xbest)]
        return torch.stack(question).unsqueeze(0)

    def _start(self) -> Any:
        """Makes the solver after the random duels, which has chosen its first point."""
        number, _, dim = self.told.shape
        points = self.told.flatten(0, 1).numpy()
        solver = self.make_solver(
            (np.zeros(dim), np.ones(dim)),
            points=points,
            n_initial_random=len(points),
            expected_max_evals=number + self.num_questions,
            display=0,
        )
        solver.initialize()
        pairs = np.arange(2 * number).reshape(number, 2)
        weights = solver.get_rbf_weights(
            solver.MM[solver.itheta], 2 * number, pairs, np.empty((0, 2), int), -1
        )
        costs = solver.MM[solver.itheta] @ weights
        best = 2 * int(costs[::2].argmin())
        # The duel that the best has won is told last: GLISp then goes on by itself.
        solver.swap_last(best)
        solver.I = pairs[:-1].tolist()
        solver.ibest, solver.iter = 2 * number - 2, 2 * number - 1
        solver.xbest, solver.xnext = (solver.X[i] for i in (-2, -1))
        labels = [True] * (2 * number - 1)
        solver.isfeas_seq, solver.UnknownFeasible = [*labels], [*labels]
        solver.UnknownSatisfactory = [*labels]
        solver.update(1)
        return solver

    def _tensor(self, point: Any) -> Tensor:
        return torch.as_tensor(point, dtype=torch.double).clamp(0.0, 1.0)


def started_solver() -> type[Any]:
    """GLISp as a class that starts with points of ours.

    ``glis`` imports a Latin hypercube from ``pyDOE``, whose releases with that name do
    not run on today's SciPy. It is not called where the points are ours: an empty
    module stands for it while ``glis`` is imported.

    Raises:
        ImportError: ``glis`` is not installed.
    """
    absent = "pyDOE" not in sys.modules
    if absent:
        sys.modules["pyDOE"] = ModuleType("pyDOE")
        sys.modules["pyDOE"].lhs = None  # type: ignore[attr-defined]
    try:
        from glis.solvers import GLISp
    finally:
        if absent:
            del sys.modules["pyDOE"]

    class Started(GLISp):  # type: ignore[misc]
        """GLISp with initial points that are given.

        Args:
            bounds: Least and largest inputs.
            points: The initial points, `n x d`.
            settings: Of GLISp.
        """

        def __init__(self, bounds: Any, *, points: Any, **settings: Any) -> None:
            super().__init__(bounds, **settings)
            self.points = points

        def initialize_(self) -> Any:
            """See base class."""
            self.KnownFeasible = [1.0] * len(self.points)
            self.X = list(self.points)
            return (self.points - self.d0) / self.dd

        def swap_last(self, place: int) -> None:
            """Swaps the last two initial points with those from a place on."""
            order = np.arange(len(self.points))
            pair, last = [place, place + 1], [-2, -1]
            order[pair], order[last] = order[last], order[pair]
            self.X = [self.X[i] for i in order]
            matrix = self.MM[self.itheta]
            self.MM[self.itheta] = matrix[np.ix_(order, order)]

    return Started


@contextmanager
def seeded_numpy(source: Generator) -> Iterator[None]:
    """Seeds NumPy's global draws, which GLISp's swarm takes, and restores them."""
    state = np.random.get_state()  # noqa: NPY002
    np.random.seed(int(torch.randint(2**31, (), generator=source)))  # noqa: NPY002
    try:
        yield
    finally:
        np.random.set_state(state)  # noqa: NPY002
