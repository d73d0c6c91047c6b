"""Designs that Ax generates, moved to rows of the catalogue."""

from __future__ import annotations

from typing import Any

import torch
from ax.adapter.transforms.base import Transform
from ax.core.observation import ObservationFeatures
from ax.core.parameter import ChoiceParameter, RangeParameter
from ax.core.search_space import SearchSpace
from ax.core.types import TParameterization
from torch import Tensor

from botorch_pref.ax.space.catalogue import Catalogue


class CatalogueRows(Transform):
    """Designs replaced by the nearest row of the catalogue, where there is one.

    Numbers differ by shares of their range, ordered categories by places, others by 1.
    """

    no_op_for_experiment_data = True

    def __init__(
        self, search_space: SearchSpace | None = None, *args: Any, **kwargs: Any
    ) -> None:
        super().__init__(search_space, *args, **kwargs)
        assert search_space is not None
        adapter = self.adapter
        found = None if adapter is None else Catalogue.of(adapter._experiment)
        self._rows = [] if found is None else [*found.rows.values()]
        self._space = search_space.clone()
        placed = [self._placed(row) for row in self._rows]
        self._numbers = torch.stack(placed) if placed else torch.zeros(0, 0)

    def untransform_observation_features(
        self, observation_features: list[ObservationFeatures]
    ) -> list[ObservationFeatures]:
        """The features of rows.

        Args:
            observation_features: In the units of the search space; changed in place.
        """
        if self._rows:
            for features in observation_features:
                if self._space.parameters.keys() <= features.parameters.keys():
                    features.parameters = self._nearest(features.parameters)
        return observation_features

    def _nearest(self, given: TParameterization) -> TParameterization:
        off = (self._numbers - self._placed(given)).square().sum(-1)
        return dict(self._rows[int(off.argmin())])

    def _placed(self, given: TParameterization) -> Tensor:
        """Coordinates of a design between which distances are counted."""
        parts: list[float] = []
        for name, parameter in self._space.parameters.items():
            value: Any = given[name]
            if isinstance(parameter, RangeParameter):
                lower, upper = float(parameter.lower), float(parameter.upper)
                parts.append((value - lower) / (upper - lower))
            elif isinstance(parameter, ChoiceParameter):
                values = parameter.values
                if parameter.is_ordered:
                    parts.append(values.index(value) / (len(values) - 1))
                else:
                    parts += [(value == other) / 2**0.5 for other in values]
        return torch.tensor(parts, dtype=torch.float64)
