"""What containers refuse, and that the message says where and what to do."""

import dataclasses
import re

import pytest
import torch
from registry import RANDOM

from botorch_pref.errors import FeedbackError
from botorch_pref.feedback import (
    Choices,
    Comparisons,
    OrdinalRatings,
    Rankings,
    Ratings,
    Strengths,
    Validity,
)
from botorch_pref.models.data import TrainingSet, collect_feedback

PAIRS = [[0, 1], [2, 0]]


def ints(values):
    return torch.tensor(values, dtype=torch.long)


# Arguments, and what the message must name: the field and row, and the remedy.
WRONG = {
    "nothing said": (lambda: Comparisons(None), ["neither pairs nor ties", "leave it"]),
    "a list": (lambda: Comparisons(PAIRS), ["Comparisons.pairs", "torch.tensor"]),
    "float": (
        lambda: Comparisons(torch.tensor(PAIRS).double()),
        ["Comparisons.pairs", "float64", ".long()"],
    ),
    "complex": (
        lambda: Comparisons(torch.tensor(PAIRS) * 1j),
        ["Comparisons.pairs", "complex", ".long()"],
    ),
    "bool": (
        lambda: Comparisons(torch.tensor([[True, False]])),
        ["Comparisons.pairs", "bool", ".long()"],
    ),
    "three wide": (
        lambda: Comparisons(ints([[0, 1, 2]])),
        ["Comparisons.pairs", "(1, 3)", "m x 2"],
    ),
    "one dimension": (
        lambda: Comparisons(ints([0, 1])),
        ["Comparisons.pairs", "(2,)", "m x 2"],
    ),
    "no rows": (
        lambda: Comparisons(torch.zeros(0, 2, dtype=torch.long)),
        ["Comparisons.pairs", "no rows", "None"],
    ),
    "no ties in rows": (
        lambda: Comparisons(ints(PAIRS), torch.zeros(0, 2, dtype=torch.long)),
        ["Comparisons.ties", "no rows", "None"],
    ),
    "itself": (
        lambda: Comparisons(ints([[0, 1], [4, 4]])),
        ["Comparisons.pairs[1]", "point 4", "remove the row"],
    ),
    "itself in a batch": (
        lambda: Comparisons(ints([[[0, 1], [1, 0]], [[0, 1], [2, 2]]])),
        ["Comparisons.pairs[1, 1]", "point 2", "remove the row"],
    ),
    "tie with itself": (
        lambda: Comparisons(ints(PAIRS), ints([[3, 3]])),
        ["Comparisons.ties[0]", "point 3", "remove the row"],
    ),
    "float ties": (
        lambda: Comparisons(None, torch.ones(1, 2)),
        ["Comparisons.ties", "float32", ".long()"],
    ),
    "contradictory batches": (
        lambda: Comparisons(ints([PAIRS] * 2), ints([[[0, 1]]] * 3)),
        ["Comparisons.pairs", "Comparisons.ties", "(2,)", "(3,)"],
    ),
    "float points": (
        lambda: Validity(torch.zeros(2), torch.tensor([True, False])),
        ["Validity.indices", "float32", ".long()"],
    ),
    "no points": (
        lambda: Validity(ints([]), torch.zeros(0, dtype=torch.bool)),
        ["Validity.indices", "no rows"],
    ),
    "a scalar": (
        lambda: Validity(ints(1), torch.tensor(True)),
        ["Validity.indices", "()", "batch_shape x m"],
    ),
    "number labels": (
        lambda: Validity(ints([0, 1]), torch.tensor([1, 0])),
        ["Validity.valid", "int64", "== 1"],
    ),
    "list labels": (
        lambda: Validity(ints([0, 1]), [True, False]),
        ["Validity.valid", "list", "booleans"],
    ),
    "one label short": (
        lambda: Validity(ints([0, 1]), torch.tensor([True])),
        ["Validity.valid", "(1,)", "(2,)", "one label a point"],
    ),
    "a list of sets": (
        lambda: Choices([[0, 1]], ints([0])),
        ["Choices.sets", "list", "m x k", "torch.tensor"],
    ),
    "float sets": (
        lambda: Choices(torch.ones(1, 3), ints([1])),
        ["Choices.sets", "float32", ".long()"],
    ),
    "bool choice": (
        lambda: Choices(ints([[0, 1]]), torch.tensor([True])),
        ["Choices.chosen", "bool", ".long()"],
    ),
    "a flat set": (
        lambda: Choices(ints([0, 1, 2]), ints(0)),
        ["Choices.sets", "(3,)", "batch_shape x m x k", "one set a row"],
    ),
    "no sets": (
        lambda: Choices(torch.zeros(0, 3, dtype=torch.long), ints([])),
        ["Choices.sets", "no rows", "leave the block out"],
    ),
    "sets of no columns": (
        lambda: Choices(torch.zeros(2, 0, dtype=torch.long), ints([0, 0])),
        ["Choices.sets[0]", "no items", "remove the row"],
    ),
    "one choice short": (
        lambda: Choices(ints([[0, 1], [1, 2]]), ints([0])),
        ["Choices.chosen", "(1,)", "(2,)", "one answer a row"],
    ),
    "a choice outside its set": (
        lambda: Choices(ints([[0, 1, 2], [3, 5, -1]]), ints([2, 0])),
        ["Choices.chosen[1]", "is 0", "[3, 5]", "not the place in the set"],
    ),
    "a choice of the padding": (
        lambda: Choices(ints([[[0, 1, -1]]]), ints([[-1]])),
        ["Choices.chosen[0, 0]", "is -1", "[0, 1]"],
    ),
    "an item twice in a set": (
        lambda: Choices(ints([[0, 1, 2], [4, 3, 4]]), ints([0, 4])),
        ["Choices.sets[1]", "point 4 twice", "every item once"],
    ),
    "a set of one": (
        lambda: Choices(ints([[0, 1], [2, -1]]), ints([0, 2])),
        ["Choices.sets[1]", "one item", "remove the row"],
    ),
    "padding first": (
        lambda: Choices(ints([[0, 1, 2], [0, -1, 2]]), ints([0, 2])),
        ["Choices.sets[1, 1]", "padding", "end of the row"],
    ),
    "another negative number": (
        lambda: Choices(ints([[0, 1, -2]]), ints([0])),
        ["Choices.sets[0, 2]", "-2", "pad short sets with -1"],
    ),
    "float orders": (
        lambda: Rankings(torch.ones(1, 3).double()),
        ["Rankings.orders", "float64", ".long()"],
    ),
    "a flat ranking": (
        lambda: Rankings(ints([0, 1, 2])),
        ["Rankings.orders", "(3,)", "one ranking a row"],
    ),
    "an item twice in a ranking": (
        lambda: Rankings(ints([[[0, 1, 2], [2, 1, 0]], [[0, 2, 1], [2, 0, 2]]])),
        ["Rankings.orders[1, 1]", "point 2 twice", "ranking"],
    ),
    "a ranking of one": (
        lambda: Rankings(ints([[3, -1, -1]])),
        ["Rankings.orders[0]", "one item", "remove the row"],
    ),
    "a ranking of none": (
        lambda: Rankings(ints([[0, 1], [-1, -1]])),
        ["Rankings.orders[1]", "no items", "remove the row"],
    ),
    "a hole in a ranking": (
        lambda: Rankings(ints([[-1, 0, 1]])),
        ["Rankings.orders[0, 0]", "padding", "end of the row"],
    ),
    "float points of levels": (
        lambda: OrdinalRatings(torch.zeros(1), ints([0]), 3),
        ["OrdinalRatings.indices", "float32", ".long()"],
    ),
    "float levels": (
        lambda: OrdinalRatings(ints([0]), torch.ones(1), 3),
        ["OrdinalRatings.levels", "levels", "float32", ".long()"],
    ),
    "a level too high": (
        lambda: OrdinalRatings(ints([0, 1]), ints([2, 3]), 3),
        ["OrdinalRatings.levels[1]", "is 3", "3 levels", "from 0 to 2"],
    ),
    "a level below zero": (
        lambda: OrdinalRatings(ints([0, 1]), ints([-1, 1]), 3),
        ["OrdinalRatings.levels[0]", "is -1", "from 0 to 2"],
    ),
    "one level short": (
        lambda: OrdinalRatings(ints([0, 1]), ints([2]), 3),
        ["OrdinalRatings.levels", "(1,)", "(2,)", "one answer a row"],
    ),
    "a scale of one level": (
        lambda: OrdinalRatings(ints([0]), ints([0]), 1),
        ["OrdinalRatings.num_levels", "is 1", "number of levels"],
    ),
    "a tensor of levels": (
        lambda: OrdinalRatings(ints([0]), ints([0]), ints(3)),
        ["OrdinalRatings.num_levels", "Tensor", "an integer"],
    ),
    "a truth for levels": (
        lambda: OrdinalRatings(ints([0]), ints([0]), True),
        ["OrdinalRatings.num_levels", "bool", "an integer"],
    ),
    "integer strengths": (
        lambda: Strengths(ints(PAIRS), ints([1, 0])),
        ["Strengths.strengths", "int64", "(answer - low) / (high - low)"],
    ),
    "a list of strengths": (
        lambda: Strengths(ints(PAIRS), [0.5, 0.5]),
        ["Strengths.strengths", "list", "(answer - low) / (high - low)"],
    ),
    "a strength of one": (
        lambda: Strengths(ints(PAIRS), torch.tensor([0.5, 1.0])),
        ["Strengths.strengths[1]", "is 1.0", "(y (n - 1) + 0.5) / n"],
    ),
    "one strength short": (
        lambda: Strengths(ints(PAIRS), torch.tensor([0.5])),
        ["Strengths.strengths", "(1,)", "(2,)", "one answer a row"],
    ),
    "a strength against itself": (
        lambda: Strengths(ints([[0, 1], [4, 4]]), torch.tensor([0.5, 0.5])),
        ["Strengths.pairs[1]", "point 4", "remove the row"],
    ),
    "a rating of zero": (
        lambda: Ratings(ints([[0, 1]]), torch.tensor([[0.5, 0.0]])),
        ["Ratings.ratings[0, 1]", "is 0.0", "1 such", "(y (n - 1) + 0.5) / n"],
    ),
    "ratings that are no numbers": (
        lambda: Ratings(ints([0, 1, 2]), torch.tensor([0.5, torch.nan, torch.inf])),
        ["Ratings.ratings[1]", "is nan", "2 such", "not finite"],
    ),
    "bool ratings": (
        lambda: Ratings(ints([0]), torch.tensor([True])),
        ["Ratings.ratings", "bool", "floating point"],
    ),
    "one rating short": (
        lambda: Ratings(ints([0, 1]), torch.tensor([0.5])),
        ["Ratings.ratings", "(1,)", "(2,)", "one answer a row"],
    ),
}


