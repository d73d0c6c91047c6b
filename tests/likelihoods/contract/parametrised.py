"""The registry's single answers, as parameters of tests."""

import pytest
import torch
from registry import CASES, ENTRIES

CAVITIES = [
    (0.0, 1.0),
    (-3.0, 0.2),
    (4.0, 9.0),
    (-20.0, 4.0),
    (1.0, 400.0),
    (0.3, 1e-4),
]

each_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
each_entry = pytest.mark.parametrize("case", ENTRIES.values(), ids=ENTRIES.keys())
each_dtype = pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
