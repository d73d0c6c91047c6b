"""Filter of warnings that Ax's storage causes by itself."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def hidden_storage_warnings() -> Iterator[None]:
    """Hides warnings that Ax's storage uses Ax's old names, defaults and types."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"ax\.storage\.")
        warnings.filterwarnings("ignore", "TypeDecorator JSONEncodedText")
        yield
