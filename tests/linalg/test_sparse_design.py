"""Every method of sparse rows against the dense matrix that they stand for."""

import weakref

import torch
from cases import in_turn
from hypothesis import given
from hypothesis import strategies as st

from botorch_pref.linalg import SparseDesign, pair_rows, sparse_design, stack_rows
from botorch_pref.linalg.sparse_design import BlockRows, NoiseBlocks, NoiseBuckets

CLOSE = {"rtol": 1e-12, "atol": 1e-12}


def dense(rows: SparseDesign) -> torch.Tensor:
    """Makes ``A``, entry by entry."""
    batch = torch.broadcast_shapes(
        rows.indices.shape[:-2], rows.coefficients.shape[:-2]
    )
    m, w = rows.indices.shape[-2:]
    indices = rows.indices.expand(*batch, m, w).reshape(-1, m, w)
    coefficients = rows.coefficients.expand(*batch, m, w).reshape(-1, m, w)
    matrix = torch.zeros(
        len(indices), m, rows.num_points, dtype=rows.coefficients.dtype
    )
    for b in range(len(indices)):
        for i in range(m):
            for k in range(w):
                matrix[b, i, indices[b, i, k]] += coefficients[b, i, k]
    return matrix.reshape(*batch, m, rows.num_points)


@st.composite
def sparse_rows(draw):
    """Draws rows with repeated points, zero coefficients and up to two batches."""
    n, m, w = (draw(st.integers(1, top)) for top in (5, 6, 3))
    batch = draw(st.sampled_from([(), (2,), (3, 1), (3, 2)]))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    indices = torch.randint(n, (*batch, m, w), generator=generator)
    coefficients = torch.randn(*batch, m, w, generator=generator, dtype=torch.float64)
    padding = torch.rand(*batch, m, w, generator=generator) < 0.2
    return SparseDesign(indices, coefficients.masked_fill(padding, 0.0), n), generator


def normal(generator, *shape):
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def symmetric(generator, *shape):
    root = normal(generator, *shape)
    return root + root.mT


@given(rows_and_generator=sparse_rows(), batch=st.sampled_from([(), (2,), (3, 2)]))
def test_every_method_agrees_with_the_dense_matrix(rows_and_generator, batch) -> None:
    rows, generator = rows_and_generator
    a, n, m = dense(rows), rows.num_points, rows.num_rows
    assert m == a.shape[-2]
    cases = {
        "apply": (normal(generator, *batch, n), lambda v: (a @ v[..., None])[..., 0]),
        "apply_matrix": (normal(generator, *batch, n, 4), lambda v: a @ v),
        "adjoint": (
            normal(generator, *batch, m),
            lambda v: (a.mT @ v[..., None])[..., 0],
        ),
        "adjoint_matrix": (normal(generator, *batch, m, 4), lambda v: a.mT @ v),
        "congruence": (symmetric(generator, *batch, n, n), lambda k: a @ k @ a.mT),
        "congruence_diagonal": (
            normal(generator, *batch, n, n),
            lambda k: (a @ k @ a.mT).diagonal(dim1=-2, dim2=-1),
        ),
        "adjoint_congruence": (
            symmetric(generator, *batch, m, m),
            lambda k: a.mT @ k @ a,
        ),
        "gram": (
            normal(generator, *batch, m),
            lambda t: a.mT @ torch.diag_embed(t) @ a,
        ),
    }
    for name, (value, expected) in cases.items():
        torch.testing.assert_close(
            getattr(rows, name)(value), expected(value), msg=name, **CLOSE
        )


@given(rows_and_generator=sparse_rows(), num_distinct=st.integers(1, 5))
def test_reindexed_rows_add_the_columns_of_equal_points(
    rows_and_generator, num_distinct
) -> None:
    rows, generator = rows_and_generator
    inverse = torch.randint(num_distinct, (rows.num_points,), generator=generator)
    membership = torch.nn.functional.one_hot(inverse, num_distinct).double()
    torch.testing.assert_close(
        dense(rows.reindex(inverse, num_distinct)), dense(rows) @ membership, **CLOSE
    )


