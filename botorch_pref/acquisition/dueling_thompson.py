"""One posterior draw of the utility, to be maximised."""

from __future__ import annotations

import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.models.model import Model
from botorch.sampling.pathwise import draw_matheron_paths
from botorch.utils.transforms import is_ensemble, t_batch_mode_transform
from torch import Generator, Tensor
from torch.nn import ModuleList

from botorch_pref.acquisition.dueling_acquisition import append_points
from botorch_pref.acquisition.point_arguments import (
    check_pending,
    reference_point,
    takes_points,
)
from botorch_pref.acquisition.reference.incumbent import incumbent
from botorch_pref.acquisition.registration.registry import register_acquisition
from botorch_pref.numerics.argument_ranges import checked_arguments
from botorch_pref.posteriors.query_points import check_finite


@register_acquisition("thompson", reference=incumbent)
class DuelingThompson(AcquisitionFunction):
    r"""Dueling Thompson sampling (Benavoli, Azzimonti and Piga 2021, section 5).

    .. math:: \alpha(x) = f_j(x) - f_j(x_r),

    where :math:`f_j` is one function drawn from the posterior, by Matheron's rule on a
    prior draw of random Fourier features, when the instance is made. It stays fixed, so
    that :math:`\alpha` is smooth and its gradient exact; it is 0 at the reference
    point. Every number of pending points has its own function: each member of a batch
    chosen one by one (``sequential=True``) maximises another draw. Of points that are
    chosen jointly, the second has the function of one pending point more, and so on,
    and their mean improvement is the value: the best batch is the same either way. The
    function of an ensemble, such as a fully Bayesian model, is that of one member drawn
    at random.

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
    paths: ModuleList
    _members: list[int]

    @checked_arguments
    def __init__(
        self, model: Model, X_ref: Tensor, generator: Generator | None = None
    ) -> None:
        super().__init__(model=model)
        self.register_buffer("X_ref", reference_point(X_ref, model))
        self._seed = int(torch.randint(2**62, (), generator=generator))
        self.set_X_pending()

    def set_X_pending(self, X_pending: Tensor | None = None) -> None:
        """See base class. Draws the function of this number of pending points."""
        super().set_X_pending(check_pending(X_pending, self.X_ref))
        number = 0 if X_pending is None else X_pending.shape[-2]
        self.paths, self._members = ModuleList(), []
        self._draw(number)

    def _draw(self, number: int) -> None:
        """Adds the function of a number of pending points, and its ensemble member."""
        generator = Generator().manual_seed(self._seed)
        seed = int(torch.randint(2**62, (number + 1,), generator=generator)[-1])
        devices = list(range(torch.cuda.device_count()))
        # BoTorch draws features from the global generators, here seeded and restored.
        with torch.random.fork_rng(devices=devices), torch.no_grad():
            torch.manual_seed(seed)
            self.paths.append(draw_matheron_paths(self.model, torch.Size()))
            if is_ensemble(self.model):
                member = int(torch.randint(self.model.batch_shape[-1], ()))
                self._members.append(member)

    @takes_points
    @t_batch_mode_transform()  # type: ignore[arg-type]
    def forward(self, X: Tensor) -> Tensor:
        """Mean improvement of the new points on the reference, each by its own draw.

        Args:
            X: New points, ``batch_shape x q x d``.

        Returns:
            ``batch_shape``, broadcast with the batch of the model.

        Raises:
            FeedbackError: A point is not finite.
        """
        check_finite("X", X)  # a path is no posterior, which would
        pending = 0 if self.X_pending is None else self.X_pending.shape[-2]
        while len(self.paths) < X.shape[-2]:
            self._draw(pending + len(self.paths))
        points = X.split(1, dim=-2)
        return torch.stack([self._gain(x, i) for i, x in enumerate(points)]).mean(0)

    def _gain(self, X: Tensor, place: int) -> Tensor:
        """Improvement of one point by the draw of its place, ``batch_shape``."""
        values = self.paths[place](append_points(X, self.X_ref))
        if self._members:
            values = values[..., self._members[place], :]
        return values[..., 0] - values[..., 1]