@pytest.mark.parametrize(("build", "parts"), WRONG.values(), ids=WRONG.keys())
def test_wrong_input_is_refused_with_place_and_remedy(build, parts) -> None:
    with pytest.raises(FeedbackError) as caught:
        build()
    for part in parts:
        assert part in str(caught.value)


def points(*shape):
    return (
        torch.linspace(0, 1, 6, dtype=torch.float64).reshape(3, 2).expand(*shape, 3, 2)
    )


def with_value(value):
    changed = points().clone()
    changed[1, 0] = value
    return changed


WRONG_SETS = {
    "negative": (
        lambda: TrainingSet(points(), (Comparisons(ints([[0, 1], [-1, 0]])),)),
        ["Comparisons.pairs[1, 0]", "-1", "3 datapoints", "0 to 2"],
    ),
    "out of range": (
        lambda: TrainingSet(points(), (Validity(ints([3]), torch.tensor([True])),)),
        ["Validity.indices[0]", "is 3", "0 to 2"],
    ),
    "tie out of range": (
        lambda: TrainingSet(points(), (Comparisons(ints(PAIRS), ints([[0, 7]])),)),
        ["Comparisons.ties[0, 1]", "is 7", "0 to 2"],
    ),
    "out of range in a batch": (
        lambda: TrainingSet(points(2), (Comparisons(ints([PAIRS, [[0, 1], [1, 9]]])),)),
        ["Comparisons.pairs[1, 1, 1]", "is 9", "0 to 2"],
    ),
    "set out of range": (
        lambda: TrainingSet(points(), (Choices(ints([[0, 1], [2, 3]]), ints([0, 2])),)),
        ["Choices.sets[1, 1]", "is 3", "0 to 2"],
    ),
    "ranking out of range": (
        lambda: TrainingSet(points(), (Rankings(ints([[0, 5, 1], [2, 0, -1]])),)),
        ["Rankings.orders[0, 1]", "is 5", "0 to 2"],
    ),
    "nan": (
        lambda: TrainingSet(with_value(torch.nan), (Comparisons(ints(PAIRS)),)),
        ["datapoints[1, 0]", "nan", "row 1", "leave the point out"],
    ),
    "inf": (
        lambda: TrainingSet(with_value(-torch.inf), ()),
        ["datapoints[1, 0]", "-inf", "row 1", "leave the point out"],
    ),
    "integer points": (
        lambda: TrainingSet(ints([[0], [1]]), ()),
        ["datapoints", "int64", "datapoints.to(torch.float64)"],
    ),
    "flat points": (
        lambda: TrainingSet(torch.zeros(3), ()),
        ["datapoints", "(3,)", "batch_shape x q x d"],
    ),
    "no points": (
        lambda: TrainingSet(torch.zeros(0, 2), ()),
        ["datapoints", "(0, 2)", "at least one point"],
    ),
    "two blocks of a kind": (
        lambda: TrainingSet(
            points(), (Comparisons(ints(PAIRS)), Comparisons(ints(PAIRS)))
        ),
        ["2 blocks of Comparisons", "concatenate"],
    ),
    "batches against datapoints": (
        lambda: TrainingSet(points(3), (Comparisons(ints([PAIRS, PAIRS])),)),
        ["Comparisons", "(2,)", "(3,)", "broadcast"],
    ),
    "batches against each other": (
        lambda: TrainingSet(
            points(),
            (
                Comparisons(ints([PAIRS, PAIRS])),
                Validity(ints([[0]] * 3), torch.ones(3, 1, dtype=torch.bool)),
            ),
        ),
        ["Validity", "(2,)", "(3,)", "broadcast"],
    ),
    "not a container": (
        lambda: collect_feedback(None, [ints(PAIRS)]),
        ["Tensor", "container"],
    ),
}


