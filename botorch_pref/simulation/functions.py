"""Test functions in closed form: costs of `batch_shape x d` points, `batch_shape`.

Those that BoTorch has are not here. Formulas without another source are those of
Surjanovic and Bingham, *Virtual Library of Simulation Experiments* (2013).
"""

from __future__ import annotations

import torch
from torch import Tensor


def alpine1(X: Tensor) -> Tensor:
    r"""Evaluates Alpine's first function, :math:`\sum_i |x_i \sin x_i + 0.1 x_i|`."""
    return (X * X.sin() + 0.1 * X).abs().sum(-1)


def cosine_bump(X: Tensor) -> Tensor:
    r"""Evaluates :math:`-\cos 5x - e^{-x^2 / 2}` (Benavoli et al. 2021)."""
    x = X[..., 0]
    return -(5 * x).cos() - (-0.5 * x.square()).exp()


def forrester(X: Tensor) -> Tensor:
    r"""Evaluates :math:`(6x - 2)^2 \sin(12x - 4)` of Forrester et al. (2008)."""
    x = X[..., 0]
    return (6 * x - 2).square() * (12 * x - 4).sin()


def goldstein_price(X: Tensor) -> Tensor:
    """Evaluates the function of Goldstein and Price (1971), least at (0, -1): 3."""
    x, y = X.unbind(-1)
    a = 19 - 14 * x + 3 * x**2 - 14 * y + 6 * x * y + 3 * y**2
    b = 18 - 32 * x + 12 * x**2 + 48 * y - 36 * x * y + 27 * y**2
    return (1 + (x + y + 1) ** 2 * a) * (30 + (2 * x - 3 * y) ** 2 * b)


def sasena(X: Tensor) -> Tensor:
    r"""Evaluates the objective of Sasena, Papalambros and Goovaerts (2002).

    .. math:: 2 + \tfrac{1}{100} (x_2 - x_1^2)^2 + (1 - x_1)^2 + 2 (2 - x_2)^2
        + 7 \sin(\tfrac12 x_1) \sin(\tfrac{7}{10} x_1 x_2)

    Among inputs with :func:`sasena_constraint` at most 0 the least value is -1.1743, at
    (2.7450, 2.3523).
    """
    x, y = X.unbind(-1)
    waves = 7 * (0.5 * x).sin() * (0.7 * x * y).sin()
    return 2 + 0.01 * (y - x**2) ** 2 + (1 - x) ** 2 + 2 * (2 - y) ** 2 + waves


def sasena_constraint(X: Tensor) -> Tensor:
    r"""Evaluates Sasena's :math:`-\sin(x_1 - x_2 - \pi / 8)`, valid at most 0."""
    return -(X[..., 0] - X[..., 1] - torch.pi / 8).sin()


def bohachevsky(X: Tensor) -> Tensor:
    r"""Evaluates the first function of Bohachevsky, at least 0, its value at (0, 0).

    .. math:: x_1^2 + 2 x_2^2 - 0.3 \cos 3 \pi x_1 - 0.4 \cos 4 \pi x_2 + 0.7
    """
    x, y = X.unbind(-1)
    waves = 0.3 * (3 * torch.pi * x).cos() + 0.4 * (4 * torch.pi * y).cos()
    return x.square() + 2 * y.square() - waves + 0.7


def colville(X: Tensor) -> Tensor:
    r"""Evaluates the function of Colville, at least 0, its value if all inputs are 1.

    .. math:: 100 (x_1^2 - x_2)^2 + (x_1 - 1)^2 + (x_3 - 1)^2 + 90 (x_3^2 - x_4)^2
        + 10.1 ((x_2 - 1)^2 + (x_4 - 1)^2) + 19.8 (x_2 - 1) (x_4 - 1)
    """
    a, b, c, d = X.unbind(-1)
    valleys = 100 * (a.square() - b).square() + 90 * (c.square() - d).square()
    ends = (a - 1).square() + (c - 1).square()
    pair = 10.1 * ((b - 1).square() + (d - 1).square()) + 19.8 * (b - 1) * (d - 1)
    return valleys + ends + pair


def cross_in_tray(X: Tensor) -> Tensor:
    r"""Evaluates the cross-in-tray function, least where both inputs are +-1.3494.

    It is -2.0626 there.

    .. math:: -10^{-4} \Big(\Big|\sin x_1 \sin x_2
        \exp \big|100 - \sqrt{x_1^2 + x_2^2} / \pi\big|\Big| + 1\Big)^{0.1}
    """
    radius = torch.linalg.vector_norm(X, dim=-1)
    waves = X.sin().prod(-1).abs()
    return -1e-4 * (waves * (100 - radius / torch.pi).abs().exp() + 1).pow(0.1)


def gramacy_lee(X: Tensor) -> Tensor:
    r"""Evaluates the function of Gramacy and Lee (2012), least at 0.5486: -0.8690.

    .. math:: \sin(10 \pi x) / (2 x) + (x - 1)^4
    """
    x = X[..., 0]
    return (10 * torch.pi * x).sin() / (2 * x) + (x - 1).pow(4)


