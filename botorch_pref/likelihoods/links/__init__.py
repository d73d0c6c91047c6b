"""Links from the difference of two utilities to the answer of a duel."""