@pytest.mark.parametrize(("build", "parts"), WRONG_SETS.values(), ids=WRONG_SETS.keys())
def test_wrong_training_sets_are_refused(build, parts) -> None:
    with pytest.raises(FeedbackError) as caught:
        build()
    for part in parts:
        assert part in str(caught.value)


@pytest.mark.parametrize(
    "pairs",
    [
        [[0, 1], [1, 0]],  # contradictory
        [[0, 1]] * 1_000,  # repeated
        [[0, 1], [1, 2], [2, 0]],  # in a circle
    ],
)
def test_answers_that_disagree_or_repeat_are_legal(pairs) -> None:
    block = Comparisons(ints(pairs))
    assert TrainingSet(points(), (block,)).comparisons is block
    assert torch.equal(block.pairs, ints(pairs))


def test_equal_coordinates_are_legal() -> None:
    same = points()[:1].expand(3, 2)
    held = TrainingSet(same, (Comparisons(ints(PAIRS)),)).datapoints
    assert torch.equal(held, same)


@pytest.mark.parametrize(
    "dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.float32]
)
def test_small_integers_become_long(dtype) -> None:
    counts = torch.arange(1, len(PAIRS) + 1)
    pairs = ints(PAIRS) if dtype.is_floating_point else torch.tensor(PAIRS, dtype=dtype)
    block = Comparisons(pairs, pair_counts=counts.to(dtype))
    assert block.pairs.dtype == torch.long
    assert block.pair_counts.dtype == torch.long
    assert block.pair_counts.equal(counts)
    assert torch.equal(block.pairs, ints(PAIRS))


