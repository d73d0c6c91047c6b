"""Sentences that say why a question is asked, each true of the question with it."""

from __future__ import annotations

from botorch.acquisition.acquisition import AcquisitionFunction

from botorch_pref.acquisition import (
    DuelingBALD,
    DuelingEUBO,
    DuelingExploringEIIG,
    DuelingJointKG,
)
from botorch_pref.acquisition.line_search import LineEUBO
from botorch_pref.acquisition.rules import DuelingJointEUBO

_PURPOSES: dict[type[AcquisitionFunction], str] = {
    DuelingBALD: (
        "so that the answer is expected to say as much as can be of the utility of all "
        "designs."
    ),
    DuelingEUBO: "so that the better one is expected to be as good as can be.",
    DuelingExploringEIIG: (
        "for what an answer teaches, or now and then for a chance to be far better."
    ),
    DuelingJointEUBO: "so that the best option is expected to be as good as can be.",
    DuelingJointKG: (
        "so that the design to take after the answer is expected to be as good as can "
        "be."
    ),
    LineEUBO: "so that the best design on it is expected to be as good as can be.",
}
"""The purpose of each acquisition function, as the end of a sentence."""

REASON_OF_CHECK = (
    "The answer to this duel is foreseen: it shows how far the answers can be relied "
    "on, which the answers so far leave open."
)
"""The reason of a duel that shows whether answers can be relied on."""


def reason_of_spread(subject: str, num_answers: int, num_initial: int) -> str:
    """Says why a question is spread: what the model lacks to choose.

    Args:
        subject: The end of the sentence, of what is spread.
        num_answers: How many answers the model has.
        num_initial: How many it needs.
    """
    if num_answers >= num_initial:
        lack = "All answers are about one design; before there are two,"
    else:
        number = "is 1 answer" if num_answers == 1 else f"are {num_answers} answers"
        lack = f"There {number}; before there are {num_initial},"
    return f"{lack} {subject}"


def reason_of_pair(rule: type[AcquisitionFunction]) -> str:
    """Says why the two options were chosen that an acquisition function values most."""
    return f"Both options were chosen {_PURPOSES[rule]}"


def reason_of_joined(
    rule: type[AcquisitionFunction],
    *,
    num_beside: int,
    is_best_so_far: bool,
    has_rival: bool,
    num_chosen: int,
    is_joint: bool,
) -> str:
    """Says why options join others, or the best design.

    Args:
        rule: The acquisition function that chose them.
        num_beside: How many options there were already; of 0 they join the best design.
        is_best_so_far: Whether that design is the best so far, or one in its place.
        has_rival: Whether one of the others is an `unbeaten_rival`.
        num_chosen: How many options join.
        is_joint: Whether all of them were chosen together.
    """
    if num_beside:
        verb = "options were" if num_beside > 1 else "option was"
        start = f"{num_beside} {verb} there already"
    elif is_best_so_far:
        start = "One option is the best design so far"
    else:
        start = (
            "One option is expected to be good, as the best design so far cannot be "
            "shown"
        )
    if has_rival:
        start += (
            "; another one won an answer and lost none, although the model expects it "
            "to be worse"
        )
    clause = "the others were" if num_chosen > 1 else "the other one was"
    together = " together," if is_joint and num_chosen > 1 else ""
    return f"{start}; {clause} chosen{together} {_PURPOSES[rule]}"


def reason_of_line(centre: str, are_some_turned: bool) -> str:
    """Says why a line through a design was chosen, which ``centre`` names.

    It has to say so where ``are_some_turned``: lines were passed over that move the
    number of a recent one.
    """
    reason = (
        f"The line runs through the {centre} and moves one number, chosen "
        f"{_PURPOSES[LineEUBO]}"
    )
    passed_over = " A number that was just moved alone is passed over."
    return f"{reason}{passed_over}" if are_some_turned else reason


def reason_of_plane(centre: str) -> str:
    """Says why a plane through a design was chosen, which ``centre`` names."""
    return (
        f"The options move two numbers of the {centre}, chosen "
        f"{_PURPOSES[DuelingJointEUBO]}"
    )
