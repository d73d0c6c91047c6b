"""Experiments neither move nor depend on the generators that a whole process shares."""

import random
from collections.abc import Callable

import numpy as np
import pytest
import torch
from showing import short_report

from botorch_pref.ax import PreferenceExperiment


def generators() -> list[object]:
    # NumPy's old generator is the global one, which is what this is about.
    name, keys, *position = np.random.get_state()  # noqa: NPY002
    draws = torch.get_rng_state().tolist()
    return [random.getstate(), [name, keys.tolist(), *position], draws]


USES: dict[str, Callable[[PreferenceExperiment], object]] = {
    "resume": lambda e: (
        PreferenceExperiment.resume("espresso", storage=e._stored._store.path).settings
    ),
    "recommend": lambda e: e.recommend(),
    "anywhere": lambda e: e.recommend(anywhere=True),
    "report": lambda e: str(short_report(e)),
    "cross_validate": lambda e: e.cross_validate(2).to_string(),
    "ask": lambda e: sorted(map(str, e.ask(2).options)),
}
"""All but the last leave the experiment as it was."""


@pytest.mark.slow
@pytest.mark.parametrize("use", USES)
def test_global_generators_are_left_as_they_were(played, use, tmp_path) -> None:
    outcomes = []
    if use == "ask":
        played = played.copy(storage=tmp_path / "espresso.db")
    for seed in (1, 2):
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002
        torch.manual_seed(seed)
        seeded = generators()
        outcomes.append(USES[use](played))
        assert generators() == seeded
    # Another question is another one; what is said of the answers is not.
    assert (outcomes[0] == outcomes[1]) == (use != "ask")
