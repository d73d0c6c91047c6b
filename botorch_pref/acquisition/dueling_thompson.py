"""One posterior draw of the utility, to be maximised."""

from __future__ import annotations

import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.models.model import Model
from botorch.sampling.pathwise import draw_matheron_paths
from botorch.sampling.pathwise.paths import SamplePath
from botorch.utils.transforms import is_ensemble, t_batch_mode_transform
from torch import Generator, Tensor

from botorch_pref.acquisition.dueling_acquisition import append_points
from botorch_pref.acquisition.point_arguments import (
    check_pending,
    reference_point,
    takes_points,
)
from botorch_pref.acquisition.reference.incumbent import incumbent
from botorch_pref.acquisition.registration.registry import register_acquisition


@register_acquisition("thompson", reference=incumbent)
class DuelingThompson(AcquisitionFunction):
    r"""Dueling Thompson sampling (Benavoli, Azzimonti and Piga 2021, section 5).

    .. math:: \alpha(x) = f_j(x) - f_j(x_r),

    where :math:`f_j` is one function drawn from the posterior, by Matheron's rule on a
    prior draw of random Fourier features, when the instance is made. It stays fixed, so
    that :math:`\alpha` is smooth and its gradient exact; it is 0 at the reference
    point. Every number of pending points has its own function: each member of a batch
    chosen one by one (``sequential=True``) maximises another draw. The function of an
    ensemble, such as a fully Bayesian model, is that of one member drawn at random.

    Args:
        model: A model that BoTorch draws Matheron paths of: those of this package,
            ``PairwiseGP``, BoTorch's exact and variational single-output models.
        X_ref: The reference point, ``1 x d`` (or ``d``), or ``batch_shape x 1 x d``.
        generator: Source of the draws, on the CPU; torch's default one if None. It is
            read once, and the state of no other generator changes.

    Raises:
        FeedbackError: If ``X_ref`` is no such point.
    """

    X_ref: Tensor

    def __init__(
        self, model: Model, X_ref: Tensor, generator: Generator | None = None
    ) -> None:
        super().__init__(model=model)
        self.register_buffer("X_ref", reference_point(X_ref, model))
        self._seed = int(torch.randint(2**62, (), generator=generator))
        self.set_X_pending()

    def set_X_pending(self, X_pending: Tensor | None = None) -> None:
        """See base class. Draws the function of this number of pending points."""
        check_pending(X_pending, self.X_ref)
        super().set_X_pending(X_pending)
        number = 0 if X_pending is None else X_pending.shape[-2]
        self.path, self._member = self._draw(number)

    def _draw(self, number: int) -> tuple[SamplePath, int | None]:
        """Function drawn for a number of pending points, and its ensemble member."""
        generator = Generator().manual_seed(self._seed)
        seed = int(torch.randint(2**62, (number + 1,), generator=generator)[-1])
        devices = list(range(torch.cuda.device_count()))
        # BoTorch draws features from the global generators, here seeded and restored.
        with torch.random.fork_rng(devices=devices), torch.no_grad():
            torch.manual_seed(seed)
            path = draw_matheron_paths(self.model, sample_shape=torch.Size())
            if not is_ensemble(self.model):
                return path, None
            return path, int(torch.randint(self.model.batch_shape[-1], ()))

    @takes_points
    @t_batch_mode_transform(expected_q=1)  # type: ignore[arg-type]
    def forward(self, X: Tensor) -> Tensor:
        """The draw's improvement on the reference point.

        Args:
            X: ``batch_shape x 1 x d``.

        Returns:
            ``batch_shape``, broadcast with the batch of the model.
        """
        values = self.path(append_points(X, self.X_ref))
        if self._member is not None:
            values = values[..., self._member, :]
        return values[..., 0] - values[..., 1]
