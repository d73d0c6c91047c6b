"""Names of the Ax metrics that hold answers."""

from __future__ import annotations

from ax.utils.common.constants import Keys

DUEL = Keys.PAIRWISE_PREFERENCE_QUERY.value
"""1 for the winner of a duel, 0 for the loser; Ax's own, and the objective."""
TIE = "preference_tie"
"""1 for both options of a duel that ended in a tie."""
CHOICE = "preference_choice"
"""1 for the best of three options or more, 0 for the others."""
RANK = "preference_rank"
"""1 for the best of three options or more, 2 for the second best and so on."""
STRENGTH = "preference_strength"
"""How strongly an option is preferred to the other one, from 0 to 1."""
VALID = "preference_valid"
"""1 for an option that could be judged, 0 for one that failed."""
LEVEL = "preference_level"
"""The level that an option was given on an ordered scale, 0 for the lowest."""
RATING = "preference_rating"
"""How good an option was said to be, from 0 to 1."""

NUM_LEVELS = "num_levels"
"""The property of the metric of levels that says how many there are."""

DECIMALS = 10
"""Digits after the point of a stored answer: what Ax's tables of data keep."""
