"""Rows that each element of a batch merges in its own way, against each by itself."""

import torch

from botorch_pref.likelihoods.factors import BoxFactors
from botorch_pref.linalg import SparseDesign
from botorch_pref.linalg.sparse_design import row_groups

ENDS = [-1.3, -0.9, -0.5, -0.2]


def boxes_of(pairs: list[list[list[int]]]) -> BoxFactors:
    """Ties of some noises whose pairs differ between the elements of a batch."""
    indices = torch.tensor(pairs)
    signs = torch.tensor([1.0, -1.0]).double().expand(indices.shape)
    lower = torch.tensor(ENDS).double().expand(indices.shape[:-1])
    rows = SparseDesign(indices, signs, 4)
    return BoxFactors(rows, 0.3 - 0.1 * lower, lower, lower + 1.7)


def test_elements_of_a_batch_are_merged_by_themselves() -> None:
    """An answer of a row that one element merges may be of a lone row in another."""
    pairs = [[[0, 1], [2, 3], [0, 1], [1, 2]], [[0, 1], [0, 2], [1, 3], [1, 0]]]
    mean = torch.linspace(-1, 1, 6).double().reshape(2, 3)
    variance = torch.linspace(0.2, 2, 6).double().reshape(2, 3)
    together = boxes_of(pairs).merged(None, row_groups)
    found = together.tilted(mean, variance)
    for element, own in enumerate(pairs):
        alone = boxes_of([own]).merged(None, row_groups)
        expected = alone.tilted(mean[element : element + 1], variance[element])
        for got, want in zip(found, expected, strict=True):
            torch.testing.assert_close(got[element], want[0], rtol=1e-9, atol=1e-9)


def test_one_element_of_answers_serves_every_element_of_means() -> None:
    """Answers of a batch of one, as a noise of that batch makes them."""
    together = boxes_of([[[0, 1], [2, 3], [0, 1], [1, 2]]]).merged(None, row_groups)
    mean = torch.linspace(-1, 1, 6).double().reshape(2, 3)
    variance = torch.linspace(0.2, 2, 3).double()
    found = together.tilted(mean, variance)
    for element in range(2):
        expected = together.tilted(mean[element : element + 1], variance)
        for got, want in zip(found, expected, strict=True):
            torch.testing.assert_close(got[element], want[0], rtol=1e-9, atol=1e-9)
