"""Check of sets of unequal size in one tensor, short rows ending in -1."""

from __future__ import annotations

from torch import Tensor

from botorch_pref.errors import FeedbackError
from botorch_pref.feedback.concatenate_answers import PADDING
from botorch_pref.feedback.feedback import check_integers


def check_padded_sets(name: str, value: object, noun: str) -> Tensor:
    """Checks that every row names at least two different items, then padding.

    Args:
        name: What to call the field in messages, for example ``Choices.sets``.
        value: What was given: ``batch_shape x m x k``.
        noun: What a row is, for example ``set``.

    Returns:
        The value as a ``long`` tensor.

    Raises:
        FeedbackError: Not integers, another shape, no rows, a negative number other
            than -1, padding before an item, fewer than two items in a row, or an item
            twice in a row.
    """
    rows = check_integers(name, value, "m x k", "indices into datapoints")
    if rows.dim() < 2:
        raise FeedbackError(
            f"{name} has shape {tuple(rows.shape)}, expected batch_shape x m x k, one "
            f"{noun} a row."
        )
    if 0 in rows.shape[:-1]:
        raise FeedbackError(
            f"{name} has no rows; leave the block out where nothing was said."
        )
    negative = rows < PADDING
    if bool(negative.any()):
        where = negative.nonzero()[0].tolist()
        raise FeedbackError(
            f"{name}{where} is {int(rows[tuple(where)])}, which is no index; pad short "
            f"{noun}s with {PADDING} at the end of the row."
        )
    _check_padding_is_last(name, rows)
    _check_two_items(name, rows, noun)
    _check_no_repeats(name, rows, noun)
    return rows


def _check_padding_is_last(name: str, rows: Tensor) -> None:
    early = (rows[..., :-1] == PADDING) & (rows[..., 1:] != PADDING)
    if bool(early.any()):
        where = early.nonzero()[0].tolist()
        raise FeedbackError(
            f"{name}{where} is padding ({PADDING}) before an item; put the padding at "
            "the end of the row."
        )


def _check_two_items(name: str, rows: Tensor, noun: str) -> None:
    sizes = (rows != PADDING).sum(-1)
    if bool((sizes < 2).any()):
        where = (sizes < 2).nonzero()[0].tolist()
        items = "no items" if int(sizes[tuple(where)]) == 0 else "one item"
        raise FeedbackError(
            f"{name}{where} has {items}; a {noun} of fewer than two says nothing: "
            "remove the row."
        )


def _check_no_repeats(name: str, rows: Tensor, noun: str) -> None:
    ordered = rows.sort(-1).values
    twice = (ordered[..., 1:] == ordered[..., :-1]) & (ordered[..., 1:] != PADDING)
    if bool(twice.any()):
        *where, column = twice.nonzero()[0].tolist()
        raise FeedbackError(
            f"{name}{where} names point {int(ordered[(*where, column)])} twice in one "
            f"{noun}; name every item once. (Two different points with equal "
            "coordinates are fine.)"
        )
