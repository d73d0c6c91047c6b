"""Test functions that BoTorch lacks, to be minimised, on their own domains."""

from __future__ import annotations

import torch
from torch import Tensor


def alpine1(X: Tensor) -> Tensor:
    r"""The first function of Alpine, :math:`\sum_i |x_i \sin x_i + 0.1 x_i|`.

    Args:
        X: `batch_shape x d`, in [-10, 10].

    Returns:
        `batch_shape`, at least 0, which is its value at the origin.
    """
    return (X * X.sin() + 0.1 * X).abs().sum(-1)


def cosine_bump(X: Tensor) -> Tensor:
    r"""The negative of :math:`\cos 5x + e^{-x^2 / 2}` (Benavoli et al. 2021).

    Args:
        X: `batch_shape x 1`, in [-2.6, 2.6].

    Returns:
        `batch_shape`, at least -2, which is its value at 0.
    """
    x = X[..., 0]
    return -(5 * x).cos() - (-0.5 * x.square()).exp()


def forrester(X: Tensor) -> Tensor:
    r"""The function of Forrester et al. (2008), :math:`(6x - 2)^2 \sin(12x - 4)`.

    Args:
        X: `batch_shape x 1`, in [0, 1].

    Returns:
        `batch_shape`.
    """
    x = X[..., 0]
    return (6 * x - 2).square() * (12 * x - 4).sin()


def goldstein_price(X: Tensor) -> Tensor:
    """The function of Goldstein and Price (1971).

    Args:
        X: `batch_shape x 2`, in [-2, 2].

    Returns:
        `batch_shape`, at least 3, which is its value at (0, -1).
    """
    x, y = X.unbind(-1)
    a = 19 - 14 * x + 3 * x**2 - 14 * y + 6 * x * y + 3 * y**2
    b = 18 - 32 * x + 12 * x**2 + 48 * y - 36 * x * y + 27 * y**2
    return (1 + (x + y + 1) ** 2 * a) * (30 + (2 * x - 3 * y) ** 2 * b)


def sasena(X: Tensor) -> Tensor:
    r"""The objective of Sasena, Papalambros and Goovaerts (2002).

    .. math:: 2 + \tfrac{1}{100} (x_2 - x_1^2)^2 + (1 - x_1)^2 + 2 (2 - x_2)^2
        + 7 \sin(\tfrac12 x_1) \sin(\tfrac{7}{10} x_1 x_2)

    Args:
        X: `batch_shape x 2`, in [0, 5].

    Returns:
        `batch_shape`. Among inputs with :func:`sasena_constraint` at most 0 the least
        value is -1.1743, at (2.7450, 2.3523).
    """
    x, y = X.unbind(-1)
    waves = 7 * (0.5 * x).sin() * (0.7 * x * y).sin()
    return 2 + 0.01 * (y - x**2) ** 2 + (1 - x) ** 2 + 2 * (2 - y) ** 2 + waves


def sasena_constraint(X: Tensor) -> Tensor:
    r"""The constraint :math:`h(x) = -\sin(x_1 - x_2 - \pi / 8)`, valid at most 0.

    Args:
        X: `batch_shape x 2`, in [0, 5].

    Returns:
        `batch_shape`.
    """
    return -(X[..., 0] - X[..., 1] - torch.pi / 8).sin()
