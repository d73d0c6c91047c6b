"""Options that nobody could tell apart, as one entry of the report."""

from __future__ import annotations

from collections.abc import Sequence

from ax.core.arm import Arm
from ax.core.search_space import SearchSpace

from botorch_pref.ax.space.smallest_difference import (
    SmallestDifference,
    squared_difference,
)


def representatives(
    arms: Sequence[Arm],
    utilities: Sequence[float],
    space: SearchSpace,
    smallest: SmallestDifference,
) -> list[int]:
    """The option that stands for each one and its near copies.

    From the largest utility downwards, an option stands for all that differ from it by
    less than the smallest difference and are not stood for yet.

    Args:
        arms: The options.
        utilities: Theirs.
        space: Ax's.
        smallest: See `Settings`.

    Returns:
        A place for each option, its own if it stands for itself.
    """
    found: dict[int, int] = {}
    for i in sorted(range(len(arms)), key=lambda i: -utilities[i]):
        if i in found:
            continue
        for j, arm in enumerate(arms):
            apart = squared_difference(
                space, smallest, arms[i].parameters, arm.parameters
            )
            if j not in found and apart < 1:
                found[j] = i
    return [found[i] for i in range(len(arms))]
