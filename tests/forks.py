"""Other processes without another interpreter, which would import everything again."""

import os
import subprocess
import sys
from collections.abc import Callable
from multiprocessing import get_context
from typing import Any

RUN = subprocess.run


class ModelsHere:
    """Does in this process what the process that fits models does elsewhere."""

    def run(self, notes: list[str], job: Callable[..., Any], *arguments: Any) -> Any:
        return job(*arguments)

    def close(self) -> None:
        pass


def run(command: list[str], **arguments: Any) -> subprocess.CompletedProcess[Any]:
    """Runs ``subprocess.run`` by a fork where a program is given as ``python -c``."""
    if command[:2] != [sys.executable, "-c"]:
        return RUN(command, **arguments)
    process = get_context("fork").Process(target=exec, args=(command[-1], {}))
    process.start()
    process.join()
    return subprocess.CompletedProcess(command, process.exitcode or 0)


class Package:
    """Process of ``python -m botorch_pref`` as `Popen`'s: what it prints can be read.

    Args:
        command: The interpreter, ``-m``, the package, and its arguments.
    """

    def __init__(self, command: list[str], **_: Any) -> None:
        reads, writes = os.pipe()
        self.stdout = os.fdopen(reads)
        self._process = get_context("fork").Process(
            target=self._main, args=(command[3:], writes)
        )
        self._process.start()
        os.close(writes)

    def _main(self, arguments: list[str], writes: int) -> None:
        from botorch_pref.__main__ import main
        from botorch_pref.web import worker

        worker.ModelProcess = ModelsHere  # type: ignore[assignment, misc]
        sys.stdout = os.fdopen(writes, "w", buffering=1)
        main(arguments)

    def kill(self) -> None:
        self._process.kill()

    def communicate(self) -> None:
        self._process.join()
        self.stdout.close()
