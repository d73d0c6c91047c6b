"""Set-up, timing and tables of every benchmark.

Times are processor seconds of one thread: on an idle core what a clock on the wall
shows, and on a shared one less disturbed than it.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import botorch
import gpytorch
import torch


def start(title: str) -> None:
    """Sets one thread and prints the title, the versions and the processor.

    Args:
        title: What the benchmark measures.
    """
    torch.set_num_threads(1)
    print(title)
    print(
        f"torch {torch.__version__}, botorch {botorch.__version__}, "
        f"gpytorch {gpytorch.__version__}, Python {platform.python_version()}"
    )
    print(f"{_processor()}, {torch.get_num_threads()} thread, processor seconds\n")


def chosen_settings(
    given: Sequence[str] | None, default: Sequence[tuple[Any, ...]]
) -> Sequence[tuple[Any, ...]]:
    """Settings of the command line, ``PROBLEM:NUMBER`` and more numbers.

    Args:
        given: As they were written; None for none.
        default: Those to take then.
    """
    if given is None:
        return default
    parts = [text.split(":") for text in given]
    return [(name, *map(float, numbers)) for name, *numbers in parts]


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def seconds(function: Callable[[], object]) -> float:
    """Processor seconds of one call.

    Args:
        function: What to time.
    """
    begin = time.process_time()
    function()
    return time.process_time() - begin


def fastest(function: Callable[[], object], repeats: int) -> float:
    """Processor seconds of the fastest of several calls: the least disturbed one.

    Args:
        function: What to time; called once more beforehand, so that imports, compiled
            functions and caches do not count.
        repeats: How many calls are timed.
    """
    function()
    return min(seconds(function) for _ in range(repeats))


def print_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Prints aligned columns: numbers to the right, words to the left.

    Args:
        header: Names of the columns.
        rows: Cells; floats are printed with three significant digits.
    """
    lines = [list(header), *([_cell(value) for value in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    numeric = [
        any(isinstance(value, int | float) for value in column)
        for column in zip(*rows, strict=True)
    ]
    for i, line in enumerate(lines):
        cells = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, numeric, strict=True)
        ]
        print("  ".join(cells).rstrip())
        if i == 0:
            print("-" * (sum(widths) + 2 * (len(widths) - 1)))
    print(flush=True)


def _cell(value: object) -> str:
    if not isinstance(value, float):
        return str(value)
    if value != 0 and abs(value) < 1e-3:
        return f"{value:.1e}"
    return f"{value:#.3g}".rstrip(".") if abs(value) < 1000 else f"{value:.0f}"
