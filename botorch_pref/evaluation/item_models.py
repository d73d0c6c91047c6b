"""Models of items that answers name: which one for how many, kernels, likelihoods."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import torch
from gpytorch.kernels import Kernel, LinearKernel, ProductKernel
from gpytorch.priors import GammaPrior
from torch import Tensor

from botorch_pref.datasets.items import (
    CATEGORY,
    CHOICE,
    ITEM,
    LOSER,
    RATER,
    TIE,
    WINNER,
    ItemTable,
)
from botorch_pref.errors import FeedbackError
from botorch_pref.feedback import Choices, Comparisons, Feedback
from botorch_pref.likelihoods import (
    PairwiseLogitLikelihood,
    PlackettLuceLikelihood,
    RaoKupperLikelihood,
)
from botorch_pref.likelihoods.protocol import register_prior
from botorch_pref.linalg.covariance import dense_covariance
from botorch_pref.linalg.sparse_design import take_rows
from botorch_pref.models import AgreementKernel, CrowdKernel, ReliabilityKernel
from botorch_pref.models.kernels import default_covar_module

if TYPE_CHECKING:
    from pandas import DataFrame

MOST_ANSWERS = 30_000
"""Different answers with which a fit of a tie threshold for each item takes seconds."""

MOST_ITEMS = 1500
"""Points from which a dense model takes minutes."""

MOST_POINTS = 4000
"""Points that a dense model holds, in two hours."""

MINUTES = {False: 0.4, True: 1.8}
"""Minutes of a fit to 1,000 points, and of others by the cube of their number: without,
with a tie threshold for each item."""

TIMES_OF_NOISES = 2.0
"""Factor of the time of a crowd in which each rater has a noise."""

MOST_ENTRIES = 10**8
"""Answers times items that a crowd holds in 8 GB."""


class RankingModel(Enum):
    """Models that `rank_items` fits: to pairs of items and groups, crowds, items."""

    DENSE = "dense"
    CROWD = "crowd"
    SPARSE = "sparse"


class RankingSize(NamedTuple):
    """Size of a ranking: how many points, of what, and about how many minutes.

    ``model`` is what makes it: a dense one; `CrowdPreferenceGP`, for which answers of a
    rater are a block; or `rank_many_items`.
    """

    num_points: int
    noun: str
    minutes: float
    model: RankingModel


def ranking_size(
    answers: DataFrame, items: ItemTable | None = None, *, reliability: bool = False
) -> RankingSize:
    """Says which model `rank_items` takes for answers, and how long that takes.

    Raises:
        FeedbackError: There are more points than a model holds.
    """
    named = [*answers[WINNER], *answers[LOSER]]
    count, noun = len({*named} if items is None else items.names), "items"
    groups = [name for name in (CATEGORY, RATER) if name in answers.columns]
    if groups:
        twice = ([*answers[name]] * 2 for name in groups)
        count = len({*zip(named, *twice, strict=True)})
        noun = "pairs of an item and a group"
    elif items is None and count > MOST_ITEMS:
        return RankingSize(count, noun, 0.0, RankingModel.SPARSE)
    if count > MOST_ITEMS and _is_crowd(answers):
        minutes = _crowd_minutes(answers) * (TIMES_OF_NOISES if reliability else 1.0)
        return RankingSize(count, noun, minutes, RankingModel.CROWD)
    if count > MOST_POINTS:
        raise FeedbackError(
            f"There are {count:,} {noun}, and one model holds at most {MOST_POINTS:,}: "
            f"leave out {'raters and categories' if groups else 'features'}, and any "
            "number of items is ranked in a minute (python -m botorch_pref rank FILE, "
            "without --items, --rater and --category); or leave out items with few "
            "answers."
        )
    has_ties = TIE in answers.columns and bool(answers[TIE].any())
    slow = has_ties and len(answers) <= MOST_ANSWERS
    minutes = MINUTES[slow] * (count / 1000) ** 3
    return RankingSize(count, noun, minutes, RankingModel.DENSE)


def _is_crowd(answers: DataFrame) -> bool:
    """Tells whether answers are duels of raters that `CrowdPreferenceGP` can hold.

    That model is then faster than a dense one.
    """
    if RATER not in answers.columns:
        return False
    if CHOICE in answers.columns and answers[CHOICE].notna().any():
        return False
    count = _num_shared(answers)
    return count <= MOST_POINTS and count * len(answers) <= MOST_ENTRIES


def _num_shared(answers: DataFrame) -> int:
    """Counts items, once in each category: points of what a crowd's raters share."""
    ends = (answers[WINNER], answers[LOSER])
    groups = [answers[CATEGORY]] if CATEGORY in answers.columns else []
    return len({pair for end in ends for pair in zip(end, *groups, strict=True)})


def _crowd_minutes(answers: DataFrame) -> float:
    """Estimates the minutes of a crowd's fit.

    They are the time to decompose a matrix of the shared points (see `_num_shared`),
    to multiply shared points by answers, and to decompose a matrix of each rater's
    answers.
    """
    blocks = answers.groupby(RATER).size().to_numpy(float)
    count = _num_shared(answers)
    of_items, of_rows = 2e-10 * count**3, 1.5e-8 * count * len(answers)
    return float(of_items + of_rows + 1.1e-9 * (blocks**3).sum())


