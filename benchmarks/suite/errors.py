"""Errors of the suite."""

from botorch_pref.errors import BotorchPrefError


class SuiteError(BotorchPrefError, ValueError):
    """Options, names or files that the suite cannot use.

    The message says which, where, and what to do.
    """
