"""Sentences on answers and items, which a board stands beside."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING

from scipy.stats import binomtest

from botorch_pref.datasets.items import (
    CATEGORY,
    CHOICE,
    COUNT,
    HOME,
    LOSER,
    RATER,
    TIE,
    WINNER,
    answer_totals,
    names_alike,
)
from botorch_pref.datasets.tables import MISSING
from botorch_pref.evaluation import ItemRanking, ManyItemRanking, RatingRanking
from botorch_pref.evaluation.answer_effects import PositionBias
from botorch_pref.evaluation.item_ranking import RankedItems
from botorch_pref.evaluation.many_ranking import answer_groups
from botorch_pref.evaluation.rater_consistency import rater_consistency
from botorch_pref.plotting.drawing import readable_fonts

if TYPE_CHECKING:
    from pandas import DataFrame


def sentence_of_home(home: PositionBias) -> str:
    """Says what being at home or shown first adds."""
    added, low, high = home.utility
    share, lower, upper = (f"{100 * number:.0f}" for number in home.share)
    return (
        f"Being at home, or shown first, adds {added:+z.2f} to the utility (95 %: "
        f"{low:+z.2f} to {high:+z.2f}): between equals that one wins {share} % "
        f"of the duels that are no ties ({lower} to {upper} %). Ranks are without it."
    )


def sentences_of_controls(controls: DataFrame) -> list[str]:
    """Says what a standard deviation more of each control adds.

    Args:
        controls: The table of `ItemRanking.controls`.
    """
    sentences = []
    for name, row in controls.iterrows():
        share, lower, upper = (
            f"{100 * row[column]:.0f}"
            for column in ("share", "share_lower", "share_upper")
        )
        sentences.append(
            f"A standard deviation more of {name} ({row['deviation']:.3g}) adds "
            f"{row['utility']:+z.2f} to the utility (95 %: {row['lower']:+z.2f} to "
            f"{row['upper']:+z.2f}): between equals it wins {share} % of the duels "
            f"that are no ties ({lower} to {upper} %). Ranks are of items with the "
            f"same {name}."
        )
    return sentences


def notes_on_answers(ranking: RankedItems, answers: DataFrame) -> list[str]:
    """Returns sentences on how many answers there are, and what is doubtful of them.

    Args:
        ranking: Of the answers.
        answers: That were ranked.
    """
    if isinstance(ranking, RatingRanking):
        notes = _notes_on_ratings(ranking)
    else:
        notes = _notes_on_duels(ranking, answers)
    _, lacking = readable_fonts(map(str, ranking.names))
    if lacking:
        listing = f"{lacking[:10]!r}{remainder_of(lacking, 10)}"
        notes.append(
            f"No font on this computer has {listing}: the figure shows "
            "boxes for these characters until you install one. The page and the table "
            "show them."
        )
    return notes


def _notes_on_ratings(ranking: RatingRanking) -> list[str]:
    """Returns sentences on how many ratings there are, and what makes them differ."""
    ratings = ranking.ratings
    number = f"{len(ratings):,} ratings of {len(ranking.names):,} items"
    items, raters, noise = (f"{scale.sqrt():.2f}" for scale in ranking.scales)
    spreads, explained = f"items {items} around their mean", "the item explains"
    if RATER in ratings.columns:
        number += f" by {ratings[RATER].nunique():,} raters"
        spreads += f", raters {raters} around theirs, as some rate higher than others"
        explained = "item and rater explain"
    note = (
        f"{number}. Spreads, in points of the ratings, are standard deviations: "
        f"{spreads}, and ratings {noise} around what {explained}."
    )
    return [note, *_doubtful_names({"items": [*map(str, ranking.names)]})]


def _notes_on_duels(
    ranking: ItemRanking | ManyItemRanking, answers: DataFrame
) -> list[str]:
    """Returns sentences on answers about two items or more."""
    # Rows that are no answer of their own: all but the first of a choice from several.
    # Without choices there is none, for no count is negative.
    again = answers[COUNT] < 0
    if CHOICE in answers.columns:
        again = answers[CHOICE].notna() & answers.duplicated(CHOICE)
    total = int(answers[COUNT][~again].sum())
    ties = int((answers[COUNT] * answers[TIE]).sum())
    head = f"{total:,} answer{'s' * (total > 1)} about {len(ranking.names):,} items"
    share = f", {ties:,} of them {'a tie' if ties == 1 else 'ties'}" if ties else ""
    notes = [f"{head}{share}."]
    numbers = answer_groups(ranking.names, answers)
    groups = dict(zip(ranking.names, numbers, strict=True))
    # Items of a file with features need not have answers.
    parts = len({groups[name] for name in answers[WINNER]})
    if parts > 1:
        features = isinstance(ranking, ItemRanking) and ranking.has_features
        between = "only features rank" if features else "the ranks are the prior's"
        notes.append(
            f"No answers connect {parts} groups of items: between groups {between}, "
            "and a duel across two groups teaches most."
        )
    if answers[TIE].all():
        notes.append(
            "All answers are ties, which say that items are alike, not how far apart "
            "they are: the intervals are mostly the prior's."
        )
    names = {"items": [*map(str, ranking.names)]}
    if CATEGORY in answers.columns:
        names["categories"] = answers[CATEGORY].unique().tolist()
    if RATER in answers.columns and isinstance(ranking, ItemRanking):
        names["raters"] = answers[RATER].unique().tolist()
        notes += notes_on_raters(answers, ranking.contradictions())
    return notes + _one_sided(answers) + _doubtful_names(names) + _single_names(answers)


MOST_RANDOM = 0.05
"""Probability with which a rater is named, or a coin is not, by chance alone."""


FEWEST_REPEATED = 30
"""Pairs of answers about the same two items from which a rater is named."""


def _note_on_two(table: DataFrame) -> list[str]:
    """Returns a sentence about two raters who both disagree in most of their answers.

    Neither of the two is named, since nothing says which of them errs.
    """
    if not (2 * table["with_others"] < table["shared"]).all():
        return []
    # Of the rater with fewer such answers, where the other one repeats some.
    shared, agreeing = table.loc[table["shared"].idxmin()]
    agreement = f"agree on {agreeing} of {shared} answers about the same two items"
    return [f"The two raters {agreement}: nothing says who of them errs."]


def notes_on_raters(answers: DataFrame, contradictions: DataFrame) -> list[str]:
    """Returns sentences about raters who contradict the others, or themselves.

    Args:
        answers: That were ranked.
        contradictions: The table of `ItemRanking.contradictions`.
    """
    notes = _notes_on_contradictions(contradictions, HOME in answers.columns)
    table = rater_consistency(answers)
    if len(table) == 2:
        return _note_on_two(table) + notes
    limit = MOST_RANDOM / max(len(table), 1)
    against = [
        f"{name!r} answers against the others: with most of them in {agreeing} of "
        f"{number} answers."
        for name, number, agreeing in table.itertuples()
        if number and binomtest(agreeing, number, alternative="less").pvalue < limit
    ]
    return against + notes


def _notes_on_contradictions(table: DataFrame, in_one_order: bool) -> list[str]:
    """Returns sentences about raters who answer the same question both ways."""
    repeated, contradicted, expected = table.sum()
    if not repeated:
        return []
    order = " in one order" if in_one_order else ""
    of_coin = f"{repeated / 2:,.1f}".removesuffix(".0")
    notes = [
        (
            f"Of {repeated:,.0f} pairs of answers of one rater about the same two items"
            f"{order}, {contradicted:,.0f} contradict each other: the noise of the "
            f"board makes {expected:,.0f}, a coin {of_coin}."
        )
    ]
    for name in table.index[_is_like_a_coin(table)]:
        row = table.loc[name]
        number, opposed = int(row["repeated"]), int(row["contradicted"])
        notes.append(
            f"{name!r} answers as a coin does: of {number} such pairs {opposed} "
            f"contradict each other, where the board expects {row['expected']:.0f}."
        )
    return notes


def _is_like_a_coin(table: DataFrame) -> list[bool]:
    """Tells whether raters contradict themselves as coins do, unlike the others.

    Whether one pair of a coin's answers is contradictory is independent of whether
    another pair is, so that the variance of the number of contradictions is binomial.
    """
    # For all raters together, so that hardly one of many is named by chance.
    limit = MOST_RANDOM / len(table)
    rest_counts = table.sum() - table
    rates = rest_counts["contradicted"] / rest_counts["repeated"]
    counts = table[["contradicted", "repeated"]].astype(int).to_numpy().tolist()
    return [
        number >= FEWEST_REPEATED
        and binomtest(opposed, number, 0.5, alternative="less").pvalue >= MOST_RANDOM
        # The rate is NaN where no other rater has repeated a question.
        and rate < 0.5
        and binomtest(opposed, number, rate, alternative="greater").pvalue < limit
        for (opposed, number), rate in zip(counts, rates, strict=True)
    ]


def sentence_of_biases(biases: DataFrame) -> str:
    """Says with whom being first adds most and least.

    Args:
        biases: The table of `ItemRanking.rater_biases`.
    """
    strongest, weakest = biases["utility"].idxmax(), biases["utility"].idxmin()
    texts = [
        f"with {name!r}, {row['utility']:+z.2f} (95 %: {row['lower']:+z.2f} to "
        f"{row['upper']:+z.2f})"
        for name, row in biases.loc[[strongest, weakest]].iterrows()
    ]
    sentence = f"Being first adds most {texts[0]}, and least {texts[1]}"
    if biases.loc[weakest, "upper"] < biases.loc[strongest, "lower"]:
        return f"{sentence}."
    return f"{sentence}: the answers leave open whether raters differ in it."


def sentence_of_moves(before: DataFrame, after: DataFrame, items: Sequence[str]) -> str:
    """Says whose place among the others changes when answers about items are left out.

    Args:
        before: The board of all answers.
        after: The board without those about the items.
        items: That are left out; features may still rank them.
    """
    staying = after.index[~after.index.isin(items)]
    old, new = (
        board["rank"].reindex(staying).rank(method="min") for board in (before, after)
    )
    moves = [
        f"{name} from {old[name]:.0f} to {new[name]:.0f}"
        for name in staying
        if old[name] != new[name]
    ]
    listing = ", ".join(moves[:5]) + remainder_of(moves, 5) if moves else "nobody"
    subject = ", ".join(map(repr, items))
    return f"Without {subject}, among the other items these move: {listing}."


def _one_sided(answers: DataFrame) -> list[str]:
    """Returns a sentence about items that won or lost all answers, if there are some.

    Such answers bound a utility on one side alone. Its posterior is skewed, and the
    other end of its interval, a Gaussian's, is a twentieth to a seventh of the interval
    too near.
    """
    from pandas import Index

    items = Index(answers[[WINNER, LOSER]].to_numpy().ravel()).unique().sort_values()
    tied = answers.loc[answers[TIE], [WINNER, LOSER]].to_numpy().ravel()
    decided = answers[~answers[TIE]]
    sides_in_words = [
        f"{', '.join(map(repr, names[:3]))}{remainder_of(names, 3)} {side} all"
        for side, opposite in (("won", LOSER), ("lost", WINNER))
        if (
            names := [*map(str, items[~items.isin(decided[opposite])].difference(tied))]
        )
    ]
    if not sides_in_words:
        return []
    claim = "bound such utilities on one side, and the other ends of their intervals"
    return [
        f"{'; '.join(sides_in_words)}: answers {claim} may be a tenth of them too near."
    ]


def remainder_of(names: Sequence[object], limit: int) -> str:
    """Says how many names follow those that a sentence has; nothing where none do."""
    return f" and {len(names) - limit:,} more" if len(names) > limit else ""


def _doubtful_names(names: dict[str, list[str]]) -> list[str]:
    """Gives sentences about names that may be misspelt, so that one item became two."""
    return [
        note
        for plural, listed in names.items()
        for note in _names_alike(listed, plural) + _missing_names(listed, plural)
    ]


def _single_names(answers: DataFrame) -> list[str]:
    """Returns a sentence about items with one answer, which may be misspelt others.

    Where more than a tenth of the items have one answer, only those with a name nearly
    that of another item are listed, and none where more than ten have one answer.
    """
    number = answer_totals(answers, answers[COUNT])
    singles = [name for name, count in number.items() if count == 1]
    # Where many items have one answer, it says nothing of how they are written.
    if len(singles) > len(number) / 10:
        compared = singles if len(singles) <= 10 else []
        singles = [n for n in compared if _is_near_another(n, number.index)]
    if not singles:
        return []
    listing = ", ".join(map(repr, singles[:10])) + remainder_of(singles, 10)
    return [f"In one answer alone: {listing}. A misspelt name is an item of its own."]


def _names_alike(names: Iterable[str], plural: str) -> list[str]:
    """Returns a sentence about names that only look different, if there are some."""
    groups = names_alike(names)
    if not groups:
        return []
    listing = "; ".join(" and ".join(map(ascii, alike)) for alike in groups[:5])
    remainder = remainder_of(groups, 5)
    note = (
        "These names differ only in capitals, spaces, zeros or coding of letters, and "
    )
    return [f"{note}are {plural} of their own: {listing}{remainder}."]


def _missing_names(names: Iterable[str], plural: str) -> list[str]:
    """Returns a sentence about names that stand for nothing, if there are some."""
    missing = [name for name in names if name.casefold() in MISSING - {"-"}]
    if not missing:
        return []
    names = " and ".join(map(repr, missing))
    verb = "are" if len(missing) > 1 else "is"
    advice = "where that stands for a name that is missing, leave these rows out."
    return [f"{names} {verb} among the {plural}: {advice}"]


def _is_near_another(name: str, names: Iterable[str]) -> bool:
    """Tells whether another name has nearly the same letters, as of a misspelt one.

    The numbers in both are the same: "Barolo 2015" and "Barolo 2016" are two wines.
    """
    numbers = re.findall(r"\d+", name)
    candidates = [o for o in names if o != name and re.findall(r"\d+", o) == numbers]
    return bool(get_close_matches(name, candidates, n=1, cutoff=0.8))
