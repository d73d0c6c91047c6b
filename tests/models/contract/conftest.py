"""The engines, each held to the same contract."""

import pytest
from entries import Engine
from registry import ENGINES


@pytest.fixture(params=ENGINES.values(), ids=lambda entry: entry.cls.__name__)
def engine(request: pytest.FixtureRequest) -> Engine:
    return request.param
