"""Generator of designs that are spread over the search space."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from ax.core.search_space import SearchSpaceDigest
from ax.generators.random.sobol import SobolGenerator
from ax.generators.types import TConfig

from botorch_pref.ax.space.polytope import ROOMY, Frame, share_inside

Array = Any
"""Of NumPy, as Ax hands it on."""


class SpreadGenerator(SobolGenerator):
    """Sobol points; in a polytope that few of them fall into, a random walk's.

    Ax tries 10,000 points for each question and then walks, from the same seed each
    time, which takes seconds where a polytope is thin and finds the same points again.
    """

    _frame: Frame | None = None

    def gen(
        self,
        n: int,
        search_space_digest: SearchSpaceDigest,
        linear_constraints: tuple[Array, Array] | None = None,
        equality_constraints: tuple[Array, Array] | None = None,
        fixed_features: dict[int, float] | None = None,
        model_gen_options: TConfig | None = None,
        rounding_func: Callable[[Array], Array] | None = None,
        generated_points: Array | None = None,
    ) -> tuple[Array, Array]:
        """See base class."""
        bounds = torch.tensor(search_space_digest.bounds, dtype=torch.float64)
        if linear_constraints is not None and not fixed_features:
            A, b = map(torch.from_numpy, linear_constraints)
            A, b = A.double(), b.double().flatten()
            if share_inside(A, b, bounds) < ROOMY:
                self._frame = self._frame or Frame.of(A, b, bounds)
                points = self._frame.spread(n, self.seed + self.init_position)
                self.init_position += n
                return points.numpy(), torch.ones(n).double().numpy()
        return super().gen(
            n,
            search_space_digest,
            linear_constraints,
            equality_constraints,
            fixed_features,
            model_gen_options,
            rounding_func,
            generated_points,
        )
