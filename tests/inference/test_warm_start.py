"""Places of rows when answers join, against rows told apart by what they hold."""

import pytest
import torch

from botorch_pref import (
    Choices,
    Comparisons,
    OrdinalRatings,
    PairwiseLogitLikelihood,
    PairwiseProbitLikelihood,
    PlackettLuceLikelihood,
    Rankings,
    Validity,
)
from botorch_pref.feedback import Feedback
from botorch_pref.inference.engine import SolutionCache, carry_rows, row_sources
from botorch_pref.inference.lower_bounds import bound_of
from botorch_pref.likelihoods import (
    AffineProbitLikelihood,
    OrdinalProbitLikelihood,
    PreferenceLikelihood,
)
from botorch_pref.likelihoods.factors import joint_factors
from botorch_pref.linalg import SparseDesign

BEFORE, FURTHER = 5, 5
PROBIT = PairwiseProbitLikelihood(0.5, tie_threshold=0.2)
TIES = Comparisons(torch.tensor([[0, 1], [3, 2]]), torch.tensor([[1, 4], [0, 2]]))
MORE_TIES = Comparisons(torch.tensor([[2, 1]]), torch.tensor([[3, 0]]))
ONLY_TIES = Comparisons(None, torch.tensor([[3, 0]]))
NARROW = Rankings(torch.tensor([[0, 3], [4, 1]]))
WIDE = Rankings(torch.tensor([[2, 0, 1, 3], [1, 3, -1, -1]]))
RAGGED = Rankings(torch.tensor([[[0, 1, 2], [3, 4, -1]], [[4, 1, -1], [2, 0, 3]]]))
SETS = Choices(torch.tensor([[0, 1, 2], [3, 4, -1]]), torch.tensor([1, 4]))
MORE_SETS = Choices(torch.tensor([[3, 0, 1, 2]]), torch.tensor([3]))
VALID = Validity(torch.tensor([0, 4]), torch.tensor([True, False]))
LEVELS = OrdinalRatings(torch.tensor([2, 1]), torch.tensor([0, 2]), 3)

CASES = {
    "ties": ([(PROBIT, TIES)], [(PROBIT, MORE_TIES)]),
    "the first ties": (
        [(PROBIT, Comparisons(TIES.pairs))],
        [(PROBIT, ONLY_TIES)],
    ),
    "wider rankings": ([(PROBIT, NARROW)], [(PROBIT, WIDE)]),
    "narrower rankings": ([(PROBIT, WIDE)], [(PROBIT, NARROW)]),
    "padding by element": ([(PROBIT, RAGGED)], [(PROBIT, WIDE)]),
    "softmax": (
        [(PlackettLuceLikelihood(), RAGGED)],
        [(PlackettLuceLikelihood(), WIDE)],
    ),
    "sets and duels": (
        [
            (PairwiseLogitLikelihood(), Comparisons(TIES.pairs)),
            (PlackettLuceLikelihood(), SETS),
        ],
        [
            (PairwiseLogitLikelihood(), Comparisons(MORE_TIES.pairs)),
            (PlackettLuceLikelihood(), MORE_SETS),
        ],
    ),
    "several kinds": (
        [(PROBIT, TIES), (AffineProbitLikelihood(), VALID)],
        [
            (PROBIT, MORE_TIES),
            (AffineProbitLikelihood(), Validity(LEVELS.indices, VALID.valid)),
        ],
    ),
    "a further kind": (
        [(AffineProbitLikelihood(), VALID)],
        [(OrdinalProbitLikelihood(cutpoints=torch.tensor([-1.0, 1.0])), LEVELS)],
    ),
}


def rows_of(blocks, n, bound):
    factors = joint_factors([likelihood.factors(b, n) for likelihood, b in blocks])
    return bound_of(factors).rows if bound else factors.rows


def joined(
    before: list[tuple[PreferenceLikelihood, Feedback]],
    further: list[tuple[PreferenceLikelihood, Feedback]],
) -> list[tuple[PreferenceLikelihood, Feedback]]:
    further_blocks = {type(b): (lik, b.shifted(BEFORE)) for lik, b in further}
    blocks = []
    for likelihood, block in before:
        partner = further_blocks.pop(type(block), None)
        together = block if partner is None else block.followed_by(partner[1])
        blocks.append((likelihood, together))
    return blocks + list(further_blocks.values())


