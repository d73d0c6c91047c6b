"""Errors and warnings of the package: what was wrong, where, and what to do."""

import sys
import warnings

from botorch.exceptions.errors import UnsupportedError
from linear_operator.utils.errors import NotPSDError


class BotorchPrefError(Exception):
    """Base class of every error that this package raises on purpose."""


class FeedbackError(BotorchPrefError, ValueError, RuntimeError):
    """Feedback, datapoints or likelihood parameters that cannot mean anything.

    The message names the row and the remedy. Also a ``RuntimeError``, which is what
    GPyTorch's models and BoTorch's `PairwiseGP` raise for data that do not fit.
    """


class UnsupportedFeedbackError(BotorchPrefError, UnsupportedError):
    """A feedback type, likelihood and engine that do not go together.

    The message names the engines that do take it. Also BoTorch's ``UnsupportedError``.
    """


class PrecisionError(BotorchPrefError, NotPSDError):
    """Rounding errors exceed what the floating point type can carry.

    Also a ``NotPSDError``, so that BoTorch's fitting retries from other
    hyper-parameters.
    """


class ExperimentError(BotorchPrefError, ValueError):
    """Wrong use of an experiment: an answer, a duel or a setting that cannot be.

    The message says what to do instead.
    """


class StorageError(BotorchPrefError):
    """A stored experiment that cannot be read, or cannot be written.

    What is stored is left as it was.
    """


class InferenceWarning(UserWarning):
    """Inference that did not converge; the message says by how much."""


_HOSTS = "botorch_pref", "botorch", "gpytorch", "linear_operator", "torch", "scipy"


def warn_caller(text: str, category: type[Warning]) -> None:
    """Warns at the user's line that called this package, perhaps by way of BoTorch.

    Lines of the libraries in `_HOSTS` are passed over.
    """
    frame, level = sys._getframe(), 1
    while frame.f_back and frame.f_globals["__name__"].split(".")[0] in _HOSTS:
        frame, level = frame.f_back, level + 1
    warnings.warn(text, category, stacklevel=level)
