"""Shared fixtures of the page."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from calling import Page
from starlette.testclient import TestClient
from tea import create

from botorch_pref.ax import PreferenceExperiment
from botorch_pref.web import make_app
from botorch_pref.web.worker import LOGGER

OLD_PANDAS = "ignore::pandas.errors.Pandas4Warning"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    folder = Path(__file__).parent
    for item in items:
        if folder in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings(OLD_PANDAS))


@pytest.fixture(autouse=True)
def logger_as_it_was() -> Iterator[None]:
    """The command that serves sends warnings to a file, for the whole process."""
    before = list(LOGGER.handlers)
    yield
    for handler in set(LOGGER.handlers) - set(before):
        LOGGER.removeHandler(handler)
        handler.close()
    LOGGER.propagate = True


@pytest.fixture
def experiment(tmp_path: Path) -> PreferenceExperiment:
    return create(tmp_path / "tea.db")


@pytest.fixture
def served() -> Iterator[Callable[..., Page]]:
    """Pages of applications with duels, which are shut down after the test."""
    with ExitStack() as stack:

        def serve(experiment: PreferenceExperiment, **options: Any) -> Page:
            app = make_app(experiment, **{"size": 2, **options})
            client = TestClient(app, "http://localhost")
            return Page(stack.enter_context(client), experiment)

        yield serve


@pytest.fixture
def page(experiment: PreferenceExperiment, served: Callable[..., Page]) -> Page:
    """The page of a new experiment, kept in `tea.db`."""
    return served(experiment)