def test_batch_shapes_broadcast() -> None:
    block = Comparisons(ints([PAIRS, PAIRS]), ints([[0, 1]]))
    assert block.batch_shape == (2,)
    assert TrainingSet(points(3, 1), (block,)).batch_shape == (3, 2)


def every_block():
    return [
        Comparisons(ints(PAIRS)),
        Comparisons(None, ints([[1, 2]])),
        Comparisons(ints(PAIRS), ints([[1, 2]])),
        Validity(ints([0, 2]), torch.tensor([True, False])),
        Choices(ints([[0, 1, 2], [2, 1, -1]]), ints([1, 2])),
        Rankings(ints([[2, 0, 1], [1, 2, -1]])),
        OrdinalRatings(ints([0, 2]), ints([0, 3]), 4),
        Strengths(ints(PAIRS), torch.tensor([0.25, 0.75])),
        Ratings(ints([0, 2]), torch.tensor([0.25, 0.75])),
    ]


RELATIVE = {
    Comparisons: True,
    Choices: True,
    Rankings: True,
    Strengths: True,
    Validity: False,
    OrdinalRatings: False,
    Ratings: False,
}


def test_every_container_has_an_entry_here() -> None:
    assert {type(block) for block in every_block()} == set(RANDOM)


@pytest.mark.parametrize("block", every_block())
def test_containers_are_frozen(block) -> None:
    for field in dataclasses.fields(block):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(block, field.name, None)


