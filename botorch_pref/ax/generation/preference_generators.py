"""The generators of questions in Ax's registry of generators."""

from __future__ import annotations

from ax.adapter.registry import GeneratorRegistryBase


class PreferenceGenerators(GeneratorRegistryBase):
    """Ax's registry of generators with those of preferences.

    Attributes:
        PREFERENCE: Ax's modular BoTorch generator behind `PreferenceAdapter`, with
            transforms of parameters only: to the unit cube, categories to one-hot.
        SPREAD: Ax's Sobol sequence, which finds designs in thin polytopes too.
    """

    PREFERENCE = "Preference"
    SPREAD = "Spread"
