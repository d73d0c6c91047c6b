from pathlib import Path

import matplotlib.image
import torch

from botorch_pref.evaluation.explanation import EvidenceProfile
from botorch_pref.plotting.figures import draw_evidence_profile

# #0072b2 at 15 % over white.
SHADE = 1 - 0.15 * (1 - torch.tensor([0x00, 0x72, 0xB2]) / 255)


def shaded(profile: EvidenceProfile, path: Path) -> float:
    """Share of the pixels that the interval covers."""
    draw_evidence_profile(profile, path)
    image = torch.tensor(matplotlib.image.imread(path))
    return float(((image[..., :3] - SHADE).abs().amax(-1) < 0.01).double().mean())


def test_a_wider_interval_covers_more(tmp_path: Path) -> None:
    values = torch.logspace(-2, 2, 21, dtype=torch.float64)
    zeros = torch.zeros_like(values)
    sharp = EvidenceProfile("noise", values, -20 * values.log10().square())
    flat = EvidenceProfile("noise", values, zeros)
    negative = EvidenceProfile("mean", values - 1, zeros)
    path = tmp_path / "profile.png"
    few, many = shaded(sharp, path), shaded(flat, path)
    # In decades 2 * sqrt(1.92 / 20) of 4.
    assert 0 < few < 0.2 * many
    assert shaded(negative, path) > 4 * few
