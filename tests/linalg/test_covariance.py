"""Roots of covariances, singular or not, and the operator that samples by them."""

import itertools
from collections.abc import Callable

import pytest
import torch
from cases import in_turn
from draws import normal
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import Kernel, MaternKernel, RBFKernel, ScaleKernel
from hypothesis import given
from hypothesis import strategies as st

from botorch_pref import BotorchPrefError, FeedbackError, PrecisionError
from botorch_pref.linalg import psd_root
from botorch_pref.linalg.covariance import (
    SemidefiniteLinearOperator,
    dense_covariance,
    joint_shape,
    semidefinite_cholesky,
    sparse_congruence,
    sparse_matrix,
    sparse_product,
    triangular_congruence,
)
from botorch_pref.models import DuelKernel

F64 = torch.float64


def low_rank(size: int, rank: int, seed: int, *batch: int) -> torch.Tensor:
    root = normal(*batch, size, rank, seed=seed)
    return root @ root.mT


def kernel(x: torch.Tensor, scale: float = 3.1) -> torch.Tensor:
    return scale * torch.exp(-((x.unsqueeze(-1) - x.unsqueeze(-2)).square()))


def test_a_joint_shape_is_that_of_torch() -> None:
    shapes = map(torch.Size, ((), (1,), (3,), (2, 1), (2, 3), (1, 1, 3)))
    for triple in itertools.product(shapes, repeat=3):
        shape = joint_shape(*triple)
        assert isinstance(shape, torch.Size)
        assert shape == torch.broadcast_shapes(*triple)
    assert joint_shape() == torch.Size()
    with pytest.raises(RuntimeError, match="broadcast"):
        joint_shape(torch.Size([2]), torch.Size([3]))


@in_turn("scale", [1e-12, 1.0, 1e8])
@in_turn("dtype", [torch.float64, torch.float32])
@in_turn("rank", [0, 1, 4, 7, 12])
def test_root_squares_to_the_matrix(rank, dtype, scale) -> None:
    matrix = (scale * low_rank(7, rank, rank, 2)).to(dtype)
    # In a batch with a regular one.
    matrix[1] = matrix[1] + scale * torch.eye(7)
    root = psd_root(matrix)
    # Backward error of Cholesky and of eigh: a modest multiple of n eps |M|.
    bound = 8 * 7 * torch.finfo(dtype).eps * float(matrix.norm())
    assert float((root @ root.mT - matrix).norm()) <= bound


def test_rounding_below_zero_counts_as_zero() -> None:
    root = psd_root(torch.diag(torch.tensor([1.0, -1e-17], dtype=F64)))
    assert torch.equal(root @ root.mT, torch.diag(torch.tensor([1.0, 0.0], dtype=F64)))


def test_a_matrix_that_is_not_finite_is_refused() -> None:
    """By an error after which BoTorch's fitting tries other hyper-parameters."""
    matrix = torch.full((3, 3), torch.inf, dtype=F64)
    with pytest.raises(PrecisionError, match="entries reach inf"):
        psd_root(matrix)


@given(
    size=st.integers(1, 8),
    rank=st.integers(0, 8),
    seed=st.integers(0, 1000),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    log_scale=st.integers(-12, 12),
)
def test_factor_of_any_rank_is_triangular_and_gives_the_matrix_back(
    size, rank, seed, dtype, log_scale
) -> None:
    matrix = (10.0**log_scale * low_rank(size, rank, seed, 3)).to(dtype)
    factor = semidefinite_cholesky(matrix)
    assert torch.equal(factor, factor.tril())
    assert (factor.diagonal(dim1=-2, dim2=-1) >= 0).all()
    error = (factor @ factor.mT - matrix).abs().amax((-2, -1))
    # The rank is clear here, and what is left out is rounding of size k eps.
    trace = matrix.diagonal(dim1=-2, dim2=-1).sum(-1)
    assert (error <= 10 * size**2 * torch.finfo(dtype).eps * trace).all()


