"""Shared fixtures of experiments; warnings of Ax about pandas are let pass."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from espresso import create, play

from botorch_pref.ax import PreferenceExperiment

OLD_PANDAS = "ignore::pandas.errors.Pandas4Warning"


@pytest.fixture(scope="session")
def played(tmp_path_factory: pytest.TempPathFactory) -> PreferenceExperiment:
    """Two questions of the spread and two of the model, all answered; to be read."""
    folder = tmp_path_factory.mktemp("played")
    experiment = create(folder / "espresso.db", initial=2)
    play(experiment, 4)
    return experiment


@pytest.fixture
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few draws: of two or three designs nothing new is found by going on for long."""
    monkeypatch.setattr("botorch_pref.ax.generation.question_choice._DRAWS", 4)


@pytest.fixture
def uncompiled() -> Iterator[None]:
    """Samples without compiling the sampler, which takes longer than a few draws."""
    import jax

    with jax.disable_jit():
        yield


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    folder = Path(__file__).parent
    for item in items:
        if folder in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings(OLD_PANDAS))
