"""Preference experiments in Ax: stored, resumed and over mixed search spaces.

Importing this package registers our models, acquisition functions and objective with
Ax's fitting and storage.
"""

import sys

from botorch_pref.errors import BotorchPrefError

if sys.flags.optimize > 1:
    raise BotorchPrefError(
        "Ax and the page's description are made of docstrings, which python -OO leaves "
        "out; start python -O, or python."
    )
try:
    import ax  # noqa: F401
    import sqlalchemy  # noqa: F401
except ImportError as error:
    raise ImportError(
        f"Experiments in Ax need {error.name}: pip install 'botorch-pref[ax]'",
        name=error.name,
    ) from error

from botorch_pref.ax import hooks as hooks
from botorch_pref.ax.answers import Answer
from botorch_pref.ax.experiment import PreferenceExperiment
from botorch_pref.ax.generation.adapter import PreferenceAdapter
from botorch_pref.ax.generation.question_choice import (
    PreferenceGenerators,
    preference_generation_strategy,
)
from botorch_pref.ax.questions import Design, Question
from botorch_pref.ax.settings import Settings

__all__ = [
    "Answer",
    "Design",
    "PreferenceAdapter",
    "PreferenceExperiment",
    "PreferenceGenerators",
    "Question",
    "Settings",
    "preference_generation_strategy",
]