@pytest.mark.parametrize("block", every_block())
def test_mapping_tensors_maps_all_of_them_and_validates(block) -> None:
    doubled = block.map_tensors(lambda t: torch.cat([t, t], dim=0))
    for field in dataclasses.fields(block):
        old, new = getattr(block, field.name), getattr(doubled, field.name)
        if isinstance(old, torch.Tensor):
            assert torch.equal(new, torch.cat([old, old], dim=0))
        else:
            assert new == old
    with pytest.raises(FeedbackError, match=re.escape(type(block).__name__)):
        block.map_tensors(lambda t: t.double())


@pytest.mark.parametrize("block", every_block())
def test_a_change_of_precision_leaves_indices_alone(block) -> None:
    """As ``model.double()`` does it: floating point tensors only."""
    double = block.map_tensors(lambda t: t.double() if t.is_floating_point() else t)
    for field in dataclasses.fields(block):
        old, new = getattr(block, field.name), getattr(double, field.name)
        if isinstance(old, torch.Tensor):
            floating = old.is_floating_point()
            assert new.dtype == (torch.float64 if floating else old.dtype)
            torch.testing.assert_close(new, old, check_dtype=False)


@pytest.mark.parametrize("kind", RANDOM)
def test_what_sees_only_differences_says_so(kind) -> None:
    assert kind.relative is RELATIVE[kind]