def item_kernel(num_features: int, num_columns: int) -> Kernel:
    """Makes the kernel of items: of features, if there are some, and of what is behind.

    Behind features stand what items have of controls by and large, and one-hot ids.

    Args:
        num_features: Of the first columns.
        num_columns: Of all.
    """
    # The linear kernel of one-hot ids is the identity, times a variance. Few answers
    # say nothing of a scale, so that its prior is that of the models' output scale; but
    # beside features, which mostly explain less than all, one with its mode at 0.5.
    prior = GammaPrior(1.5, 1.0) if num_features else GammaPrior(2.0, 0.15)
    places = range(num_features, num_columns)
    ids = LinearKernel(active_dims=tuple(places))
    register_prior(ids, "variance", prior)
    if not num_features:
        return ids
    kernel = default_covar_module(num_features, torch.Size())
    kernel.active_dims = torch.arange(num_features)
    # `kernel + ids` would be decomposed for nothing: GPyTorch updates a sum by a
    # low-rank product that is its second part.
    return ids + kernel


def group_kernel(
    kernel: Kernel,
    column: int,
    has_categories: bool,
    num_raters: int,
    *,
    reliability: bool,
) -> Kernel:
    """Makes the kernel of what categories and raters share, and of what each has.

    Args:
        kernel: Of the items.
        column: The first column behind the items': the numbers of categories, if there
            are some, then those of raters.
        has_categories: Whether there are categories.
        num_raters: How many raters there are.
        reliability: Whether each rater has a noise.

    Raises:
        FeedbackError: Noises are wanted of fewer than two raters.
    """
    number = has_categories + (num_raters > 0)
    columns = range(column, column + number)
    kernels = [kernel, *(AgreementKernel(active_dims=(i,)) for i in columns)]
    if reliability:
        if num_raters < 2:
            raise FeedbackError(
                f"reliability compares raters, and the answers name {num_raters}; "
                "give a column rater with two or more, or leave reliability out."
            )
        numbers = torch.arange(num_raters)
        kernels.append(ReliabilityKernel(numbers, active_dims=(columns[-1],)))
    return ProductKernel(*kernels)


def answer_likelihoods(
    item: Tensor | None, feedback: Sequence[Feedback]
) -> dict[type[Feedback], Any]:
    """Makes likelihoods: Bradley-Terry or Rao-Kupper of ties; Plackett-Luce of choices.

    All are of the same noise.

    Args:
        item: The number of the item of each point, for a threshold of ties of each;
            None for one of all.
        feedback: The answers.
    """
    likelihoods: dict[type[Feedback], Any] = {}
    for block in feedback:
        if isinstance(block, Choices):
            likelihoods[Choices] = PlackettLuceLikelihood()
        elif isinstance(block, Comparisons) and block.ties is None:
            likelihoods[Comparisons] = PairwiseLogitLikelihood()
        else:
            is_slow = block.num_rows > MOST_ANSWERS
            threshold_of = None if is_slow else item
            likelihoods[Comparisons] = RaoKupperLikelihood(items=threshold_of)
    return likelihoods


# --- Crowds


class TableKernel(Kernel):
    """Covariance of items by their numbers, which are rows of a table.

    Args:
        base: Of the rows.
        table: ``n x d``.
    """

    has_lengthscale = False
    table: Tensor

    def __init__(self, base: Kernel, table: Tensor) -> None:
        super().__init__(active_dims=(0,))
        self.base = base
        self.register_buffer("table", table)

    def forward(
        self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any
    ) -> Tensor:
        """See base class; points are ``batch_shape x n x 1`` numbers of items."""
        numbers = [x.squeeze(-1).long() for x in (x1, x2)]
        if diag:
            first, second = (self.table[number] for number in numbers)
            return cast("Tensor", self.base(first, second, diag=True))
        # Each category and each rater has the same items: each pair is computed once.
        (first, i), (second, j) = (x.unique(return_inverse=True) for x in numbers)
        covariance = dense_covariance(self.base, self.table[first], self.table[second])
        return take_rows(take_rows(covariance, i).mT, j).mT


class _Share(Kernel):
    """The share of a kernel in which raters agree, or in which they do not."""

    has_lengthscale = False

    def __init__(self, base: Kernel, raters: AgreementKernel, *, agree: bool) -> None:
        super().__init__()
        self.base, self.raters, self.agree = base, raters, agree

    def forward(
        self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any
    ) -> Tensor:
        """See base class: the kernel times the agreement, or times what it leaves."""
        agreement = self.raters.agreement
        share = agreement if self.agree else 1 - agreement
        if diag:
            return cast("Tensor", share * self.base(x1, x2, diag=True))
        return share * dense_covariance(self.base, x1, x2)


def crowd_kernel(
    kernel: Kernel, has_categories: bool, num_raters: int, *, reliability: bool
) -> CrowdKernel:
    """Makes the kernel of `group_kernel` in the parts that `CrowdPreferenceGP` takes.

    Args:
        kernel: Of the numbers of items, behind which stand those of categories.
        has_categories: Whether there are categories.
        num_raters: How many raters there are.
        reliability: Whether each rater has a noise.
    """
    if has_categories:
        kernel = ProductKernel(kernel, AgreementKernel(active_dims=(1,)))
    raters = AgreementKernel()
    shared, taste = (_Share(kernel, raters, agree=agree) for agree in (True, False))
    noises = ReliabilityKernel(torch.arange(num_raters)) if reliability else None
    return CrowdKernel(shared, taste, noises)


def numbered(items: ItemTable) -> ItemTable:
    """Returns items whose points are their numbers."""
    numbers = torch.arange(len(items.names), dtype=torch.double).unsqueeze(-1)
    return ItemTable(items.names, numbers, (ITEM,))
