"""Roots of semi-definite matrices multiply back to the matrix."""

import pytest
import torch

from botorch_pref import PrecisionError
from botorch_pref.linalg.covariance import psd_root


def low_rank(n, rank, seed, dtype, *batch):
    generator = torch.Generator().manual_seed(seed)
    factor = torch.randn(*batch, n, rank, generator=generator, dtype=dtype)
    return factor @ factor.mT


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e8])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("rank", [0, 1, 4, 7, 12])
def test_root_squares_to_the_matrix(rank, dtype, scale) -> None:
    matrix = scale * low_rank(7, rank, rank, dtype)
    root = psd_root(matrix)
    # Backward error of Cholesky and of eigh: a modest multiple of n eps |M|.
    bound = 8 * 7 * torch.finfo(dtype).eps * float(matrix.norm())
    assert float((root @ root.mT - matrix).norm()) <= bound


def test_cholesky_where_it_exists() -> None:
    """[[4, 2], [2, 5]] = L L' with L = [[2, 0], [1, 2]]."""
    matrix = torch.tensor([[4.0, 2.0], [2.0, 5.0]], dtype=torch.float64)
    expected = torch.tensor([[2.0, 0.0], [1.0, 2.0]], dtype=torch.float64)
    torch.testing.assert_close(psd_root(matrix), expected)


def test_equal_points_have_equal_rows() -> None:
    """The root of a singular covariance moves duplicates together."""
    matrix = torch.tensor(
        [[1.0, 1.0, 0.3], [1.0, 1.0, 0.3], [0.3, 0.3, 1.0]], dtype=torch.float64
    )
    root = psd_root(matrix)
    # The square root of rounding.
    torch.testing.assert_close(root[0], root[1], rtol=0, atol=4e-8)
    torch.testing.assert_close(root @ root.mT, matrix, rtol=0, atol=1e-15)


def test_rounding_below_zero_counts_as_zero() -> None:
    matrix = torch.diag(torch.tensor([1.0, -1e-17], dtype=torch.float64))
    root = psd_root(matrix)
    expected = torch.diag(torch.tensor([1.0, 0.0], dtype=torch.float64))
    assert torch.equal(root @ root.mT, expected)


def test_batches_with_one_singular_element() -> None:
    regular = low_rank(3, 3, 0, torch.float64) + torch.eye(3, dtype=torch.float64)
    matrix = torch.stack([regular, torch.ones(3, 3, dtype=torch.float64)])
    matrix = torch.stack([matrix, 4 * matrix])
    root = psd_root(matrix)
    torch.testing.assert_close(root @ root.mT, matrix, rtol=0, atol=1e-13)


def test_a_matrix_that_is_not_finite_is_refused() -> None:
    """By an error after which BoTorch's fitting tries other hyper-parameters."""
    matrix = torch.full((3, 3), torch.inf, dtype=torch.float64)
    with pytest.raises(PrecisionError, match="entries reach inf"):
        psd_root(matrix)
