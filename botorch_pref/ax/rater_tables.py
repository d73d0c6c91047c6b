"""Tables of the raters of an experiment: checks, noise, and how far any two agree."""

from __future__ import annotations

from typing import NamedTuple

import torch
from gpytorch.kernels import ProductKernel
from pandas import DataFrame
from scipy.stats import binomtest
from torch import Tensor

from botorch_pref.ax.generation.adapter import PreferenceAdapter
from botorch_pref.ax.kinds import preferred
from botorch_pref.ax.log import Log
from botorch_pref.ax.naming import ties_beside_sets
from botorch_pref.ax.projection import Projection, raters_of_trials
from botorch_pref.evaluation import rater_agreement, rater_reliability
from botorch_pref.evaluation.raters import LEVEL, in_circles
from botorch_pref.evaluation.scores import fit_by_evidence
from botorch_pref.feedback import Choices, Comparisons, Feedback, Rankings
from botorch_pref.models import DuelKernel, EPPreferenceGP, rater_covar_module

MOST_RATERS, MOST_POINTS = 40, 1_000
"""Raters of whom tables are made, of whom each costs a derivative of the evidence; and
options times raters whose joint utilities tell the agreement."""


class RaterTables(NamedTuple):
    """Tables of `rater_reliability` and `rater_agreement`, by names of raters.

    Raters who agree stand together in the first one.
    """

    raters: DataFrame
    agreement: DataFrame


def rater_tables(
    projection: Projection, adapter: PreferenceAdapter
) -> RaterTables | None:
    """Tables of those whose names are known and who compared options.

    The answers of all are in a model of its own (EP with a `DuelKernel`, an agreement
    and a noise of each rater), also where the experiment pools them. None where fewer
    than two or more than `MOST_RATERS` compared, or fewer than three options were.
    """
    of_trials = raters_of_trials(projection.experiment(), pooled=True)
    if len(set(of_trials.values())) < 2:
        return None
    told = adapter.get_training_data().filter_by_trial_index(set(of_trials))
    dataset = adapter.dataset_of(told, of_trials)
    comparing = Comparisons | Choices | Rankings
    compared = [b for b in dataset.feedback if isinstance(b, comparing)]
    if not compared or dataset.raters is None:
        return None
    numbers = dataset.raters[torch.cat([_points(block) for block in compared])].unique()
    items = torch.unique(dataset.X, dim=0)
    if not 2 <= len(numbers) <= MOST_RATERS or len(items) < 3:
        return None
    dim = dataset.X.shape[-1]
    agreement, noise = rater_covar_module(dim, noisy_raters=numbers).kernels[1:]
    stimulus = DuelKernel(dim)
    stimulus.active_dims = torch.arange(dim)
    kernel = ProductKernel(stimulus, agreement, noise)
    model = EPPreferenceGP(
        dataset.points,
        feedback=compared,
        covar_module=kernel,
        likelihood=ties_beside_sets(EPPreferenceGP, compared) or None,
    )
    fit_by_evidence(model)
    by_number = {n: name for name, n in projection.log.raters.items()}
    names = [by_number[number] for number in numbers.tolist()]
    most = min(len(items), MOST_POINTS // len(names))
    some = torch.linspace(0, len(items) - 1, most).round().long()
    pairs = rater_agreement(model, items[some], numbers, names)
    square = torch.ones(len(names), len(names), dtype=torch.float64)
    first, second = torch.triu_indices(len(names), len(names), 1)
    square[first, second] = torch.from_numpy(pairs["agreement"].to_numpy(copy=True))
    order = in_circles(torch.minimum(square, square.mT))
    return RaterTables(rater_reliability(model, names).iloc[order], pairs)


def _points(block: Feedback) -> Tensor:
    """A point of each answer."""
    fields = [getattr(block, names[0]) for names in block.tables.values()]
    return torch.cat([field[:, 0] for field in fields])


def rater_checks(log: Log) -> DataFrame | None:
    """How often raters answered alike where the same options were shown to them again.

    A check is an answer that compares options which the rater compared before, in
    whatever order they were shown. Intervals are Wilson's; see `Report`.
    """
    alike: dict[str, list[bool]] = {}
    before: dict[tuple[str, frozenset[str]], set[str]] = {}
    for told in reversed([*log.answers()]):
        names = [option.name for option in log.questions[told.question].options]
        decided, tied = preferred(told.said, len(names))
        if not decided and not tied:
            continue
        best = {place for pair in (*decided, *tied) for place in pair}
        best -= {worse for _, worse in decided}
        found, asked = {names[place] for place in best}, frozenset(names)
        rater = told.rater or ""
        if (rater, asked) in before:
            alike.setdefault(rater, []).append(found == before[rater, asked])
        before[rater, asked] = found
    rows = {}
    for rater, each in alike.items():
        test = binomtest(sum(each), len(each))
        lower, upper = test.proportion_ci(LEVEL, "wilson")
        rows[rater] = (len(each), test.statistic, lower, upper)
    columns = ["checks", "alike", "lower", "upper"]
    return DataFrame.from_dict(rows, "index", columns=columns) if rows else None