def langermann(X: Tensor) -> Tensor:
    r"""Evaluates the function of Langermann, least at (2.7934, 1.5972): -4.1558.

    .. math:: \sum_i c_i e^{-r_i / \pi} \cos \pi r_i, \qquad
        r_i = \sum_j (x_j - a_{ij})^2
    """
    centres = X.new_tensor([[3, 5], [5, 2], [2, 1], [1, 4], [7, 9]])
    weights = X.new_tensor([1, 2, 5, 2, 3])
    r = (X.unsqueeze(-2) - centres).square().sum(-1)
    return (weights * (-r / torch.pi).exp() * (torch.pi * r).cos()).sum(-1)


def levy13(X: Tensor) -> Tensor:
    r"""Evaluates the thirteenth function of Levy, at least 0, its value at (1, 1).

    .. math:: \sin^2 3 \pi x_1 + (x_1 - 1)^2 (1 + \sin^2 3 \pi x_2)
        + (x_2 - 1)^2 (1 + \sin^2 2 \pi x_2)
    """
    x, y = X.unbind(-1)
    first, second = (3 * torch.pi * y).sin(), (2 * torch.pi * y).sin()
    start = (3 * torch.pi * x).sin().square() + (x - 1).square() * (1 + first.square())
    return start + (y - 1).square() * (1 + second.square())


def perm0(X: Tensor) -> Tensor:
    r"""Evaluates perm 0, d, beta = 10: at least 0, its value at :math:`x_j = 1 / j`.

    .. math:: \sum_i \Big(\sum_j (j + \beta) (x_j^i - j^{-i})\Big)^2
    """
    j = torch.arange(1, X.shape[-1] + 1).to(X)
    powers = X.unsqueeze(-2).pow(j.unsqueeze(-1)) - j.reciprocal().pow(j.unsqueeze(-1))
    return ((j + 10) * powers).sum(-1).square().sum(-1)


def perm(X: Tensor) -> Tensor:
    r"""Evaluates perm d, beta = 0.5: at least 0, its value where :math:`x_j = j`.

    .. math:: \sum_i \Big(\sum_j (j^i + \beta) ((x_j / j)^i - 1)\Big)^2
    """
    j = torch.arange(1, X.shape[-1] + 1).to(X)
    i = j.unsqueeze(-1)
    powers = (X / j).unsqueeze(-2).pow(i) - 1
    return ((j.pow(i) + 0.5) * powers).sum(-1).square().sum(-1)


def rotated_hyper_ellipsoid(X: Tensor) -> Tensor:
    r"""Evaluates the rotated hyper-ellipsoid, :math:`\sum_i \sum_{j \le i} x_j^2`."""
    return X.square().cumsum(-1).sum(-1)


def schaffer4(X: Tensor) -> Tensor:
    r"""Evaluates the fourth function of Schaffer, least at (0, 1.2531): 0.2926.

    So it is at three more points.

    .. math:: 0.5 + \frac{\cos^2(\sin |x_1^2 - x_2^2|) - 0.5}
        {(1 + 0.001 (x_1^2 + x_2^2))^2}
    """
    x, y = X.square().unbind(-1)
    wave = (x - y).abs().sin().cos().square() - 0.5
    return 0.5 + wave / (1 + 0.001 * (x + y)).square()


def schwefel(X: Tensor) -> Tensor:
    r"""Evaluates the function of Schwefel, :math:`-\sum_i x_i \sin \sqrt{|x_i|}`.

    It lacks the constant that makes its minimum nearly 0; in each input the minimum is
    -418.98, at 420.97.
    """
    return -(X * X.abs().sqrt().sin()).sum(-1)


def shubert(X: Tensor) -> Tensor:
    r"""Evaluates the function of Shubert.

    .. math:: \prod_j \sum_{i=1}^5 i \cos((i + 1) x_j + i)
    """
    i = torch.arange(1, 6).to(X)
    return (i * ((i + 1) * X.unsqueeze(-1) + i).cos()).sum(-1).prod(-1)


def sphere(X: Tensor) -> Tensor:
    r"""Evaluates the sphere, :math:`\sum_i x_i^2`."""
    return X.square().sum(-1)


def sum_squares(X: Tensor) -> Tensor:
    r"""Evaluates the sum of squares, :math:`\sum_i i x_i^2`."""
    i = torch.arange(1, X.shape[-1] + 1).to(X)
    return (i * X.square()).sum(-1)


def trid(X: Tensor) -> Tensor:
    r"""Evaluates trid, :math:`\sum_i (x_i - 1)^2 - \sum_{i > 1} x_i x_{i - 1}`.

    In two inputs it is -2 at (2, 2).
    """
    return (X - 1).square().sum(-1) - (X[..., 1:] * X[..., :-1]).sum(-1)


def ursem_waves(X: Tensor) -> Tensor:
    r"""Evaluates Ursem's waves, a cost, as Fauvel and Chalk (2021) have them.

    .. math:: -(0.3 x_1)^3 - 3.5 x_1 x_2^3
        + 4.7 \cos(3 x_1 - x_2^2 (2 + x_1)) \sin 2.5 \pi x_1

    The least one in [-0.9, 1.2] x [-1.2, 1.2] is -7.307, at (-0.606, -1.178).
    """
    x, y = X.unbind(-1)
    waves = (3 * x - y.square() * (2 + x)).cos() * (2.5 * torch.pi * x).sin()
    return -(0.3 * x).pow(3) - 3.5 * x * y.pow(3) + 4.7 * waves
