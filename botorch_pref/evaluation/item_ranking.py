"""Ranking of items by a table of answers: one model of all, and its boards."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from gpytorch.kernels import Kernel
from torch import Tensor
from torch.nn.functional import pad

from botorch_pref.datasets.items import (
    CATEGORY,
    CHOICE,
    COUNT,
    HOME,
    LOSER,
    RATER,
    RATING,
    TIE,
    WINNER,
    ItemTable,
    answer_totals,
    control_columns,
    group_names,
    tidy_answers,
)
from botorch_pref.errors import BotorchPrefError, FeedbackError
from botorch_pref.evaluation.answer_effects import (
    PositionBias,
    effect_table,
    home_bias,
    standardised,
    typical_controls,
    win_probability,
    win_share,
)
from botorch_pref.evaluation.item_models import (
    RankingModel,
    TableKernel,
    answer_likelihoods,
    crowd_kernel,
    group_kernel,
    item_kernel,
    numbered,
    ranking_size,
)
from botorch_pref.evaluation.leaderboard import leaderboard, top_probability
from botorch_pref.evaluation.many_ranking import (
    LEVEL,
    ManyItemRanking,
    answer_groups,
    rank_many_items,
)
from botorch_pref.evaluation.progress import NUM_SAMPLES, utility_samples
from botorch_pref.evaluation.rater_biases import bias_moments, with_rater_biases
from botorch_pref.evaluation.rater_consistency import (
    are_repeated,
    contradictions,
    decided_duels,
)
from botorch_pref.evaluation.rater_tables import rater_reliability
from botorch_pref.evaluation.rating_board import RatingRanking, rank_ratings
from botorch_pref.evaluation.scores import fit_by_evidence
from botorch_pref.feedback import Choices, Comparisons, Feedback
from botorch_pref.models import (
    CrowdPreferenceGP,
    EPPreferenceGP,
    GroupUtility,
    LaplacePreferenceGP,
    PreferenceGP,
)
from botorch_pref.models.raters import RaterWeights, reliability_kernel
from botorch_pref.numerics.argument_checks import check_kind

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True, eq=False)
class ItemRanking:
    """Items that one fitted model ranks, see :func:`rank_items`.

    Attributes:
        items: With their ids behind their features, or numbers of items where raters
            are a crowd: ``items.points`` are the points of the utility.
        answers: The different ones, each with its ``count``.
        model: Expectation propagation, with the scales of ``evidence_model``, or that
            model itself where there are choices from several.
        evidence_model: Laplace's approximation, whose evidence chose the scales; of a
            crowd its own did.
        raters: In the order of their numbers, which are the last column of the model's
            points; none where answers name none.
        categories: The same, whose column stands before that of raters.
        control_scales: The root mean squares of the controls, see `standardised`.
        has_features: Whether items have more than their answers.
    """

    items: ItemTable
    answers: DataFrame
    model: EPPreferenceGP | LaplacePreferenceGP
    evidence_model: LaplacePreferenceGP | CrowdPreferenceGP
    raters: tuple[Hashable, ...] = ()
    categories: tuple[Hashable, ...] = ()
    control_scales: dict[str, float] = field(default_factory=dict)
    has_features: bool = False

    @property
    def names(self) -> tuple[Hashable, ...]:
        """The ids of the items."""
        return self.items.names

    def utility(
        self, rater: Hashable | None = None, category: Hashable | None = None
    ) -> PreferenceGP | GroupUtility:
        """Returns the utility over ``items.points``, of a rater and a category.

        Args:
            rater: By name; by default the mean of all who answered.
            category: By name; by default the mean of all, of raters and categories
                with answers.

        Raises:
            FeedbackError: There is no such rater or category, or no answer of both.
        """
        named = (CATEGORY, self.categories, category), (RATER, self.raters, rater)
        about, columns = self.answers, []
        for noun, names, name in named:
            if name is not None and name not in names:
                raise FeedbackError(
                    f"There is no {noun} {name!r}; the answers name "
                    f"{', '.join(map(repr, names)) or 'none'}."
                )
            if name is not None:
                about = about[about[noun] == name]
            if names:
                columns.append((noun, {group: i for i, group in enumerate(names)}))
        if not columns:
            return self.model
        if about.empty:
            raise FeedbackError(
                f"No answer is of the rater {rater!r} in the category {category!r}; "
                "leave one out."
            )
        # Categories and raters with answers, in the order of points' last columns.
        groups = zip(*(about[noun].map(place) for noun, place in columns), strict=True)
        return GroupUtility(self.model, torch.tensor(sorted({*groups})))

    def board(
        self,
        rater: Hashable | None = None,
        category: Hashable | None = None,
        *,
        top: int = 5,
        level: float = LEVEL,
    ) -> DataFrame:
        """Makes the leaderboard of the mean of all raters and categories, or of one.

        Args:
            rater: By name; all by default.
            category: By name; all by default.
            top: ``k`` of the probability to be among the best ``k``.
            level: Probability of the intervals, in (0, 1).

        Returns:
            The table of :func:`.leaderboard`, with utilities above the mean of all
            items, of which duels say nothing; the ``difference`` of each to the first
            item, with its interval from ``least`` to ``most``, and the probability
            that it is ``better`` than that one, 0 of itself; and the number of
            ``answers`` about each item, of those alone where some are named. Where
            no answers connect items, ``group`` numbers those that they do, and only
            the prior and features compare two groups.
        """
        utility, points = self.utility(rater, category), self.items.points
        table = leaderboard(utility, points, self.items.names, top=top, level=level)
        order = self.items.places(table.index)
        columns = _above_mean(utility, points[order], level)
        columns |= _beside_the_first(utility, points[order], level)
        table = table.assign(
            **{name: column.numpy() for name, column in columns.items()}
        )
        answers = self.answers
        for noun, name in ((RATER, rater), (CATEGORY, category)):
            if name is not None:
                answers = answers[answers[noun] == name]
        number = answer_totals(answers, answers[COUNT])
        table["answers"] = number.reindex(table.index, fill_value=0).astype(int)
        if (groups := answer_groups(self.items.names, self.answers)).any():
            table["group"] = 1 + groups[order.numpy()]
        return table

    def top_probability(self, top: int) -> float:
        """Computes the probability that the first items of the board are the best."""
        utility, points = self.utility(), self.items.points
        draws = utility_samples(utility, points, NUM_SAMPLES, seed=0)
        return top_probability(draws, _moments(utility, points)[0], top)

    def position_bias(self, level: float = LEVEL) -> PositionBias | None:
        """Computes the advantage of being at home or shown first; None if none said."""
        if HOME not in self.answers.columns:
            return None
        return home_bias(self._effects([HOME], torch.eye(1), level))

    def controls(self, level: float = LEVEL) -> DataFrame:
        """Lists what one deviation more of each control adds, see `effect_table`.

        The column ``deviation`` has the root mean square of its differences.
        """
        names, start = [*self.control_scales], int(HOME in self.answers.columns)
        table = self._effects(names, pad(torch.eye(len(names)), (start, 0)), level)
        return table.assign(deviation=[*self.control_scales.values()])

    def _effects(
        self, names: Sequence[Hashable], sums: Tensor, level: float
    ) -> DataFrame:
        """Makes the table of what covariates of answers add, see `effect_table`.

        Args:
            names: Of the ``k`` effects.
            sums: A row for each effect, the shares in it of the first ``w`` weights of
                covariates, ``k x w``; further weights have no share.
            level: Probability of the intervals.
        """
        if not names:
            return effect_table([], torch.zeros(0), torch.zeros(0), torch.sigmoid)
        with torch.no_grad():
            posterior: Any = self.model.covariate_posterior()
            weights = posterior.distribution
            sums = pad(sums.to(weights.mean), (0, len(weights.mean) - sums.shape[-1]))
            variance = (sums @ weights.covariance_matrix @ sums.mT).diagonal()
        half = _half_width(level) * variance.sqrt()
        return effect_table(
            names, sums @ weights.mean, half, win_probability(self.model)
        )

    def reliability(self) -> DataFrame:
        """Makes the table of :func:`.rater_reliability`, if raters have noises.

        Raises:
            BotorchPrefError: The ranking has no noise of each rater.
        """
        if reliability_kernel(self.evidence_model) is None:
            raise BotorchPrefError(
                "The ranking has no noise of each rater; rank_items(answers, "
                "reliability=True) learns them, of answers with a column rater."
            )
        return rater_reliability(self.evidence_model, self.raters)

    def rater_biases(self, level: float = LEVEL) -> DataFrame:
        """Lists what being at home or shown first adds with each rater.

        See `effect_table`.

        Raters with few answers are taken for the typical one, as far as the others are
        alike, see :class:`.RaterWeights`. The table is empty of fewer than two raters,
        or where no answer says who was at home.
        """
        model = self.evidence_model
        if not isinstance(model.covariate_module, RaterWeights):
            return self._effects([], torch.zeros(0, 0), level)
        mean, deviation = bias_moments(model)
        half = _half_width(level) * deviation
        return effect_table(self.raters, mean, half, win_probability(model))

    def contradictions(self) -> DataFrame:
        """Counts how often each rater answers the same question both ways.

        The table of :func:`.contradictions`, in which ``expected`` is what the model
        expects at the means of utilities and weights. A coin contradicts itself in half
        of the ``repeated`` pairs.
        """
        scaled, _ = standardised(self.answers)
        duels = decided_duels(scaled)
        rows = torch.tensor(are_repeated(duels))
        points, feedback = _biased_feedback(self.items, scaled)[:2]
        # Pairs are the decided duels in the order of the table, so that rows fit both.
        chances = torch.zeros(0)
        for block in feedback:
            if isinstance(block, Comparisons) and block.pairs is not None:
                covariates = block.pair_covariates
                covariates = None if covariates is None else covariates[rows]
                chances = self._chances(points, block.pairs[rows], covariates)
        table = contradictions(duels[rows.numpy()], chances.numpy())
        return table.reindex([*self.raters], fill_value=0)

    @torch.no_grad()
    def _chances(
        self, points: Tensor, pairs: Tensor, covariates: Tensor | None
    ) -> Tensor:
        """Computes the probabilities that winners win, ``m``, for `contradictions`.

        They are those of answers that are no ties, at the posterior means of utilities
        and of weights of covariates.
        """
        compared, places = pairs.unique(return_inverse=True)
        utilities = self._means(points[compared])[places]
        ahead = utilities[:, 0] - utilities[:, 1]
        if covariates is not None:
            posterior: Any = self.model.covariate_posterior()
            ahead = ahead + covariates @ posterior.mean.squeeze(-1)
        return win_share(ahead, win_probability(self.model))

    def _means(self, points: Tensor) -> Tensor:
        """Computes posterior means of utilities at points, ``n``, rater by rater.

        Behind the features of an item a point has the numbers of category and rater.
        """
        means, width = torch.empty(len(points)).to(points), self.items.points.shape[-1]
        groups, place = points[:, width:].unique(dim=0, return_inverse=True)
        for number, group in enumerate(groups):
            items = points[place == number, :width]
            moments = self.model.group_moments(items, group[None], items.new_ones(1))
            means[place == number] = moments.mean
        return means


RankedItems = ItemRanking | ManyItemRanking | RatingRanking
"""Rankings that `rank_items` returns, by the answers and how many items there are."""


def rank_items(
    answers: DataFrame,
    items: DataFrame | ItemTable | None = None,
    *,
    reliability: bool = False,
) -> RankedItems:
    r"""Fits one model to all answers about items, which it ranks.

    Items without features have independent utilities of one variance, which the
    evidence chooses under the models' prior. With features, the utility is what these
    say, under the default kernel of the models, and something of each item itself: two
    items with the same features differ. With raters, the kernel times
    :class:`.AgreementKernel`: what all share, and something of each one; with
    categories times another one.
    Answers are Bradley and Terry's; where there are ties, Rao and Kupper's with a
    threshold for each item (:class:`.RaoKupperLikelihood`), or one for all where more
    than 30,000 different answers would make the fit slow. The scales are those of
    Laplace's evidence, the posterior is that of expectation propagation. With the
    column ``home`` there is one weight of being there, and the ranks are those of
    neutral ground, beside one of how far each rater's differs from it; with columns
    such as ``control length``, which have how much more the winner has than the loser,
    one of each, and the ranks are those of items that have the same: what an item has
    of them by and large is then a feature of it, see `typical_controls`. More than
    1,500 items without features or raters are ranked by Laplace's approximation alone,
    with a sparse precision and one threshold of ties: see :class:`.ManyItemRanking`.
    More than 1,500 pairs of an item and a rater have the same prior in
    :class:`.CrowdPreferenceGP`, with scales of its own evidence and one threshold.
    Ratings are :func:`.rank_ratings`'.

    Args:
        answers: A row each, with the columns ``winner`` and ``loser`` and perhaps
            ``tie``, ``count``, ``home``, ``rater``, ``category`` and controls, see
            :meth:`.ItemTable.comparisons`, and ``choice``, which rows of one choice
            share, see :meth:`.ItemTable.feedback`. Equal ones are merged. Or the
            columns ``item``, ``rating`` and perhaps ``rater``.
        items: Their features, with the ids in the index; by default the items that
            answers name, known by their answers alone.
        reliability: Whether each rater has a noise, which is learned.

    Raises:
        FeedbackError: A column or an item is missing, an answer or a feature is not as
            it has to be, noises are wanted of fewer than two raters, or features or
            raters make more points than one model holds.
    """
    from pandas import DataFrame

    check_kind("answers", answers, DataFrame)
    if RATING in answers.columns:
        if items is not None or reliability:
            raise FeedbackError(
                "Ratings are ranked without features and noises of raters; leave out "
                "items and reliability."
            )
        return rank_ratings(answers)
    answers = tidy_answers(answers)
    if items is not None and not isinstance(items, ItemTable):
        items = ItemTable.from_frame(items)
    has_ends = {WINNER, LOSER} <= {*answers.columns}
    kind = RankingModel.DENSE
    if has_ends:
        kind = ranking_size(answers, items, reliability=reliability).model
    if kind is RankingModel.SPARSE and not reliability:
        return rank_many_items(_merged(_checked_answers(answers)))
    if items is None:
        items = ItemTable.from_answers(answers)
    # First of the rows as they are, so that errors name them.
    numbered(items).feedback(_in_units(answers))
    return _ranked(answers, items, kind, reliability)


def _ranked(
    answers: DataFrame, items: ItemTable, kind: RankingModel, reliability: bool
) -> ItemRanking:
    """Fits the model of a kind to checked answers, and makes the ranking of it."""
    num_features = len(items.feature_names) if items.has_features else 0
    if not items.is_ids:
        items = items.with_ids()
    merged = _merged(answers)
    scaled, control_scales = standardised(merged)
    items = _with_typical_controls(items, scaled, control_scales)
    kernel = item_kernel(num_features, items.points.shape[-1])
    if kind is RankingModel.CROWD:
        kernel, items = TableKernel(kernel, items.points), numbered(items)
        models = _fitted_crowd(kernel, items, scaled, reliability)
    else:
        models = _fitted_models(kernel, items, scaled, reliability)
    for model in models:
        # Who pickles the model takes its posterior along.
        model.eval().solution()
    raters, categories = (
        group_names(scaled, noun) if noun in scaled.columns else ()
        for noun in (RATER, CATEGORY)
    )
    has_features = num_features > 0
    return ItemRanking(
        items, merged, *models, raters, categories, control_scales, has_features
    )


def _fitted_models(
    kernel: Kernel, items: ItemTable, answers: DataFrame, reliability: bool
) -> tuple[EPPreferenceGP | LaplacePreferenceGP, LaplacePreferenceGP]:
    """Fits the model of a ranking, and that whose evidence chooses the scales.

    The first has the scales of the second. They are one model where there are choices:
    expectation propagation does not take those of Plackett and Luce.
    """
    points, feedback, raters = _biased_feedback(items, answers)
    width = items.points.shape[-1]
    has_categories = CATEGORY in answers.columns
    if has_categories or raters or reliability:
        kernel = group_kernel(
            kernel, width, has_categories, len(raters), reliability=reliability
        )
    # An item has one threshold of ties, whichever rater a point is of.
    item = points[:, :width].unique(dim=0, return_inverse=True)[1]
    options: dict[str, Any] = {
        "likelihood": answer_likelihoods(item, feedback),
        "covar_module": kernel,
    }
    # Both engines find nearly the same scales, and Laplace's evidence is the fast one.
    quick = LaplacePreferenceGP(points, feedback=feedback, **options)
    quick.covariate_module = _weights_of(answers, raters) or quick.covariate_module
    fit_by_evidence(quick)
    if Choices in options["likelihood"]:
        return quick, quick
    model = EPPreferenceGP(points, feedback=feedback, **options)
    model.covariate_module = quick.covariate_module
    return model, quick


def _fitted_crowd(
    kernel: Kernel, items: ItemTable, answers: DataFrame, reliability: bool
) -> tuple[CrowdPreferenceGP, CrowdPreferenceGP]:
    """Fits one model of a ranking by many raters, whose evidence chooses the scales.

    It is returned twice, in place of the two of `_fitted_models`.
    """
    points, feedback, raters = _biased_feedback(items, answers)
    # A threshold of ties for each of a thousand items would make the fit slow.
    crowd = CrowdPreferenceGP(
        points,
        feedback=feedback,
        likelihood=answer_likelihoods(None, feedback),
        covar_module=crowd_kernel(
            kernel, CATEGORY in answers.columns, len(raters), reliability=reliability
        ),
    )
    crowd.covariate_module = _weights_of(answers, raters) or crowd.covariate_module
    fit_by_evidence(crowd)
    return crowd, crowd


def _weights_of(answers: DataFrame, raters: Sequence[Hashable]) -> RaterWeights | None:
    """Makes weights of covariates of which the first may differ among raters.

    None where nobody was at home, or raters are not several: then the weights that a
    model makes by itself are right.
    """
    if not _are_biased(answers, raters):
        return None
    return RaterWeights(1 + len(control_columns(answers)), len(raters))


def _in_units(answers: DataFrame) -> DataFrame:
    """Scales controls to shares of the largest one, for a first check of answers.

    Containers refuse large covariates, and tokens may be millions.
    """
    shares = {}
    for name in control_columns(answers):
        values = answers[name].astype(float)
        # Of values that are not finite the containers say which.
        shares[name] = values / values.abs().clip(lower=1.0, upper=1e300).max()
    return answers.assign(**shares)


def _checked_answers(answers: DataFrame) -> DataFrame:
    """Checks answers without features or raters, and adds the ties if they have none.

    The checks are those of `ItemTable.feedback`.
    """
    names = tuple(sorted({*answers[WINNER], *answers[LOSER]}, key=str))
    ItemTable(names, torch.zeros(len(names), 0), ()).feedback(_in_units(answers))
    return answers if TIE in answers.columns else answers.assign(**{TIE: False})


def _merged(answers: DataFrame) -> DataFrame:
    """Merges equal answers, with their counts, in the order of their texts.

    So a ranking does not depend on the order of a table, nor on further columns, which
    are left out.
    """
    counted = answers if COUNT in answers.columns else answers.assign(**{COUNT: 1})
    key_columns = (WINNER, LOSER, TIE, RATER, CATEGORY, HOME, CHOICE)
    columns = [name for name in key_columns if name in counted.columns]
    columns += control_columns(answers)
    groups = counted.groupby(columns, sort=False, dropna=False, observed=True)
    merged = groups[COUNT].sum().reset_index()
    return merged.sort_values(
        columns, ignore_index=True, key=lambda column: column.astype(str)
    )


def _are_biased(answers: DataFrame, raters: Sequence[Hashable]) -> bool:
    """Tells whether answers say what being first adds with each of several raters."""
    has_home = HOME in answers.columns and bool(answers[HOME].notna().any())
    return has_home and len(raters) > 1


def _biased_feedback(
    items: ItemTable, answers: DataFrame
) -> tuple[Tensor, tuple[Feedback, ...], tuple[Hashable, ...]]:
    """Makes points, blocks of answers and names of raters, as `ItemTable.feedback`.

    Where raters may be biased for what is first, each has a covariate, too.
    """
    points, feedback, raters = items.feedback(answers)
    if _are_biased(answers, raters):
        feedback = with_rater_biases(points, feedback, len(raters))
    return points, feedback, raters


def _with_typical_controls(
    items: ItemTable, answers: DataFrame, controls: Collection[str]
) -> ItemTable:
    """Adds to items what they have of each control by and large, before their ids."""
    typical, place = typical_controls(items.names, answers), -len(items.names)
    features, ids = items.points[:, :place], items.points[:, place:]
    names = [f"typical {name}" for name in controls]
    feature_names = items.feature_names
    return ItemTable(
        items.names,
        torch.cat([features, typical, ids], dim=-1),
        (*feature_names[:place], *names, *feature_names[place:]),
    )


def _above_mean(
    utility: PreferenceGP | GroupUtility, points: Tensor, level: float
) -> dict[str, Tensor]:
    """Computes utilities above the mean of all items, with ends of intervals.

    Duels say nothing of the mean itself, which would make all intervals wide.
    """
    mean, covariance = _moments(utility, points)
    # Centred in rows and columns, it is that of differences to the mean.
    covariance = covariance - covariance.mean(0)
    deviation = (covariance - covariance.mean(-1, keepdim=True)).diagonal().sqrt()
    mean = mean - mean.mean()
    half = _half_width(level) * deviation
    return {"utility": mean, "lower": mean - half, "upper": mean + half}


def _beside_the_first(
    utility: PreferenceGP | GroupUtility, points: Tensor, level: float
) -> dict[str, Tensor]:
    """Computes differences to the first item, intervals, and chances to be positive.

    The points, ``n x d``, are those of items in the order of a board.
    """
    mean, covariance = _moments(utility, points)
    variance = covariance.diagonal()
    variance = variance + variance[0] - 2 * covariance[0]
    # That of the first one is nothing but rounding.
    deviation = variance.clamp_min(0).sqrt()
    deviation[0] = 0.0
    difference = mean - mean[0]
    half = _half_width(level) * deviation
    # Of the first item it is 0 / 0, and nothing is better than itself.
    better = torch.special.ndtr(difference / deviation).nan_to_num(0.0)
    return {
        "difference": difference,
        "least": difference - half,
        "most": difference + half,
        "better": better,
    }


def _moments(
    utility: PreferenceGP | GroupUtility, points: Tensor
) -> tuple[Tensor, Tensor]:
    """Computes the posterior mean and covariance of items."""
    with torch.no_grad():
        posterior: Any = utility.posterior(points)
        utilities = posterior.distribution
        return utilities.mean, utilities.covariance_matrix


def _half_width(level: float) -> Tensor:
    """Computes half of an interval of a standard normal."""
    return torch.special.ndtri(torch.tensor(0.5 + 0.5 * level, dtype=torch.double))