@given(rows_and_generator=sparse_rows(), batch=st.sampled_from([(), (2,), (3, 2)]))
def test_blocks_of_rows_are_those_of_the_dense_matrix(
    rows_and_generator, batch
) -> None:
    rows, generator = rows_and_generator
    m = rows.num_rows
    order = torch.randperm(m, generator=generator)
    # The last block is padded, and with two rows or more some are in no block.
    blocks = torch.tensor([[order[0], order[m // 2]], [order[-1], m]])
    blocks = blocks[: 1 + (m > 2)] if m > 1 else blocks[1:]
    assert_blocks_are_dense(rows, blocks, generator, batch)


def assert_blocks_are_dense(rows, blocks, generator, batch):
    block_rows, a = BlockRows.from_design(rows, blocks), dense(rows)
    n, k = rows.num_points, blocks.shape[-1]
    padded = torch.cat([a, a.new_zeros(*a.shape[:-2], 1, n)], dim=-2)[..., blocks, :]
    matrix = normal(generator, *batch, n, n)
    torch.testing.assert_close(
        block_rows.congruence(matrix),
        padded @ matrix.unsqueeze(-3) @ padded.mT,
        **CLOSE,
    )
    inner = normal(generator, *batch, len(blocks), k, k)
    expected = (padded.mT @ inner @ padded).sum(-3)
    start = normal(generator, *expected.shape)
    total = start.clone()
    block_rows.add_gram(inner, total)
    torch.testing.assert_close(total, start + expected, **CLOSE)


@in_turn("batch", [(), (2,)])
def test_points_that_all_rows_of_a_block_share_are_columns(batch) -> None:
    """As of a rater's bias, in blocks of which one is padded, beside pairs of items."""
    generator = torch.Generator().manual_seed(4)
    pairs = torch.tensor([[0, 1], [2, 0], [1, 2], [2, 1], [0, 2], [1, 0], [0, 1]])
    rater = torch.tensor([0, 1, 2, 0, 2, 0, 1])
    bias = torch.zeros(7, 3, dtype=torch.float64)
    bias[range(7), rater] = normal(generator, 7)
    both = torch.cat([normal(generator, 7, 1), bias], dim=-1)
    rows = pair_rows(pairs, 3, both).with_columns(both)
    blocks = torch.tensor([[0, 3, 5], [1, 6, 7], [2, 4, 7]])
    assert_blocks_are_dense(rows, blocks, generator, batch)
    shared = [c for c in BlockRows.from_design(rows, blocks)._columns if c.is_shared]
    assert [c.points.tolist() for c in shared] == [[[3, 4], [3, 5], [3, 6]]]
    matrix = normal(generator, *batch, 7, 7).requires_grad_()
    weights = rows.coefficients.clone().requires_grad_()

    def congruence(matrix, coefficients):
        design = SparseDesign(rows.indices, coefficients, 7)
        return BlockRows.from_design(design, blocks).congruence(matrix)

    assert torch.autograd.gradcheck(congruence, (matrix, weights))


def test_stacking_pads_to_the_widest_and_broadcasts_batches() -> None:
    wide = SparseDesign(
        torch.tensor([[[0, 2, 1]], [[1, 1, 0]]]),
        torch.tensor([[[1.0, -1.0, 0.5]], [[2.0, 1.0, -3.0]]]),
        3,
    )
    narrow = SparseDesign(torch.tensor([[2], [0]]), torch.tensor([[4.0], [-5.0]]), 3)
    stacked = stack_rows([narrow, wide])
    a = torch.tensor(
        [
            [[0.0, 0.0, 4.0], [-5.0, 0.0, 0.0], [1.0, 0.5, -1.0]],
            [[0.0, 0.0, 4.0], [-5.0, 0.0, 0.0], [-3.0, 3.0, 0.0]],
        ]
    )
    assert torch.equal(dense(stacked), a)
    assert torch.equal(stacked.dense(), a)


def test_pairs_are_differences_first_minus_second() -> None:
    pairs = torch.tensor([[0, 2], [2, 1]]).expand(2, 2, 2)
    rows = pair_rows(pairs, 3, torch.zeros(1, dtype=torch.float32))
    utilities = torch.tensor([1.0, 10.0, 100.0])
    assert torch.equal(rows.apply(utilities), torch.tensor([[-99.0, 90.0]] * 2))


@in_turn("batch", [(), (2,)])
def test_gradients_flow_through_values(batch) -> None:
    generator = torch.Generator().manual_seed(0)
    indices = torch.tensor([[0, 1], [2, 2], [1, 0]]).expand(*batch, 3, 2)
    rows = SparseDesign(indices, normal(generator, *batch, 3, 2), 3)
    vector = normal(generator, *batch, 3).requires_grad_()
    matrix = normal(generator, *batch, 3, 3).requires_grad_()
    for method in (rows.apply, rows.adjoint, rows.gram):
        assert torch.autograd.gradcheck(method, (vector,))
    for method in (rows.apply_matrix, rows.adjoint_matrix, rows.congruence):
        assert torch.autograd.gradcheck(method, (matrix,))


def test_squares_of_many_rows_keep_one_product_at_a_time(monkeypatch) -> None:
    generator = torch.Generator().manual_seed(0)
    values = torch.rand(9, 6, generator=generator, dtype=torch.float64)
    pairs = torch.randint(9, (40, 2), generator=generator)
    rows = pair_rows(pairs, 9, values)
    expected = dense(rows).mm(values).square().sum(-1)
    alive, counts = [], []
    product = SparseDesign.apply_matrix

    def watched(self, values):
        result = product(self, values)
        alive.append(weakref.ref(result))
        counts.append(sum(ref() is not None for ref in alive))
        return result

    monkeypatch.setattr(sparse_design, "_AT_ONCE", 4 * 6)
    monkeypatch.setattr(SparseDesign, "apply_matrix", watched)
    torch.testing.assert_close(rows.row_squares(values), expected)
    assert len(alive) == 10
    assert max(counts) <= 2


def test_blocks_of_different_widths_are_one_covariance() -> None:
    """By part, and padded to the widest, against entries set by hand."""
    generator = torch.Generator().manual_seed(3)
    places = [[[4, 0]], [[1, 6, 3]], [[5]]]
    truth, parts = torch.zeros(2, 8, 8, dtype=torch.double), []
    for rows in places:
        width = len(rows[0])
        root = torch.randn(2, 1, width, width, generator=generator, dtype=torch.double)
        covariance = root @ root.mT
        parts.append(NoiseBlocks(torch.tensor(rows), covariance, 8))
        for i, first in enumerate(rows[0]):
            for j, second in enumerate(rows[0]):
                truth[:, first, second] = covariance[:, 0, i, j]
    buckets = NoiseBuckets(parts)
    values = torch.randn(2, 8, 3, generator=generator, dtype=torch.double)
    padded = NoiseBlocks(buckets.rows, buckets.covariance, 8)
    for blocks in (buckets, padded):
        torch.testing.assert_close(blocks.dense(), truth, **CLOSE)
        diagonal = truth.diagonal(dim1=-2, dim2=-1)
        torch.testing.assert_close(blocks.diagonal(), diagonal, **CLOSE)
        torch.testing.assert_close(blocks.times(values), truth @ values, **CLOSE)
    assert buckets.inside.tolist() == [row not in (2, 7) for row in range(8)]


def test_columns_behind_rows_are_stored_where_they_are_no_zeros() -> None:
    rows = pair_rows(torch.tensor([[0, 1], [2, 0], [1, 2]]), 3, torch.zeros(0).double())
    values = torch.zeros(3, 20, dtype=torch.float64)
    values[0, 4], values[1, [2, 17]] = 3.0, torch.tensor([-1.0, 0.5]).double()
    wider = rows.with_columns(values)
    assert wider.indices.shape[-1] == 4
    torch.testing.assert_close(dense(wider), torch.cat([dense(rows), values], -1))
