"""A root of a positive semi-definite matrix, singular or not."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.linalg import LinAlgError  # type: ignore[attr-defined]

from botorch_pref.errors import PrecisionError


def psd_root(matrix: Tensor) -> Tensor:
    r"""A square root :math:`S` with :math:`S S^T = M`, to rounding.

    The Cholesky factor where it exists. Where it does not, because ``M`` is singular
    (duplicate points, comparisons that see only differences), the eigenvectors scaled
    by the roots of the eigenvalues. Eigenvalues below zero are rounding errors of a
    semi-definite matrix, of size :math:`\epsilon \|M\|`, and count as zero: nothing is
    added to the diagonal, and ``S S'`` is as close to ``M`` as a Cholesky factor is.

    Not for autograd: eigenvectors of repeated eigenvalues have no derivative.

    Args:
        matrix: ``batch_shape x k x k``, symmetric positive semi-definite.

    Returns:
        ``batch_shape x k x k``.

    Raises:
        PrecisionError: Entries are not finite, or too large for eigenvalues.
    """
    cholesky, info = torch.linalg.cholesky_ex(matrix)
    if not bool(info.any()):
        return cholesky
    try:
        eigenvalues, eigenvectors = torch.linalg.eigh(matrix)
    except LinAlgError as error:
        raise PrecisionError(
            f"A matrix of shape {tuple(matrix.shape)} has no eigenvalues that can be "
            f"computed ({error}); its entries reach {float(matrix.abs().amax()):.3g}. "
            "Are the hyper-parameters finite, and of the size of the data?"
        ) from error
    return eigenvectors * eigenvalues.clamp_min(0.0).sqrt().unsqueeze(-2)
