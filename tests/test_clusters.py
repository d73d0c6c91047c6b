"""Processes and clusters find what one process finds.

One file, since each of their processes imports everything first.
"""

from collections.abc import Iterator
from pathlib import Path

import joblib
import pandas as pd
import pytest
import torch
from tiny_study import CELLS

from benchmarks.suite.runs.schedule import run_cells
from benchmarks.suite.runs.store import read_runs
from botorch_pref import EPPreferenceGP
from botorch_pref.__main__ import main
from botorch_pref.evaluation import cross_validate_model

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    """The address of a cluster of one process."""
    distributed = pytest.importorskip("distributed", reason="dask is not installed")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, dashboard_address=None
    ) as cluster:
        yield cluster.scheduler_address


def test_models_are_cross_validated_alike(scheduler: str) -> None:
    points = torch.tensor([[0.0], [0.3], [0.6], [1.0]], dtype=torch.double)
    pairs = torch.tensor([[1, 0], [1, 2], [2, 3], [0, 3]])
    model = EPPreferenceGP(points, pairs).eval()
    model.posterior(points)
    alone = cross_validate_model(model, num_folds=4)
    models = cross_validate_model(model, num_folds=4, n_jobs=2)
    pd.testing.assert_frame_equal(models, alone)
    from distributed import Client

    with Client(scheduler), joblib.parallel_config(backend="dask"):
        pd.testing.assert_frame_equal(cross_validate_model(model, num_folds=4), alone)


def test_boards_are_made_alike(scheduler: str, tmp_path: Path) -> None:
    answer_path, out = tmp_path / "answers.csv", tmp_path / "out"
    answer_path.write_text("winner,loser,kind\na,b,x\nb,c,x\na,c,y\nc,b,y\nb,a,y\n")
    command = ["rank", str(answer_path), "--out", str(out), "--category", "kind"]
    boards = []
    for options in ([], ["--jobs", "2"], ["--scheduler", scheduler]):
        assert main([*command, *options]) == 0
        boards.append(pd.read_csv(out / "leaderboard.csv"))
    for board in boards[1:]:
        pd.testing.assert_frame_equal(board, boards[0])


def test_runs_of_the_suite_are_played_alike(scheduler: str, tmp_path: Path) -> None:
    assert not run_cells(CELLS, tmp_path / "here", jobs=1)
    assert not run_cells(CELLS, tmp_path / "there", scheduler=scheduler)
    local_folder, cluster_folder = (
        read_runs(tmp_path / place, "tiny").drop(columns="seconds")
        for place in ("here", "there")
    )
    assert local_folder.equals(cluster_folder)
