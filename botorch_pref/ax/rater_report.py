"""Tables of a report on the raters of an experiment."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
from gpytorch.kernels import ProductKernel
from pandas import DataFrame
from scipy.stats import binomtest
from torch import Tensor

from botorch_pref.ax.answer_kinds import preferred
from botorch_pref.ax.best_designs import best_shown
from botorch_pref.ax.findings import LEVEL
from botorch_pref.ax.generation.adapter import PreferenceAdapter
from botorch_pref.ax.log import Log
from botorch_pref.ax.projection import Projection, answer_counts
from botorch_pref.evaluation import rater_agreement, rater_reliability
from botorch_pref.evaluation.rater_tables import in_circles
from botorch_pref.evaluation.scores import fit_by_evidence
from botorch_pref.feedback import Choices, Comparisons, Feedback, Rankings
from botorch_pref.models import (
    DuelKernel,
    EPPreferenceGP,
    GroupUtility,
    rater_covar_module,
)

MOST_RATERS, MOST_POINTS = 40, 1_000
"""The number of raters up to which there are tables, since each costs a derivative of
the evidence; and of options times raters whose joint utilities give the agreement."""


def rater_tables(
    projection: Projection, adapter: PreferenceAdapter
) -> tuple[DataFrame, DataFrame] | None:
    """Makes the tables of `rater_reliability` and `rater_agreement`, see `Report`.

    A model is fitted to the answers of raters with names, also where the experiment
    pools them: EP with a `DuelKernel`, an agreement and a noise of each rater. There
    are no tables where fewer than two or more than `MOST_RATERS` compared options, or
    fewer than three options were compared.
    """
    named: dict[int, dict[int | None, int]] = {
        trial: {rater: count for rater, count in counts.items() if rater is not None}
        for trial, counts in answer_counts(projection.experiment(), True).items()
    }
    named = {trial: counts for trial, counts in named.items() if counts}
    if len({rater for counts in named.values() for rater in counts}) < 2:
        return None
    data = adapter.get_training_data().filter_by_trial_index(set(named))
    dataset = adapter.dataset_of(data, named, of_raters=True)
    comparing = Comparisons | Choices | Rankings
    compared = [b for b in dataset.feedback if isinstance(b, comparing)]
    if not compared or dataset.raters is None:
        return None
    # Of those who compared options, not of those who rated some only.
    numbers = dataset.raters[torch.cat([_points(block) for block in compared])].unique()
    items = torch.unique(dataset.X, dim=0)
    if not 2 <= len(numbers) <= MOST_RATERS or len(items) < 3:
        return None
    dim = dataset.X.shape[-1]
    # The default kernel of stimuli, the first part, is replaced.
    agreement, noise = rater_covar_module(dim, noisy_raters=numbers).kernels[1:]
    stimulus = DuelKernel(dim)
    stimulus.active_dims = torch.arange(dim)
    kernel = ProductKernel(stimulus, agreement, noise)
    model = EPPreferenceGP(
        dataset.points,
        feedback=compared,
        covar_module=kernel,
    )
    fit_by_evidence(model)
    by_number = {n: name for name, n in projection.log.raters.items()}
    names = [by_number[number] for number in numbers.tolist()]
    num_items = min(len(items), MOST_POINTS // len(names))
    places = torch.linspace(0, len(items) - 1, num_items).round().long()
    pairs = rater_agreement(model, items[places], numbers, names)
    return rater_reliability(model, names).iloc[in_circles(pairs)], pairs


def _points(block: Feedback) -> Tensor:
    """Lists a datapoint of each answer, which has a rater: each is of one."""
    fields = [getattr(block, names[0]) for names in block.tables.values()]
    return torch.cat([field[:, 0] for field in fields])


def rater_checks(log: Log) -> DataFrame | None:
    """Counts how often raters answered alike where options were shown to them again.

    A check is an answer that compares options which the rater compared before, in
    whatever order they were shown. Intervals are Wilson's; see `Report`.
    """
    checks: Counter[str] = Counter()
    alike: Counter[str] = Counter()
    # The best options of each set, as a rater said last. Answers are in order of time.
    earlier: dict[tuple[str, frozenset[str]], set[str]] = {}
    for answer in reversed([*log.answers()]):
        question = log.questions[answer.question]
        if question.is_line:
            # Another stop need not be another opinion.
            continue
        names = [option.name for option in question.options]
        decided, tied = preferred(answer.fields, len(names))
        if not decided and not tied:
            continue
        best = {place for pair in (*decided, *tied) for place in pair}
        best -= {worse for _, worse in decided}
        winners, options = {names[place] for place in best}, frozenset(names)
        rater = answer.rater or ""
        # An answer that was given several times agrees with itself.
        repeated = answer.count - 1
        if (rater, options) in earlier:
            checks[rater] += 1
            alike[rater] += winners == earlier[rater, options]
        if repeated:
            checks[rater] += repeated
            alike[rater] += repeated
        earlier[rater, options] = winners
    rows = {}
    for rater, number in checks.items():
        test = binomtest(alike[rater], number)
        lower, upper = test.proportion_ci(LEVEL, "wilson")
        rows[rater] = (number, test.statistic, lower, upper)
    columns = ["checks", "alike", "lower", "upper"]
    return DataFrame.from_dict(rows, "index", columns=columns) if rows else None


def chances(model: Any, points: Tensor, against: Tensor) -> dict[str, Tensor]:
    """Predicts how probably points are better than another, and are preferred to it.

    ``better`` is about utilities, ``preferred`` about an answer with its noise. Points
    are ``n x d`` and ``1 x d``, probabilities ``n`` long.
    """
    with torch.no_grad():
        return {
            "better": model.duel_probability(points, against),
            "preferred": model.duel_probability(
                points, against, observation_noise=True
            ),
        }


def favourites_of(log: Log, adapter: PreferenceAdapter) -> DataFrame | None:
    """Compares the best option of each rater with the best of all, see `Report`.

    None where raters do not share, or fewer than two have answered.
    """
    model = adapter.botorch_model
    if not isinstance(model, GroupUtility) or len(log.raters) < 2:
        return None
    points = adapter.datapoints
    best_point = adapter.points_of([best_shown(adapter)])
    rows = {}
    for rater, number in log.raters.items():
        utility = GroupUtility(model.rater_model, torch.tensor([float(number)]))
        with torch.no_grad():
            posterior: Any = utility.posterior(points)
        place = int(posterior.mean.squeeze(-1).argmax())
        of_place = chances(utility, points[[place]], best_point)
        title = log.titles[adapter.arms[place].name]
        rows[rater] = [title, *(float(chance) for chance in of_place.values())]
    return DataFrame.from_dict(
        rows, "index", columns=["favourite", "better", "preferred"]
    )
