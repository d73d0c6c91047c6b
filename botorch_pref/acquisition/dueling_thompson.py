"""One posterior draw of the utility, to be maximised."""

from __future__ import annotations

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.models.model import Model
from botorch.sampling.pathwise import draw_matheron_paths
from botorch.sampling.pathwise.paths import SamplePath
from botorch.utils.transforms import t_batch_mode_transform
from torch import Generator, Tensor

import botorch_pref.models.pathwise  # noqa: F401 (registers the draws)
from botorch_pref.acquisition.dueling_acquisition import (
    append_reference,
    reference_point,
)


class DuelingThompson(AcquisitionFunction):
    r"""Dueling Thompson sampling (Benavoli, Azzimonti and Piga 2021, section 5).

    .. math:: \alpha(x) = f_j(x) - f_j(x_r),

    where :math:`f_j` is one function drawn from the posterior, by Matheron's rule on a
    prior draw of random Fourier features, when the instance is made. It stays fixed, so
    that :math:`\alpha` is smooth and its gradient exact; it is 0 at the reference
    point. With pending points a new function is drawn: each member of a batch chosen
    one by one (``sequential=True``) maximises its own draw.

    Args:
        model: A model that BoTorch draws Matheron paths of: those of this package,
            ``PairwiseGP``, BoTorch's exact and variational single-output models.
        X_ref: The reference point, ``1 x d`` (or ``d``), or ``batch_shape x 1 x d``.
        generator: Source of the draws, a CPU generator; torch's default one if None.
            The state of no other generator changes.

    Raises:
        ValueError: If ``X_ref`` holds several points.
    """

    def __init__(
        self, model: Model, X_ref: Tensor, generator: Generator | None = None
    ) -> None:
        super().__init__(model=model)
        self.register_buffer("X_ref", reference_point(X_ref))
        self.X_pending: Tensor | None = None
        self._generator = generator
        self.path = self._draw()

    def set_X_pending(self, X_pending: Tensor | None = None) -> None:
        """See base class. Draws a new function where there are pending points."""
        super().set_X_pending(X_pending)
        if X_pending is not None:
            self.path = self._draw()

    def _draw(self) -> SamplePath:
        seed = int(torch.randint(2**62, (), generator=self._generator))
        devices = list(range(torch.cuda.device_count()))
        # BoTorch draws features from the global generators, here seeded and restored.
        with torch.random.fork_rng(devices=devices), torch.no_grad():
            torch.manual_seed(seed)
            return draw_matheron_paths(self.model, sample_shape=torch.Size())

    @t_batch_mode_transform(expected_q=1)
    def forward(self, X: Tensor) -> Tensor:
        """The draw's improvement on the reference point.

        Args:
            X: ``batch_shape x 1 x d``.

        Returns:
            ``batch_shape``, broadcast with the batch of the model.
        """
        values = self.path(append_reference(X, self.X_ref))
        return values[..., 0] - values[..., 1]
