"""The tutorials run, and their committed outputs are what they print.

`tutorial_checks` holds the numbers in their text. What cells tagged ``varies`` print
depends on how fast a machine is, or on how it rounds: a loop that asks what it learned
may go another way from some question on.
"""

from __future__ import annotations

import ast
import contextlib
import io
import logging
import re
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import forks
import nbformat
import pandas
import pytest
import torch
import tutorial_checks
from IPython.lib.pretty import pretty
from matplotlib import pyplot
from matplotlib.figure import Figure
from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parents[1]
TUTORIALS = ROOT / "tutorials"
NOTEBOOKS = sorted(path.name for path in TUTORIALS.glob("*.ipynb"))
MAX_BYTES = 400_000
MAX_LINES = 60
NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")


def code_cells(name: str) -> list[NotebookNode]:
    notebook = nbformat.read(TUTORIALS / name, as_version=4)
    nbformat.validate(notebook)
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def committed_text(cell: NotebookNode) -> str:
    """Reads what a cell printed, then its value."""
    printed = [o.text for o in cell.outputs if o.output_type == "stream"]
    values = [o.data for o in cell.outputs if o.output_type == "execute_result"]
    return "".join(printed) + "".join(data["text/plain"] for data in values)


def num_images(cell: NotebookNode) -> int:
    return sum("image/png" in output.get("data", {}) for output in cell.outputs)


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_committed_outputs_are_of_one_clean_run(name: str) -> None:
    cells = code_cells(name)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    for cell in cells:
        for output in cell.outputs:
            assert output.output_type != "error"
            assert output.get("name") != "stderr"
    assert sum(map(num_images, cells)) >= 2
    assert (TUTORIALS / name).stat().st_size < MAX_BYTES


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_cells_are_short_and_teach_instead_of_testing(name: str) -> None:
    sources = [cell.source for cell in code_cells(name)]
    assert max(source.count("\n") + 1 for source in sources) <= MAX_LINES
    nodes = [node for source in sources for node in ast.walk(ast.parse(source))]
    assert not any(isinstance(node, ast.Assert) for node in nodes)


BY_HAND = {
    *("plot", "scatter", "bar", "hist", "errorbar", "step", "fill_between", "contour"),
    *("contourf", "axhline", "axvline", "axhspan", "axvspan", "annotate", "text"),
}
"""Methods that draw into axes: notebooks draw by `botorch_pref.plotting`."""


def drawn_by_hand(source: str) -> list[str]:
    calls = (n.func for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Call))
    names = [f.attr for f in calls if isinstance(f, ast.Attribute)]
    return [name for name in names if name in BY_HAND]


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_figures_are_drawn_by_the_functions_of_plotting(name: str) -> None:
    sources = [cell.source for cell in code_cells(name)]
    assert [call for source in sources for call in drawn_by_hand(source)] == []
    assert drawn_by_hand("axes[0].plot(x, y); plot_curves(x, z)") == ["plot"]


def test_the_quick_start_is_twenty_lines_and_two_figures() -> None:
    loop, *figures = code_cells("quick_start.ipynb")
    function = ast.parse(loop.source).body
    lines = {
        node.lineno
        for statement in function
        if not isinstance(statement, ast.FunctionDef | ast.Import | ast.ImportFrom)
        for node in ast.walk(statement)
        if hasattr(node, "lineno")
    }
    assert len(lines) <= 20
    assert [num_images(cell) for cell in figures] == [1, 1]


class Session:
    """Runs cells one after the other in a namespace of their own, as a kernel does."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.num_images = 0

    def show(self) -> None:
        """Draws the open figures and closes them, as a notebook shows them."""
        for number in pyplot.get_fignums():
            pyplot.figure(number).canvas.draw()
            self.num_images += 1
        pyplot.close("all")

    def run(self, source: str, place: str) -> tuple[str, int]:
        """Runs a cell; returns its output with its value, and its number of images."""
        tree, self.num_images = ast.parse(source), 0
        last = None
        if tree.body and isinstance(tree.body[-1], ast.Expr):
            last = ast.Expression(tree.body.pop().value)
        printed, value = io.StringIO(), None
        with contextlib.redirect_stdout(printed):
            exec(compile(tree, place, "exec"), self.names)
            if last is not None:
                value = eval(compile(last, place, "eval"), self.names)
        if isinstance(value, Figure):
            value.canvas.draw()
        self.num_images += isinstance(value, Figure) or hasattr(value, "_repr_png_")
        self.show()
        shown_value = "" if value is None else pretty(value)
        return printed.getvalue() + shown_value, self.num_images


def words(text: str) -> list[str]:
    return NUMBER.sub("#", text).split()


def close(number: str, committed: str) -> bool:
    """Tells whether numbers are equal but for one in the last digit, or a fiftieth.

    Processors round differently, and searches end where their tolerance lets them.
    """
    digits = len(committed.partition("e")[0].partition(".")[2])
    difference = abs(float(number) - float(committed))
    return difference <= max(1.01 * 10.0**-digits, abs(float(committed)) / 50)


# A kernel does not show them, where they are not the notebook's own.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.slow
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_prints_what_is_committed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(TUTORIALS)
    # Another interpreter would import everything anew.
    monkeypatch.setattr(subprocess, "run", forks.run)
    monkeypatch.setattr("botorch_pref.web.worker.ModelProcess", forks.ModelsHere)
    monkeypatch.setattr(logging.root.manager, "disable", logging.NOTSET)
    session = Session()
    pyplot.switch_backend("agg")
    monkeypatch.setattr(pyplot, "show", lambda: session.show())  # a plain function
    dtype = torch.get_default_dtype()
    in_a_kernel = pandas.option_context("display.max_columns", 20)
    with torch.random.fork_rng(devices=[]), pyplot.rc_context(), in_a_kernel:
        torch.set_default_dtype(torch.float32)
        try:
            for number, cell in enumerate(code_cells(name), 1):
                text, images = session.run(cell.source, f"{name}, cell {number}")
                expected = committed_text(cell)
                assert images == num_images(cell), f"cell {number}"
                if "varies" in cell.metadata.get("tags", []):
                    continue
                assert words(text) == words(expected), f"cell {number}"
                pairs = zip(NUMBER.findall(text), NUMBER.findall(expected), strict=True)
                assert [
                    number_pair for number_pair in pairs if not close(*number_pair)
                ] == []
            getattr(tutorial_checks, Path(name).stem)(SimpleNamespace(**session.names))
        finally:
            torch.set_default_dtype(dtype)
            pyplot.close("all")
