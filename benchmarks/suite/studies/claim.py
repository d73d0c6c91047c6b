"""A claim that one rule is better than another."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.suite.cell import Rule


@dataclass(frozen=True)
class Claim:
    """A sentence, and the two rules whose runs from the same starts decide it.

    Attributes:
        says: The sentence.
        better: The rule that is claimed to be better.
        worse: The other.
        of: What is less under the better one: regret at the ``end``, its mean over all
            duels on the ``way``, regret at the ``top`` of the hill at the end,
            ``seconds`` of the processor, or points that are ``invalid``.
        leads: Whether it stands on the first screen of the page.
    """

    says: str
    better: Rule
    worse: Rule
    of: str = "end"
    leads: bool = False
