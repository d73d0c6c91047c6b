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
from botorch_pref.acquisition import register_acquisition, register_input_constructors

found = [name for name in {LEFT_OUT} if name in sys.modules]
assert not found, found

from botorch.acquisition.input_constructors import get_acqf_input_constructor

register_input_constructors()
register_input_constructors()
for kind in (botorch_pref.DuelingEIIG, botorch_pref.FeasibilityWeighted):
    get_acqf_input_constructor(kind)

@register_acquisition("another")
class Another(botorch_pref.DuelingEUBO):
    pass

get_acqf_input_constructor(Another)
"""


def test_importing_the_package_leaves_out_what_it_does_not_use() -> None:
    """And BoTorch's input constructors may be imported after it."""
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr
