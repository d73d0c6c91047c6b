import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from botorch_pref.linalg.covariance import semidefinite_cholesky

F64 = torch.float64


def _low_rank(size: int, rank: int, seed: int, *batch: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    root = torch.randn(*batch, size, rank, generator=generator, dtype=F64)
    return root @ root.mT


def test_regular_matrices_have_their_cholesky_factor():
    matrix = _low_rank(4, 6, 0, 2, 3)
    expected = torch.linalg.cholesky(matrix)
    assert torch.equal(semidefinite_cholesky(matrix), expected)


@given(
    size=st.integers(1, 8),
    rank=st.integers(0, 8),
    seed=st.integers(0, 1000),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    log_scale=st.integers(-12, 12),
)
def test_factor_of_any_rank_is_triangular_and_gives_the_matrix_back(
    size, rank, seed, dtype, log_scale
):
    matrix = (10.0**log_scale * _low_rank(size, rank, seed, 3)).to(dtype)
    factor = semidefinite_cholesky(matrix)
    assert torch.equal(factor, factor.tril())
    assert (factor.diagonal(dim1=-2, dim2=-1) >= 0).all()
    error = (factor @ factor.mT - matrix).abs().amax((-2, -1))
    # The rank is clear here, and what is left out is rounding of size k eps.
    trace = matrix.diagonal(dim1=-2, dim2=-1).sum(-1)
    assert (error <= 10 * size**2 * torch.finfo(dtype).eps * trace).all()


def test_singular_batches_do_not_change_regular_ones():
    regular, singular = _low_rank(3, 5, 1), _low_rank(3, 1, 2)
    together = semidefinite_cholesky(torch.stack([regular, singular]))
    torch.testing.assert_close(together[0], torch.linalg.cholesky(regular))
    assert (together[1, :, 1:] == 0).all()


def test_equal_points_have_equal_rows_and_finite_gradients():
    x = torch.tensor([0.1, 0.8, 0.1, 0.3], dtype=F64, requires_grad=True)
    matrix = torch.exp(-((x.unsqueeze(-1) - x).square()))
    factor = semidefinite_cholesky(matrix)
    torch.testing.assert_close(factor[0], factor[2], rtol=0, atol=1e-15)
    (gradient,) = torch.autograd.grad(factor.square().cumsum(-1).sum(), x)
    assert gradient.isfinite().all()


@pytest.mark.parametrize("duplicate", [False, True])
def test_gradient_agrees_with_finite_differences(duplicate):
    # A point that stays equal to another moves with it: the rank does not change.
    x = torch.tensor([0.1, 0.8, 0.4], dtype=F64, requires_grad=True)

    def factor(x: torch.Tensor) -> torch.Tensor:
        points = torch.cat([x[:2], x[:1], x[2:]]) if duplicate else x
        return semidefinite_cholesky(
            torch.exp(-3 * (points.unsqueeze(-1) - points).square())
        )

    assert torch.autograd.gradcheck(factor, (x,))


@pytest.mark.parametrize("count", [50, 300])
def test_smooth_functions_on_a_fine_grid_keep_their_covariance(count):
    # Elimination without care returns errors of order 1 here.
    x = torch.linspace(0, 1, count, dtype=F64)
    matrix = torch.exp(-5 * (x.unsqueeze(-1) - x).square())
    factor = semidefinite_cholesky(matrix)
    # A direction left out has a deviation of at most sqrt(4 k eps).
    allowed = 2 * (4 * count * torch.finfo(F64).eps) ** 0.5
    assert ((factor @ factor.mT - matrix).abs() <= allowed).all()


def test_no_variance_is_a_zero_factor():
    matrix = torch.zeros(2, 3, 3, dtype=F64, requires_grad=True)
    factor = semidefinite_cholesky(matrix)
    factor.sum().backward()
    assert (factor == 0).all()
    assert (matrix.grad == 0).all()
