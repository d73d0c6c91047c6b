"""The evidence of any answers, averaged over draws of the prior."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from entries import Cell
from torch import Generator, Tensor
from truths.answers import log_probabilities

_NUM_DRAWS = 4096
# So many of the draws must carry the weight for their average to be one.
_SMALLEST_SIZE = 100


@dataclass(frozen=True)
class Average:
    """The logarithm of an average over draws, its error, and whether it is one."""

    log_evidence: float
    error: float
    told: bool


def average(covariance: Tensor, cells: Sequence[Cell], noise: float) -> Average:
    """The evidence of answers about utilities with a prior of mean zero."""
    values, vectors = torch.linalg.eigh(covariance)
    root = vectors * values.clamp_min(0).sqrt()
    generator = Generator().manual_seed(1)
    white = torch.randn(_NUM_DRAWS, len(root), generator=generator, dtype=root.dtype)
    f = white @ root.T
    logs = f.new_zeros(_NUM_DRAWS)
    for cell in cells:
        law = cell.likelihood().double()
        each = log_probabilities(f, cell.feedback, law, noise)
        logs = logs + (each * cell.feedback.answer_counts).sum(-1)
    weights = logs.softmax(-1)
    size = float(1 / weights.square().sum())
    log_evidence = float(logs.logsumexp(-1)) - math.log(_NUM_DRAWS)
    return Average(
        log_evidence, math.sqrt(1 / size - 1 / _NUM_DRAWS), size >= _SMALLEST_SIZE
    )
