"""The tutorials run, and their committed outputs are what they print.

The numbers in their text are asserted in the notebooks themselves, in the cells tagged
``check``.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from jupyter_client import AsyncKernelManager
from jupyter_core.utils import run_sync
from nbclient import NotebookClient
from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parents[1]
TUTORIALS = ROOT / "tutorials"
NOTEBOOKS = sorted(path.name for path in TUTORIALS.glob("*.ipynb"))
MAX_BYTES = 400_000


def read(name: str) -> NotebookNode:
    return nbformat.read(TUTORIALS / name, as_version=4)


def code_cells(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def outputs(notebook: NotebookNode) -> list[NotebookNode]:
    return [output for cell in code_cells(notebook) for output in cell.outputs]


def complaints(notebook: NotebookNode) -> list[NotebookNode]:
    """Errors, and warnings or anything else on the error stream."""
    return [
        output
        for output in outputs(notebook)
        if output.output_type == "error" or output.get("name") == "stderr"
    ]


def num_images(notebook: NotebookNode) -> int:
    return sum("image/png" in output.get("data", {}) for output in outputs(notebook))


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_committed_outputs_are_of_one_clean_run(name: str) -> None:
    notebook = read(name)
    nbformat.validate(notebook)
    counts = [cell.execution_count for cell in code_cells(notebook)]
    assert counts == list(range(1, len(counts) + 1))
    assert complaints(notebook) == []
    assert num_images(notebook) >= 2
    assert (TUTORIALS / name).stat().st_size < MAX_BYTES
    last = notebook.cells[-1]
    assert last.metadata.tags == ["check"]
    assert any(
        isinstance(node, ast.Assert) for node in ast.walk(ast.parse(last.source))
    )


FORGET = """
%reset -f
import torch
torch.set_default_dtype(torch.float32)
"""


@pytest.fixture(scope="module")
def kernel() -> Iterator[AsyncKernelManager]:
    """One interpreter for all notebooks, which takes seconds to import everything."""
    manager = AsyncKernelManager(kernel_name="python3")
    yield manager
    run_sync(manager.shutdown_kernel)(now=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_runs_as_committed(name: str, kernel: AsyncKernelManager) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    committed, repeated = read(name), read(name)
    repeated.cells.insert(0, nbformat.v4.new_code_cell(FORGET))
    client = NotebookClient(repeated, km=kernel, timeout=300)
    client.execute(cwd=str(TUTORIALS), env=environment)
    client.kc.stop_channels()
    assert complaints(repeated) == []
    assert num_images(repeated) == num_images(committed)
