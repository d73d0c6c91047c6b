"""One thread for small matrices, of torch and of the BLAS of NumPy and SciPy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

# A BLAS is limited once it is loaded.
import scipy.linalg  # noqa: F401
import torch
from threadpoolctl import threadpool_limits


@contextmanager
def one_thread() -> Iterator[None]:
    """Keeps torch and BLAS to one thread, in a ``with`` block or a decorated function.

    The matrices of tens of answers are so small that a second thread mostly waits for
    the first, and for other programs where they use the cores.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(limits=1, user_api="blas"):
            yield
    finally:
        torch.set_num_threads(before)
