"""Refusals of containers, and messages that say where and what to do."""

import dataclasses
import re

import pytest
import torch
from cases import in_turn
from registry import RANDOM

from botorch_pref.errors import FeedbackError
from botorch_pref.feedback import (
    Choices,
    Comparisons,
    LineChoices,
    OrdinalRatings,
    Rankings,
    Ratings,
    Strengths,
    Validity,
)
from botorch_pref.models.training_data import TrainingSet

PAIRS = [[0, 1], [2, 0]]


def ints(values):
    return torch.tensor(values, dtype=torch.long)


TRUE, ONE = torch.tensor([True]), ints([0])
HALF = torch.tensor([0.5])

# Arguments of a container, and what the message must name: field and row, and remedy.
# Things of other kinds are among those of `test_wrong_arguments`.
WRONG = [
    (Comparisons, (None,), "neither pairs nor ties.*leave it"),
    (Comparisons, (ints(PAIRS) * 1j,), r"Comparisons\.pairs.*complex.*\.long\(\)"),
    (Comparisons, (ints([[0, 1, 2]]),), r"Comparisons\.pairs.*\(1, 3\).*m x 2"),
    (Comparisons, (ints([0, 1]),), r"Comparisons\.pairs.*\(2,\).*m x 2"),
    (Comparisons, (ints([[0, 1], [4, 4]]),), r"pairs\[1\].*point 4.*remove the row"),
    (
        Comparisons,
        (ints([[[0, 1], [1, 0]], [[0, 1], [2, 2]]]),),
        r"pairs\[1, 1\].*point 2.*remove the row",
    ),
    (Comparisons, (ints(PAIRS), ints([[3, 3]])), r"ties\[0\].*point 3.*remove the row"),
    (
        Comparisons,
        (ints([PAIRS] * 2), ints([[[0, 1]]] * 3)),
        r"Comparisons\.pairs and Comparisons\.ties.*\(2,\).*\(3,\)",
    ),
    (Comparisons, (ints(PAIRS).to_sparse(),), r"Comparisons\.pairs.*sparse.*dense"),
    (Ratings, (ONE, HALF.to("meta")), r"Ratings\.ratings.*meta.*dense"),
    (Validity, (ints(1), TRUE[0]), r"Validity\.indices.*\(\).*batch_shape x m"),
    (Validity, (ONE, ints([1])), r"Validity\.valid.*booleans.*int64.*== 1"),
    (
        Validity,
        (ints([0, 1]), TRUE),
        r"Validity\.valid.*\(1,\).*\(2,\): one answer a row",
    ),
    (Choices, ([[0, 1]], ONE), r"Choices\.sets.*m x k.*list.*torch\.tensor"),
    (Choices, (ints([0, 1, 2]), ints(0)), r"sets.*\(3,\).*m x k, one set a row"),
    (Choices, (ints([]).view(2, 0), ints([0, 0])), r"sets\[0\] has no items.*remove"),
    (
        Choices,
        (ints([[0, 1], [1, 2]]), ONE),
        r"chosen.*\(1,\).*\(2,\): one answer a row",
    ),
    (
        Choices,
        (ints([[0, 1, 2], [3, 5, -1]]), ints([2, 0])),
        r"chosen\[1\] is 0.*\[3, 5\].*not the place in the set",
    ),
    (Choices, (ints([[[0, 1, -1]]]), ints([[-1]])), r"chosen\[0, 0\] is -1.*\[0, 1\]"),
    (
        Choices,
        (ints([[0, 1, 2], [4, 3, 4]]), ints([0, 4])),
        r"sets\[1\] names point 4 twice.*every item once",
    ),
    (
        Choices,
        (ints([[0, 1], [2, -1]]), ints([0, 2])),
        r"sets\[1\] has one item.*remove",
    ),
    (
        Choices,
        (ints([[0, 1, 2], [0, -1, 2]]), ints([0, 2])),
        r"sets\[1, 1\] is padding.*end of the row",
    ),
    (Choices, (ints([[0, 1, -2]]), ONE), r"sets\[0, 2\] is -2.*pad short sets with -1"),
    (Rankings, (ints([0, 1, 2]),), r"Rankings\.orders.*\(3,\).*one ranking a row"),
    (
        Rankings,
        (ints([[[0, 1, 2], [2, 1, 0]], [[0, 2, 1], [2, 0, 2]]]),),
        r"orders\[1, 1\] names point 2 twice in one ranking",
    ),
    (Rankings, (ints([[3, -1, -1]]),), r"orders\[0\] has one item.*remove the row"),
    (
        Rankings,
        (ints([[0, 1], [-1, -1]]),),
        r"orders\[1\] has no items.*remove the row",
    ),
    (Rankings, (ints([[-1, 0, 1]]),), r"orders\[0, 0\] is padding.*end of the row"),
    (
        OrdinalRatings,
        (ints([0, 1]), ints([2, 3]), 3),
        r"levels\[1\] is 3.*3 levels.*from 0 to 2",
    ),
    (OrdinalRatings, (ONE, ints([-1]), 3), r"levels\[0\] is -1.*from 0 to 2"),
    (
        OrdinalRatings,
        (ints([0, 1]), ints([2]), 3),
        r"levels.*\(1,\).*\(2,\): one answer",
    ),
    (OrdinalRatings, (ONE, ONE, 1), "num_levels is 1; give the number of levels"),
    (OrdinalRatings, (ONE, ONE, ints(3)), r"num_levels is tensor\(3\).*an integer"),
    (OrdinalRatings, (ONE, ONE, True), "num_levels is True.*an integer"),
    (Strengths, (ints(PAIRS), ints([1, 0])), r"strengths.*int64.*\(answer - low\)"),
    (
        Strengths,
        (ints(PAIRS), torch.tensor([0.5, 1.0])),
        r"strengths\[1\] is 1\.0.*\(y \(n - 1\) \+ 0\.5\) / n",
    ),
    (Strengths, (ints(PAIRS), HALF), r"strengths.*\(1,\).*\(2,\): one answer a row"),
    (Strengths, (ints([[4, 4]]), HALF), r"pairs\[0\].*point 4.*remove the row"),
    (
        Ratings,
        (ints([[0, 1]]), torch.tensor([[0.5, 0.0]])),
        r"ratings\[0, 1\] is 0\.0.*1 such.*\(y \(n - 1\) \+ 0\.5\) / n",
    ),
    (
        Ratings,
        (ints([0, 1, 2]), torch.tensor([0.5, torch.nan, torch.inf])),
        r"ratings\[1\] is nan.*2 such.*not finite",
    ),
    (Ratings, (ONE, TRUE), "ratings must be a floating point tensor.*bool"),
    (Ratings, (ints([0, 1]), HALF), r"ratings.*\(1,\).*\(2,\): one answer a row"),
]


