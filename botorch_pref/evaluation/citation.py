"""How to cite the package, in a line for whatever leaves it."""

from __future__ import annotations

import botorch_pref


def citation() -> str:
    """Returns a line by which readers of a report or a board can cite the package."""
    return (
        "Made with botorch_pref. To cite it: The botorch_pref authors (2026). "
        "botorch_pref: preference Gaussian processes and duels behind BoTorch's "
        f"interface. Version {botorch_pref.__version__}."
    )
