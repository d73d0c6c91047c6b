"""Colours of curves differ to eyes that lack a kind of cones."""

from itertools import combinations

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from botorch_pref.plotting import drawing

VISION = {
    "all cones": np.eye(3),
    "no red": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "no green": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "no blue": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
"""Matrices of what is seen of linear RGB (Machado, Oliveira and Fernandes 2009)."""

TO_XYZ = [
    [0.4124564, 0.3575761, 0.1804375],
    [0.2126729, 0.7151522, 0.0721750],
    [0.0193339, 0.1191920, 0.9503041],
]


def lab(colour: str, vision: str) -> np.ndarray:
    """Lightness and two differences of a colour as it is seen (CIE 1976)."""
    rgb = np.array(to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    seen = np.clip(np.array(VISION[vision]) @ linear, 0, 1)
    ratios = np.array(TO_XYZ) @ seen / [0.95047, 1.0, 1.08883]
    low = ratios / (3 * (6 / 29) ** 2) + 4 / 29
    x, y, z = np.where(ratios > (6 / 29) ** 3, np.cbrt(ratios), low)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("vision", VISION)
def test_any_two_curves_and_the_paper_differ_in_colour(vision: str) -> None:
    """By four times 2.3, the distance that is just noticed (Mahy et al. 1994)."""
    colours = ["white", *(colour for colour, _, _ in drawing.STYLES)]
    distances = {
        pair: float(np.linalg.norm(lab(pair[0], vision) - lab(pair[1], vision)))
        for pair in combinations(colours, 2)
    }
    assert {pair: d for pair, d in distances.items() if d < 4 * 2.3} == {}


def test_red_and_green_of_one_lightness_are_one_colour_without_green_cones() -> None:
    red, green = "#c86432", "#7d8f2e"
    apart = np.linalg.norm(lab(red, "all cones") - lab(green, "all cones"))
    assert apart > 40
    assert np.linalg.norm(lab(red, "no green") - lab(green, "no green")) < apart / 3
