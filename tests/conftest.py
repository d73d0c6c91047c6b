"""Settings that every test shares, and which of them are quick."""

import gc
import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import settings

# Assertions in what tests share say their values, as those of tests do.
pytest.register_assert_rewrite(
    *("browsing", "calling", "cases", "models", "truths", "tutorial_checks")
)

# Same examples every time, and no deadline: the tests time nothing.
settings.register_profile("reproducible", derandomize=True, deadline=None)
settings.load_profile("reproducible")

# What JAX compiles here is run a few times, so that optimising it does not pay. JAX
# reads this when it is imported.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

# SciPy's L-BFGS factorises a matrix of a few rows in each iteration, and where another
# test has the second core, the threads of NumPy's BLAS wait for each other a hundred
# times as long as that takes. NumPy reads this when it is imported, as do the processes
# that xdist starts.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

_LONGEST = {
    *("test_tutorials.py", "test_adversary.py", "test_resume.py"),
    *("test_nothing_is_changed.py", "test_clusters.py"),
}
"""Files whose tests run first, and are never among the quick ones."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds options: how many random problems the adversary tries, and which."""
    parser.addoption(
        "--fuzz-cases", type=int, default=120, help="random problems in all (120)"
    )
    parser.addoption(
        "--fuzz-seed", type=int, default=0, help="other random problems (0)"
    )


def pytest_sessionstart(session: pytest.Session) -> None:
    """Sets one thread: the matrices are small, and the tests run side by side.

    Modules and tests stay, so that nothing is garbage until all are there. The process
    that deals out tests runs none, and need not wait for this import.
    """
    if not session.config.getoption("numprocesses", None):
        gc.disable()
        import torch
        from sqlalchemy import Engine, event

        torch.set_num_threads(1)
        event.listen(Engine, "connect", _written_in_time)


@pytest.fixture(scope="session")
def records() -> Path:
    """The committed runs of the benchmarks, which a source distribution lacks."""
    folder = Path(__file__).parents[1] / "benchmarks" / "records"
    if not folder.is_dir():
        pytest.skip("a source distribution has no benchmarks/records")
    return folder


def _written_in_time(connection: object, *_: object) -> None:
    """Turns off waits for the disk: no test takes the power away."""
    # What is no database, or locked, is said where it is used.
    with suppress(sqlite3.Error):
        if isinstance(connection, sqlite3.Connection):
            connection.execute("PRAGMA synchronous = OFF")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks as quick one case of a third of the tests of each file.

    The longest come first: nothing as long is left when one of two processes is done,
    and none of their fixtures is made by both.
    """
    items.sort(key=lambda item: item.path.name not in _LONGEST)
    files: dict[Path, dict[str, list[pytest.Item]]] = {}
    for item in items:
        slow = item.get_closest_marker("slow") is not None
        if not slow and item.path.name not in _LONGEST:
            cases = files.setdefault(item.path, {})
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for cases in files.values():
        # The same ones each time, whatever other files there are.
        names = sorted(cases, key=lambda name: crc32(name.encode()))
        for name in names[: (len(names) + 2) // 3]:
            number = crc32(name.encode()) % len(cases[name])
            cases[name][number].add_marker(pytest.mark.quick)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Takes what stays to the end out of the garbage collector's sight.

    Half a second each time that it would look at all modules and tests again.
    """
    gc.enable()
    gc.collect()
    gc.freeze()


@pytest.fixture
def short_walks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Searches under constraints begin soon: they need no uniform starts."""
    from botorch.optim import initializers

    sample, soon = initializers.get_polytope_samples, {"n_burnin": 64, "n_thinning": 1}
    monkeypatch.setattr(
        initializers,
        "get_polytope_samples",
        lambda **arguments: sample(**arguments | soon),
    )