@in_turn(("kind", "arguments", "message"), WRONG)
def test_wrong_input_is_refused_with_place_and_remedy(kind, arguments, message) -> None:
    with pytest.raises(FeedbackError, match=f"(?s){message}"):
        kind(*arguments)


def points(*shape):
    return (
        torch.linspace(0, 1, 6, dtype=torch.float64).reshape(3, 2).expand(*shape, 3, 2)
    )


def with_value(value):
    changed = points().clone()
    changed[1, 0] = value
    return changed


def training_set(*blocks, features=None):
    return TrainingSet(points() if features is None else features, blocks)


BATCH = Comparisons(ints([PAIRS, PAIRS]))
THREE = Validity(ints([[0]] * 3), torch.ones(3, 1, dtype=torch.bool))
WRONG_SETS = [
    ([Comparisons(ints([[0, 1], [-1, 0]]))], r"pairs\[1, 0\] is -1.*3 .*0 to 2"),
    ([Validity(ints([3]), TRUE)], r"Validity\.indices\[0\] is 3.*0 to 2"),
    ([Comparisons(ints(PAIRS), ints([[0, 7]]))], r"ties\[0, 1\] is 7.*0 to 2"),
    (
        [Comparisons(ints([PAIRS, [[0, 1], [1, 9]]]))],
        r"Comparisons\.pairs\[1, 1, 1\] is 9.*0 to 2",
    ),
    ([Choices(ints([[0, 1], [2, 3]]), ints([0, 2]))], r"sets\[1, 1\] is 3.*0 to 2"),
    ([Rankings(ints([[0, 5, 1], [2, 0, -1]]))], r"orders\[0, 1\] is 5.*0 to 2"),
    ([Comparisons(ints(PAIRS))] * 2, "2 blocks of Comparisons.*concatenate"),
    ([BATCH, THREE], r"Validity.*\(3,\).*broadcast.*\(2,\)"),
]