def dense(rows):
    """Makes rows as they act on points, with a column for each."""
    eye = torch.eye(rows.num_points, dtype=rows.coefficients.dtype)
    return rows.apply_matrix(eye)


@pytest.mark.parametrize("bound", [False, True], ids=["factors", "bound"])
@pytest.mark.parametrize("name", CASES)
def test_rows_of_all_answers_are_those_of_both(name: str, bound: bool) -> None:
    before, further = CASES[name]
    logistic = (PairwiseLogitLikelihood, PlackettLuceLikelihood)
    if bound and not isinstance(before[0][0], logistic):
        pytest.skip("No bound of boxes.")
    first, second = rows_of(before, BEFORE, bound), rows_of(further, FURTHER, bound)
    after = rows_of(joined(before, further), BEFORE + FURTHER, bound)
    sources = sources_of(first, second, after)
    mine, theirs = dense(first), dense(second)
    for i in range(BEFORE):
        # Carrying a column of A carries the rows themselves.
        none = torch.zeros_like(theirs[..., 0])
        carried = carry_rows(sources, mine[..., i], none, signed=True)
        torch.testing.assert_close(carried, dense(after)[..., i].expand_as(carried))
    for i in range(FURTHER):
        none = torch.zeros_like(mine[..., 0])
        carried = carry_rows(sources, none, theirs[..., i], signed=True)
        expected = dense(after)[..., BEFORE + i].expand_as(carried)
        torch.testing.assert_close(carried, expected)
    # Every row once: of equal answers too.
    assert sources.complete
    every = torch.arange(after.num_rows).expand_as(sources.places)
    assert torch.equal(sources.places.sort(dim=-1).values, every)


def sources_of(first: SparseDesign, second: SparseDesign, after: SparseDesign):
    """Sources of rows about points that are all different."""
    n = first.num_points + second.num_points
    places = torch.arange(n)
    return row_sources(
        first.reindex(places[: first.num_points], n),
        second.reindex(places[first.num_points :], n),
        after,
    )


def test_draws_are_carried_with_all_their_dimensions() -> None:
    first, second = (rows_of(blocks, 5, False) for blocks in CASES["ties"])
    after = rows_of(joined(*CASES["ties"]), 10, False)
    sources = sources_of(first, second, after)
    old = torch.arange(24.0, dtype=torch.float64).reshape(3, 2, 4)
    new = -torch.arange(6.0).double().reshape(3, 2, 1).expand(3, 2, 2)
    out = carry_rows(sources, old, new, signed=True)
    # Wins before ties.
    expected = [old[..., :2], new[..., :1], old[..., 2:], new[..., 1:]]
    torch.testing.assert_close(out, torch.cat(expected, dim=-1))


def test_rows_that_become_one_add_up() -> None:
    """The same pair again, the other way round, and a row that goes nowhere."""
    coefficients = torch.tensor([1.0, -1.0], dtype=torch.float64)

    def rows(*pairs: list[int]) -> SparseDesign:
        return SparseDesign(torch.tensor(pairs), coefficients.expand(len(pairs), 2), 4)

    sources = row_sources(
        rows([0, 1], [2, 3]), rows([1, 0], [0, 2]), rows([0, 1], [2, 3])
    )
    assert not sources.complete
    before = torch.tensor([[1.0, 2.0]], dtype=torch.float64)
    further = 10 * before
    precision = carry_rows(sources, before, further, signed=False)
    shift = carry_rows(sources, before, further, signed=True)
    assert precision.tolist() == [[11.0, 2.0]]
    assert shift.tolist() == [[-9.0, 2.0]]


def test_factors_are_made_anew_where_a_likelihood_has_more_parameters() -> None:
    cache, first, second = SolutionCache(), torch.ones(1), torch.zeros(1)
    candidates = [joint_factors([PROBIT.factors(TIES, n)]) for n in (5, 6, 7)]
    cached = [
        cache.factors_of(state, lambda place=place: candidates[place])
        for place, state in enumerate([[first], [first, second], [first]])
    ]
    assert [candidates.index(factors) for factors in cached] == [0, 1, 2]
    assert cache.factors_of([first], lambda: candidates[0]) is candidates[2]
