"""Many runs: here, on all cores, or on a cluster; each batch is written as it ends."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tqdm import tqdm

from benchmarks.suite.cell import Cell
from benchmarks.suite.runs.batch import batches, play_together
from benchmarks.suite.runs.play import Outcome
from benchmarks.suite.runs.store import check_writable, is_done, write_run


def run_cells(
    cells: Iterable[Cell],
    folder: Path,
    *,
    jobs: int = -1,
    scheduler: str | None = None,
) -> list[Outcome]:
    """Runs what is not there yet, and shows how much is left.

    Args:
        cells: What to run.
        folder: Of all runs; those in it are not run again.
        jobs: Processes, as joblib counts them: -1 for all cores. With 1 all runs are in
            this process, without joblib.
        scheduler: Address of a Dask scheduler, whose workers run the cells then. They
            need this repository on their path; files are written here.

    Returns:
        Those that failed.

    Raises:
        OSError: The folder cannot be made or written, or the scheduler not be reached.
    """
    left = missing_runs(folder, cells)
    for study in {cell.study for cell in left}:
        check_writable(folder / study)
    failed = []
    bar = tqdm(total=len(left), unit="run", smoothing=0.05)
    with bar:
        for outcome in _outcomes(left, jobs, scheduler):
            if outcome.error:
                failed.append(outcome)
                bar.write(f"{outcome.cell.key} failed:\n{outcome.error}")
            else:
                write_run(folder, outcome)
            bar.update()
    return failed


def missing_runs(folder: Path, cells: Iterable[Cell]) -> list[Cell]:
    """Runs, of some, that a folder does not have."""
    return [cell for cell in cells if not is_done(folder, cell)]


def _outcomes(
    cells: Sequence[Cell], jobs: int, scheduler: str | None
) -> Iterator[Outcome]:
    """Outcomes as they come, in any order."""
    together = batches(cells)
    if scheduler is not None:
        found = _on_cluster(together, scheduler)
    elif jobs == 1:
        found = map(play_together, together)
    else:
        found = _on_cores(together, jobs)
    for outcomes in found:
        yield from outcomes


def _on_cores(
    together: Sequence[Sequence[Cell]], jobs: int
) -> Iterator[Sequence[Outcome]]:
    import joblib

    parallel = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered")
    yield from parallel(joblib.delayed(play_together)(cells) for cells in together)


def _on_cluster(
    together: Sequence[Sequence[Cell]], scheduler: str
) -> Iterator[Sequence[Outcome]]:
    import joblib
    from dask.distributed import Client

    with Client(scheduler), joblib.parallel_config(backend="dask"):
        yield from _on_cores(together, -1)