@in_turn(("blocks", "message"), WRONG_SETS)
def test_wrong_training_sets_are_refused(blocks, message) -> None:
    with pytest.raises(FeedbackError, match=f"(?s){message}"):
        training_set(*blocks)


@in_turn(
    ("features", "message"),
    [
        (with_value(torch.nan), r"datapoints\[1, 0\] is nan: row 1.*the point"),
        (with_value(-torch.inf), r"datapoints\[1, 0\] is -inf: row 1"),
        (ints([[0], [1]]), r"datapoints.*int64.*torch\.float64"),
        (torch.zeros(3), r"datapoints.*\(3,\).*batch_shape x [nq] x d"),
        (torch.zeros(0, 2), r"datapoints.*\(0, 2\).*at least one point"),
        (points(3), r"Comparisons.*\(2,\).*broadcast.*\(3,\)"),
    ],
)
def test_wrong_points_are_refused(features, message) -> None:
    with pytest.raises(FeedbackError, match=f"(?s){message}"):
        training_set(BATCH, features=features)


@in_turn("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.float32])
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


BLOCKS = [
    *(make(torch.Generator().manual_seed(0), 3) for make in RANDOM.values()),
    Comparisons(None, ints([[1, 2]])),
    Comparisons(ints(PAIRS), ints([[1, 2]])),
]
each_block = pytest.mark.parametrize("block", BLOCKS, ids=lambda b: type(b).__name__)


@each_block
def test_containers_are_frozen(block) -> None:
    for field in dataclasses.fields(block):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(block, field.name, None)


@each_block
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


def test_what_sees_only_differences_says_so() -> None:
    assert {kind for kind in RANDOM if kind.relative} == {
        Comparisons, Choices, LineChoices, Rankings, Strengths,
    }  # fmt: skip


@each_block
def test_indices_are_checked_up_to_the_last_point(block) -> None:
    block.check_indices(3)
    with pytest.raises(FeedbackError, match=rf"{type(block).__name__}\.\w+\[.*0 to 1"):
        block.check_indices(2)


def test_new_points_may_have_batches_that_the_old_ones_lack() -> None:
    old = TrainingSet(points(), (Comparisons(ints(PAIRS)),))
    batch = TrainingSet(points(2), (Comparisons(ints([[[[1, 0]]]] * 3)),))
    new = old.followed_by(batch)
    assert new.datapoints.shape == (2, 6, 2)
    assert new.batch_shape == (3, 2)
    with pytest.raises(FeedbackError, match=r"\(3, 3, 2\).*\(2, 3, 2\).*broadcast"):
        TrainingSet(points(3), ()).followed_by(TrainingSet(points(2), ()))


@each_block
def test_containers_hold_copies(block) -> None:
    """What happens later to the tensors that were given changes nothing."""
    names = [field.name for field in dataclasses.fields(block)]
    fields = {name: getattr(block, name) for name in names}
    copied = type(block)(**fields)
    for name, value in fields.items():
        if isinstance(value, torch.Tensor):
            before = value.clone()
            value.zero_()
            assert torch.equal(getattr(copied, name), before)
            value.copy_(before)
    features = points()
    held = TrainingSet(features, (block,))
    features.zero_()
    assert torch.equal(held.datapoints, points())


@each_block
def test_nothing_is_copied_where_nothing_moves(block) -> None:
    """As where BoTorch moves a model to where it is at every call."""
    held = TrainingSet(points(), (block,))
    assert block.map_tensors(lambda t: t.cpu()) is block
    assert held.map_tensors(lambda t: t.cpu()) is held
