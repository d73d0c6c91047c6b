"""Part of an experiment, for what Ax does with all of it where a part is enough."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy

from ax.core.base_trial import BaseTrial
from ax.core.data import Data
from ax.core.experiment import Experiment
from ax.core.trial_status import TrialStatus


def part_of_experiment(
    experiment: Experiment, trials: Iterable[BaseTrial] = ()
) -> Experiment:
    """A shallow copy of an experiment with the data of some trials, to be encoded.

    It has no trials itself: Ax decodes what it has stored, to learn the numbers in the
    database, and puts the trials that come out of it into the experiment.

    Args:
        experiment: Ax's.
        trials: Whose data to take.
    """
    part = copy(experiment)
    indices = {trial.index for trial in trials}
    rows = experiment.data._data_rows
    part.data = Data(data_rows=[row for row in rows if row.trial_index in indices])
    part._trials = {}
    part._trial_indices_by_status = {status: set() for status in TrialStatus}
    return part