def test_singular_batches_do_not_change_regular_ones() -> None:
    regular, singular = low_rank(3, 5, 1), low_rank(3, 1, 2)
    together = semidefinite_cholesky(torch.stack([regular, singular]))
    torch.testing.assert_close(together[0], torch.linalg.cholesky(regular))
    assert (together[1, :, 1:] == 0).all()


@in_turn("duplicate", [False, True])
def test_gradient_agrees_with_finite_differences(duplicate) -> None:
    # A point that stays equal to another moves with it: the rank does not change.
    x = torch.tensor([0.1, 0.8, 0.4], dtype=F64, requires_grad=True)

    def factor(x: torch.Tensor) -> torch.Tensor:
        points = torch.cat([x[:2], x[:1], x[2:]]) if duplicate else x
        return semidefinite_cholesky(kernel(points, 1.0))

    assert torch.autograd.gradcheck(factor, (x,))


@in_turn("count", [50, 300])
def test_smooth_functions_on_a_fine_grid_keep_their_covariance(count) -> None:
    # Elimination without care returns errors of order 1 here.
    matrix = kernel(torch.linspace(0, 2, count, dtype=F64), 1.0)
    factor = semidefinite_cholesky(matrix)
    # A direction left out has a deviation of at most sqrt(4 k eps).
    allowed = 2 * (4 * count * torch.finfo(F64).eps) ** 0.5
    assert ((factor @ factor.mT - matrix).abs() <= allowed).all()


def test_rows_of_all_blocks_have_the_directions_of_earlier_ones() -> None:
    """A hundred rows of three directions, whose first rows stand far apart."""
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(100, 3, generator=generator, dtype=F64)
    places = [0, 40, 70]
    for column, row in enumerate(places):
        rows[:row, column] = 0.0
        rows[row, column] = 1.0
    expected = torch.zeros(100, 100, dtype=F64)
    expected[:, places] = rows
    full_rank = low_rank(100, 100, 1)
    factor, neighbour = semidefinite_cholesky(torch.stack([rows @ rows.mT, full_rank]))
    error = float((factor - expected).abs().max())
    # Three columns of rounding errors of entries up to 3, times the condition.
    assert error < 1e-12, f"the factor of known directions is off by {error}"
    regular = torch.linalg.cholesky(full_rank)
    assert torch.equal(neighbour, regular), "a regular matrix beside it was changed"


def test_no_variance_is_a_zero_factor() -> None:
    matrix = torch.zeros(2, 3, 3, dtype=F64, requires_grad=True)
    factor = semidefinite_cholesky(matrix)
    factor.sum().backward()
    assert (factor == 0).all()
    assert (matrix.grad == 0).all()


def test_equal_points_have_equal_samples_and_the_right_covariance() -> None:
    x = torch.tensor([[0.1, 0.7, 0.1], [0.4, 0.4, 0.4]], dtype=F64, requires_grad=True)
    covariance = kernel(x)
    joint = MultivariateNormal(x.sin(), SemidefiniteLinearOperator(covariance))
    base = normal(5, 2, 3)
    samples = joint.rsample(torch.Size([5]), base_samples=base)
    torch.testing.assert_close(samples[:, 0, 0], samples[:, 0, 2])
    torch.testing.assert_close(samples[:, 1], samples[:, 1, :1].expand(-1, 3))
    (gradient,) = torch.autograd.grad(samples.sum(), x, retain_graph=True)
    assert bool(gradient.isfinite().all())
    # With the columns of the identity as base samples the deviations are the root.
    unit = torch.eye(3, dtype=F64).unsqueeze(1).expand(3, 2, 3)
    root = joint.rsample(torch.Size([3]), base_samples=unit) - x.sin()
    root = root.movedim(0, -1)
    torch.testing.assert_close(root @ root.mT, covariance)


PAIR = torch.Size([2])


def smooth_kernel(batch: torch.Size | None = None) -> ScaleKernel:
    """Makes a Matern-5/2 kernel of three features, one for each model of a batch."""
    shape = torch.Size() if batch is None else batch
    base = MaternKernel(2.5, ard_num_dims=3, batch_shape=shape)
    return ScaleKernel(base, batch_shape=shape)


KERNELS: dict[str, tuple[Callable[[], Kernel], tuple[int, ...], bool]] = {
    "RBF": (lambda: ScaleKernel(RBFKernel(ard_num_dims=3)), (7, 3), True),
    "one lengthscale": (lambda: ScaleKernel(RBFKernel()), (7, 3), True),
    "Matern": (lambda: ScaleKernel(MaternKernel(2.5, ard_num_dims=3)), (7, 3), True),
    "batches of points": (lambda: smooth_kernel(), (4, 7, 3), True),
    "two models": (lambda: smooth_kernel(PAIR), (7, 3), True),
    "relevances": (lambda: DuelKernel(3), (7, 3), False),
    "two scales": (
        lambda: ScaleKernel(MaternKernel(2.5, ard_num_dims=3), batch_shape=PAIR),
        (7, 3),
        True,
    ),
    "two each": (lambda: smooth_kernel(PAIR), (5, 2, 7, 3), True),
    "rougher": (lambda: ScaleKernel(MaternKernel(1.5, ard_num_dims=3)), (7, 3), False),
    "some features": (
        lambda: ScaleKernel(RBFKernel(active_dims=[0, 2])),
        (7, 3),
        False,
    ),
    "unscaled": (lambda: RBFKernel(ard_num_dims=3), (7, 3), False),
}


@pytest.mark.parametrize("spread", [1.0, 1e-3, 1e3])
@pytest.mark.parametrize("name", KERNELS)
def test_usual_kernels_in_closed_form_are_those_of_gpytorch(
    name: str, spread: float
) -> None:
    make, shape, closed = KERNELS[name]
    generator = torch.Generator().manual_seed(0)
    kernel, x = (
        make().double(),
        spread * torch.rand(shape, generator=generator).double(),
    )
    x[..., 1, :] = x[..., 0, :]  # a copy has no distance, and no derivative of it
    with torch.no_grad():
        for parameter in kernel.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=generator)
    expected = kernel(x).to_dense()
    pull = torch.randn(expected.shape, generator=generator).double()
    covariance = dense_covariance(kernel, x)
    assert (type(covariance.grad_fn).__name__ == "_ScaledStationaryBackward") == closed
    with torch.no_grad():
        # With a graph GPyTorch's own distances of points from themselves are rounded.
        exact = kernel(x).to_dense()
    torch.testing.assert_close(covariance, exact, rtol=1e-12, atol=1e-12)
    slopes = [
        torch.autograd.grad((pull * k).sum(), [*kernel.parameters()])
        for k in (covariance, expected)
    ]
    # Rounding of squared lengths, where points are far apart beside lengthscales.
    rounding = 1e-11 + 1e-13 * spread**2
    torch.testing.assert_close(*slopes, rtol=1e-10, atol=rounding)


@pytest.mark.parametrize("base", [RBFKernel, MaternKernel])
@pytest.mark.parametrize("shape", [(8, 3), (2, 8, 3), (8, 1), (2, 8, 1)])
def test_covariances_of_points_and_with_points_round_alike(
    base: Callable[..., Kernel], shape: tuple[int, ...]
) -> None:
    """Predictions at the points cancel what rounding of squared lengths does."""
    x = 10 + torch.rand(shape, generator=torch.Generator().manual_seed(4))
    x[..., 1, :] = x[..., 0, :] + 1e-5
    kernel = ScaleKernel(base(ard_num_dims=shape[-1]))
    kernel.base_kernel.lengthscale = 0.02
    with torch.no_grad():
        of_points, with_points = dense_covariance(kernel, x), kernel(x, x).to_dense()
    eps = torch.finfo(torch.float32).eps
    torch.testing.assert_close(of_points, with_points, rtol=0, atol=8 * eps)


@pytest.mark.parametrize("name", ["forward", "__call__"])
def test_a_kernel_of_ones_own_is_called(name: str) -> None:
    def doubled(self: Kernel, *arguments: torch.Tensor, **options: object) -> object:
        return 2 * getattr(super(kernel_class, self), name)(*arguments, **options)

    kernel_class = type("Own", (ScaleKernel,), {name: doubled})
    x = torch.rand(5, 3, generator=torch.Generator().manual_seed(2)).double()
    plain = smooth_kernel().double()
    covariance = dense_covariance(kernel_class(plain.base_kernel).double(), x)
    torch.testing.assert_close(covariance, 2 * dense_covariance(plain, x))


def test_derivatives_in_points_are_those_of_the_kernel_itself() -> None:
    x = torch.rand(5, 3, generator=torch.Generator().manual_seed(1)).double()
    kernel = DuelKernel(3).double()
    assert torch.autograd.gradcheck(
        lambda points: dense_covariance(kernel, points), x.requires_grad_()
    )


def test_a_kernel_of_other_features_says_so() -> None:
    with pytest.raises(FeedbackError, match="3 features and DuelKernel 1"):
        dense_covariance(DuelKernel(1).double(), torch.rand(4, 3).double())


def test_second_derivatives_in_scales_are_refused() -> None:
    x = torch.rand(5, 3, generator=torch.Generator().manual_seed(1)).double()
    kernel = smooth_kernel().double()
    scales = [*kernel.parameters()]
    value = dense_covariance(kernel, x).sum()
    slopes = torch.autograd.grad(value, scales, create_graph=True)
    for slope in slopes:
        with pytest.raises(BotorchPrefError, match="take differences of gradients"):
            torch.autograd.grad(slope.sum(), scales, retain_graph=True)


def test_second_derivatives_of_the_factor() -> None:
    root = torch.rand(2, 3, 3, generator=torch.Generator().manual_seed(2)).double()
    assert torch.autograd.gradgradcheck(
        lambda r: semidefinite_cholesky(r @ r.mT + torch.eye(3)).square(),
        root.requires_grad_(),
    )


@pytest.mark.parametrize("number", [0, 60, 900])
@pytest.mark.parametrize(("size", "batch"), [(40, ()), (200, ()), (200, (3, 2))])
def test_product_over_few_non_zeros_is_that_of_all_entries(size, batch, number) -> None:
    generator = torch.Generator().manual_seed(number)
    matrix = torch.zeros(size, size, dtype=F64)
    places = torch.randint(size**2, (number,), generator=generator)
    matrix.view(-1)[places] = normal(number, seed=number)
    other = normal(*batch, size, 7, seed=1)
    # Products of normals, each rounded once, and their sum.
    close = {"rtol": 0, "atol": size**2 * torch.finfo(F64).eps}
    expected = torch.einsum("ij,...jk->...ik", matrix, other)
    torch.testing.assert_close(sparse_product(matrix, other), expected, **close)
    if (sparse := sparse_matrix(matrix)) is not None:
        assert size == 200
        symmetric = normal(*batch, size, size, seed=2)
        symmetric = symmetric + symmetric.mT
        expected = matrix @ symmetric @ matrix.mT
        got = sparse_congruence(sparse, symmetric)
        torch.testing.assert_close(got, expected, **close)


def test_a_congruence_by_a_triangle_is_the_product() -> None:
    root, matrix = normal(7, 7).tril(), normal(7, 7, seed=1)
    matrix = matrix + matrix.mT
    before = matrix.clone()
    lower = triangular_congruence(matrix, root).tril()
    torch.testing.assert_close(lower, (root.mT @ matrix @ root).tril())
    assert torch.equal(matrix, before)
