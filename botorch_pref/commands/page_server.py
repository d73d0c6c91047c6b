"""Server of the page, which Ctrl-C stops."""

from __future__ import annotations

import signal
from types import FrameType

import uvicorn


class PageServer(uvicorn.Server):
    """Server that stops when it is told to, and at once when it is told again.

    What was answered is on the disk by then, however this process ends. See
    `uvicorn.Server`, which would cancel what is under way, and print where.
    """

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begins to stop; the next Ctrl-C ends the process as it does any other.

        Args:
            sig: The signal that came.
            frame: Where it came.
        """
        super().handle_exit(sig, frame)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
