"""The commands of `python -m botorch_pref`: optimise, choices, rank and serve."""

import sys
from pathlib import Path

SCRIPT = "botorch-pref"
"""Name of the console script."""


def program() -> str:
    """Returns how the command line was called, for the usage that parsers print.

    Where another program calls it, that is ``python -m``, by which it can be called.
    """
    is_script = Path(sys.argv[0]).stem == SCRIPT
    return SCRIPT if is_script else "python -m botorch_pref"
