"""Krylov solutions against dense solutions of the same systems."""

import torch
from cases import in_turn

from botorch_pref.linalg.krylov import krylov_solution

SIZE = 12


def systems(*batch: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Matrices that are not symmetric, far from singular, and right-hand sides."""
    generator = torch.Generator().manual_seed(len(batch))
    options = {"generator": generator, "dtype": torch.float64}
    matrix = torch.randn(*batch, SIZE, SIZE, **options) / SIZE**0.5
    matrix = matrix + 2 * torch.eye(SIZE, dtype=torch.float64)
    return matrix, torch.randn(*batch, SIZE, **options)


def product(matrix: torch.Tensor):
    return lambda x: (matrix @ x.unsqueeze(-1)).squeeze(-1)


@in_turn("batch", [(), (3,), (2, 3)])
def test_the_solution_is_that_of_the_dense_system(batch: tuple[int, ...]) -> None:
    matrix, right = systems(*batch)
    solution, residual = krylov_solution(product(matrix), right, 1e-13, 100)
    torch.testing.assert_close(solution, torch.linalg.solve(matrix, right))
    assert residual.shape == batch
    assert bool((residual <= 1e-13).all())


def test_each_cluster_of_eigenvalues_takes_a_step() -> None:
    """With two distinct eigenvalues the solution is in a space of two dimensions."""
    values = torch.tensor([1.0, 3.0], dtype=torch.float64).repeat(SIZE // 2)
    _, right = systems()
    solution, residual = krylov_solution(lambda x: values * x, right, 1e-14, 2)
    torch.testing.assert_close(solution, right / values)
    assert float(residual) <= 1e-14


def test_elements_that_are_solved_wait_for_the_others() -> None:
    """One has nothing to solve, one is solved by the first step, one takes them all."""
    matrix, right = systems(3)
    matrix[1] = 2 * torch.eye(SIZE, dtype=torch.float64)
    right[0] = 0.0
    solution, residual = krylov_solution(product(matrix), right, 1e-13, 100)
    torch.testing.assert_close(solution, torch.linalg.solve(matrix, right))
    assert float(residual.max()) <= 1e-13


def test_the_residual_tells_that_steps_were_too_few() -> None:
    matrix, right = systems()
    solution, residual = krylov_solution(product(matrix), right, 1e-13, 3)
    missed = right - product(matrix)(solution)
    torch.testing.assert_close(residual, missed.norm() / right.norm())
    assert float(residual) > 1e-6