@pytest.mark.parametrize("block", every_block())
def test_indices_are_checked_up_to_the_last_point(block) -> None:
    block.check_indices(3)
    with pytest.raises(FeedbackError, match=rf"{type(block).__name__}\.\w+\[.*0 to 1"):
        block.check_indices(2)


def scalars(feedback):
    fields = {f.name: getattr(feedback, f.name) for f in dataclasses.fields(feedback)}
    return {k: v for k, v in fields.items() if not isinstance(v, torch.Tensor)}


@pytest.mark.parametrize("block", every_block())
def test_every_container_goes_on_with_answers_about_later_points(block) -> None:
    """Copies of all answers, whatever the container, and a batch of them."""
    batch = block.map_tensors(lambda t: torch.stack([t, t]))
    assert batch.batch_shape == (2,)
    for more in (block, batch):
        joined = block.followed_by(more.shifted(3))
        joined.check_indices(6)
        assert joined.batch_shape == more.batch_shape
        assert scalars(joined) == scalars(block)
        again = joined if more is block else joined.map_tensors(lambda t: t[1])
        for name in {f.name for f in dataclasses.fields(block)} - scalars(block).keys():
            old, new = getattr(block, name), getattr(again, name)
            shift = 3 if name in block.index_fields else 0
            later = torch.where(old == -1, -1, old + shift) if shift else old
            assert torch.equal(new, torch.cat([old, later], dim=0))


def test_more_answers_point_to_the_new_points() -> None:
    old = TrainingSet(
        points(),
        (
            Validity(ints([0]), torch.tensor([True])),
            Comparisons(ints(PAIRS), ints([[1, 2]])),
        ),
    )
    more = TrainingSet(
        10 + points()[:2],
        (
            Rankings(ints([[1, 0, -1]])),
            Comparisons(ints([[1, 0]])),
            Validity(ints([1]), torch.tensor([False])),
        ),
    )
    new = old.followed_by(more)
    assert torch.equal(new.datapoints, torch.cat([points(), 10 + points()[:2]]))
    comparisons, validity, rankings = new.feedback
    assert torch.equal(comparisons.pairs, ints([*PAIRS, [4, 3]]))
    assert torch.equal(comparisons.ties, ints([[1, 2]]))
    assert validity.indices.tolist() == [0, 4]
    assert validity.valid.tolist() == [True, False]
    assert rankings.orders.tolist() == [[4, 3, -1]]


def test_new_points_may_have_batches_that_the_old_ones_lack() -> None:
    old = TrainingSet(points(), (Comparisons(ints(PAIRS)),))
    more = TrainingSet(points(2), (Comparisons(ints([[[[1, 0]]]] * 3)),))
    new = old.followed_by(more)
    assert new.datapoints.shape == (2, 6, 2)
    assert new.batch_shape == (3, 2)
    with pytest.raises(FeedbackError, match=r"\(3, 3, 2\).*\(2, 3, 2\).*broadcast"):
        TrainingSet(points(3), ()).followed_by(TrainingSet(points(2), ()))


@pytest.mark.parametrize("block", every_block())
def test_containers_hold_copies(block) -> None:
    """What happens later to the tensors that were given changes nothing."""
    names = [field.name for field in dataclasses.fields(block)]
    given = {name: getattr(block, name) for name in names}
    copied = type(block)(**given)
    for name, value in given.items():
        if isinstance(value, torch.Tensor):
            before = value.clone()
            value.zero_()
            assert torch.equal(getattr(copied, name), before)
            value.copy_(before)
    features = points()
    held = TrainingSet(features, (block,))
    features.zero_()
    assert torch.equal(held.datapoints, points())


@pytest.mark.parametrize("block", every_block())
def test_nothing_is_copied_where_nothing_moves(block) -> None:
    """As where BoTorch moves a model to where it is at every call."""
    held = TrainingSet(points(), (block,))
    assert block.map_tensors(lambda t: t.cpu()) is block
    assert held.map_tensors(lambda t: t.cpu()) is held
