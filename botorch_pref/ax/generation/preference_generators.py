"""The generator of questions in Ax's registry of generators."""

from __future__ import annotations

from ax.adapter.registry import GeneratorRegistryBase


class PreferenceGenerators(GeneratorRegistryBase):
    """Ax's registry of generators with the one of preferences.

    Attributes:
        PREFERENCE: Ax's modular BoTorch generator behind `PreferenceAdapter`, with
            transforms of parameters only: to the unit cube, categories to one-hot.
    """

    PREFERENCE = "Preference"
