r"""Random Fourier features of kernels for which BoTorch has none.

BoTorch's features of a stationary kernel are sines and cosines of :math:`n` random
phases :math:`\varphi_j(x) = \omega_j^T x`, since :math:`k(x - x') = E \cos(\varphi(x) -
\varphi(x'))` (Rahimi and Recht 2007). Registered here, so that function draws work with
kernels over stimuli and raters, :mod:`botorch_pref.models.raters.rater_kernel`:

- **Products.** The product of kernels has the sum of their phases, drawn independently,
  :math:`E \cos(\varphi + \psi) = E \cos \varphi \, E \cos \psi` for differences of
  phases that are symmetric. As many features do as for one factor.
- **Agreement.** :math:`k(u, u') = \rho + (1 - \rho) 1[u = u']` has the phase 0 with
  probability :math:`\rho`, and else :math:`\omega u` with a frequency from a band so
  wide that the phases of different numbers are independent: whole numbers exactly,
  others up to a correlation below :math:`10^{-7} / |u - u'|`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from botorch.sampling.pathwise import gen_kernel_features
from botorch.sampling.pathwise.features.generators import GenKernelFeatures
from botorch.sampling.pathwise.features.maps import FeatureMap, KernelFeatureMap
from botorch.sampling.pathwise.utils import (
    ChainedTransform,
    FeatureSelector,
    SineCosineTransform,
)
from gpytorch.kernels import Kernel, ProductKernel
from torch import Tensor
from torch.nn import ModuleList

from botorch_pref.models.raters.rater_kernel import AgreementKernel

# Whole, so that differences of whole numbers turn the phase by whole periods.
_BAND_PERIODS = 2**20


class ProductFeatureMap(FeatureMap):
    r"""Sines and cosines of sums of phases, from those of the summands.

    With :math:`s + i c` for sine and cosine, by the addition theorems. The features of
    all maps but the first change places at random: quasi-random frequencies with equal
    places would depend on each other.

    Args:
        kernel: The product.
        maps: Of its factors, each with as many features: sines, then cosines.
    """

    places: Tensor

    def __init__(self, kernel: ProductKernel, maps: Sequence[FeatureMap]) -> None:
        super().__init__()
        self.kernel = kernel
        self.batch_shape = kernel.batch_shape
        self.num_outputs = maps[0].num_outputs
        self.maps = ModuleList(maps)
        half = self.num_outputs // 2
        places = [torch.arange(half), *(torch.randperm(half) for _ in maps[1:])]
        self.register_buffer("places", torch.stack(places))
        self.input_transform = _selector(kernel)
        # BoTorch chains an output scale with it.
        self.output_transform = ChainedTransform()

    def forward(self, x: Tensor) -> Tensor:
        """Features, ``... x num_outputs``.

        Args:
            x: ``... x d``.
        """
        half = self.num_outputs // 2
        # Each factor has the weight of one feature, the product wants it once.
        scale = half**0.5
        sine, cosine = torch.zeros_like(x[..., :1]), torch.ones_like(x[..., :1])
        for feature_map, place in zip(self.maps, self.places, strict=True):
            features = scale * feature_map(x)
            s, c = features[..., :half][..., place], features[..., half:][..., place]
            sine, cosine = sine * c + cosine * s, cosine * c - sine * s
        return torch.cat([sine, cosine], dim=-1) / scale


def _selector(kernel: Kernel) -> ChainedTransform:
    """Transform that selects a kernel's columns; the identity where it takes all."""
    columns = kernel.active_dims
    return ChainedTransform(*[] if columns is None else [FeatureSelector(columns)])


@GenKernelFeatures.register(ProductKernel)
def _product_features(
    kernel: ProductKernel, *, num_inputs: int, num_outputs: int
) -> ProductFeatureMap:
    columns = kernel.active_dims
    inner = num_inputs if columns is None else len(columns)
    maps = [
        gen_kernel_features(factor, num_inputs=inner, num_outputs=num_outputs)
        for factor in kernel.kernels
    ]
    return ProductFeatureMap(kernel, maps)


@GenKernelFeatures.register(AgreementKernel)
def _agreement_features(
    kernel: AgreementKernel, *, num_inputs: int, num_outputs: int
) -> KernelFeatureMap:
    agreement = kernel.agreement.detach().unsqueeze(-1)
    half = num_outputs // 2
    options: Any = {"dtype": agreement.dtype, "device": agreement.device}
    shape = (*kernel.batch_shape, half)
    frequency = 2 * math.pi * _BAND_PERIODS * torch.rand(shape, **options)
    # The share of common phases is as close to the agreement as can be.
    rank = (torch.arange(half, **options) + 0.5) / half
    weight = torch.where(rank < agreement, 0.0, frequency)
    return KernelFeatureMap(
        kernel=kernel,
        weight=weight.unsqueeze(-1),
        input_transform=_selector(kernel),
        output_transform=SineCosineTransform(torch.tensor(half**-0.5, **options)),
    )
