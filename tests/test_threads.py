"""One thread while commands run, and as many as before afterwards."""

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from botorch_pref.threads import one_thread


def numbers_of_threads() -> dict[str, int]:
    """Counts threads of torch, and of each BLAS that is loaded, by its file."""
    of_blas = {
        library["filepath"]: library["num_threads"]
        for library in threadpool_info()
        if library["user_api"] == "blas"
    }
    return {"torch": torch.get_num_threads(), **of_blas}


def test_one_thread_is_left_as_it_was_found_even_by_an_error() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    with threadpool_limits(limits=2, user_api="blas"):
        outside = numbers_of_threads()

        @one_thread()
        def solve(matrix: np.ndarray) -> np.ndarray:
            inside = numbers_of_threads()
            assert set(inside.values()) == {1}, f"threads within: {inside}"
            return np.linalg.inv(matrix)

        solve(np.eye(2))
        assert numbers_of_threads() == outside, "threads after a call"
        with pytest.raises(np.linalg.LinAlgError):
            solve(np.zeros((2, 2)))
        assert numbers_of_threads() == outside, "threads after an error"
    torch.set_num_threads(before)
