"""What `import botorch_pref` brings along, in an interpreter of its own."""

import subprocess
import sys

# BoTorch's input constructors bring NUTS in JAX and SciPy's distributions.
LEFT_OUT = (
    "ax",
    "botorch.acquisition.input_constructors",
    "botorch.models.fully_bayesian",
    "jax",
    "matplotlib",
    "numpyro",
    "pandas",
    "scipy.stats",
    "sqlalchemy",
)

PROGRAM = f"""
import sys
import botorch_pref
from botorch_pref import EPPreferenceGP

found = [name for name in {LEFT_OUT} if name in sys.modules]
assert not found, found
assert set(botorch_pref.__all__) <= set(dir(botorch_pref))
assert not hasattr(botorch_pref, "DuelingNothing")

from botorch_pref import *
from botorch.acquisition.input_constructors import get_acqf_input_constructor

for kind in (DuelingEIIG, FeasibilityWeighted):
    assert callable(get_acqf_input_constructor(kind))
assert botorch_pref.acquisition.DuelingEIIG is DuelingEIIG
assert all(name in globals() for name in botorch_pref.__all__)
"""


def test_importing_the_package_leaves_out_what_it_does_not_use() -> None:
    """Where BoTorch's input constructors are imported later, they know our classes."""
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr
