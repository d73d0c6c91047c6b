"""What the tables of a report say, in rows and sentences for people."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pandas import DataFrame, Series

LEVEL = 0.95
"""Probability of the intervals."""

GUESSED = 0.9
"""Probability of a coin above which answers are said to look like guesses; no answer at
all has 0.5, and some right ones may have more."""

NOT_KNOWN = "not known from these answers"
"""Of a parameter whose effect could be none at all of its values."""

DECIMALS = {"best": 3, "better": 3, "preferred": 3}
"""Of the probabilities of options where people read them: they are shares of draws."""

OPTION_COLUMNS = (
    *("name", "mean", "lower", "upper", "best", "wins", "losses", "ties", "failed"),
    *("copy_of", "part", "difference", "least", "most", "better", "preferred"),
)
"""Columns of the table of options beside those of parameters, and of its page."""

_COUNTS = ["wins", "losses", "ties", "failed"]


def representatives(options: DataFrame) -> Series:
    """Which option stands for each one, itself but where nobody could tell them apart.

    Args:
        options: The table of a report, whose column ``copy_of``, if it has one, names
            the option that stands for another.
    """
    names = options.index.to_series()
    if "copy_of" not in options:
        return names
    return options["copy_of"].where(options["copy_of"] != "", names)


def distinct_options(options: DataFrame) -> DataFrame:
    """The options that people can tell apart, each with the counts of its copies.

    Args:
        options: The table of a report, see `representatives`.
    """
    if "copy_of" not in options:
        return options
    counts = options[_COUNTS].groupby(representatives(options)).sum()
    distinct = options[options["copy_of"] == ""].drop(columns="copy_of")
    return distinct.assign(**counts.loc[distinct.index])


def printed_options(options: DataFrame, reference: str) -> DataFrame:
    """The options as a report prints them: beside another one, if there is one.

    Comparisons say nothing of the level of utilities, so that differences and their
    intervals are printed in place of utilities.

    Args:
        options: A table of a report, or its first rows.
        reference: What the table calls the design to which differences are.
    """
    table = distinct_options(options).round(DECIMALS)
    designs = [name for name in table.columns if name not in OPTION_COLUMNS]
    table = table.assign(**{name: table[name].map(exact) for name in designs})
    if "difference" not in table:
        return table
    if table["part"].nunique() == 1:
        table = table.drop(columns="part")
    intervals = table[["difference", "least", "most"]].itertuples(index=False)
    table[f"beside {reference}"] = [
        "" if low == high else f"{mean:.3g} ({low:.3g} to {high:.3g})"
        for mean, low, high in intervals
    ]
    first = [*designs, f"beside {reference}", "better", "preferred", "best"]
    others = [c for c in (*_COUNTS, "part") if c in table]
    columns = [c for c in first if c in table] + others
    return table[columns].rename(columns={"better": "P(better)", "best": "P(best)"})


def printed_effects(effects: DataFrame) -> DataFrame:
    """A row for each parameter: where it is best and worst, and the difference.

    A parameter is best and worst somewhere only if an interval of its changes excludes
    0. The others come last, and are said to be not known.
    """
    of_parameter = effects.groupby("parameter", sort=False)
    changes = of_parameter["change"]
    ends = changes.idxmax(), changes.idxmin()
    best, worst = (effects.loc[end].set_index("parameter") for end in ends)
    known = Series({name: is_known(table) for name, table in of_parameter})
    span = (best["change"] - worst["change"]).where(known)
    table = DataFrame(
        {
            "best at": best["value"].map(exact).astype(object).where(known, ""),
            "worst at": worst["value"].map(exact).astype(object).where(known, ""),
            "difference": span.astype(object).where(known, NOT_KNOWN),
        }
    )
    order = span.sort_values(ascending=False, kind="stable", na_position="last").index
    return table.loc[order].rename_axis("effect of")


def is_known(effect: DataFrame) -> bool:
    """Whether answers tell that a parameter has an effect: an interval excludes 0."""
    return bool(((effect["lower"] > 0) | (effect["upper"] < 0)).any())


def exact(value: object) -> object:
    """A value of a parameter as a question shows it.

    Few digits of a number would be another design than the one that was judged.
    """
    return f"{value:.12g}" if isinstance(value, float) else value


def advice_in_words(
    values: Mapping[str, Any],
    options: DataFrame,
    best: str,
    favourites: DataFrame | None = None,
) -> str:
    """How sure it is that an option is the best, and whether to ask on, in sentences.

    Where the answers look like guesses, that is all: the rest would be made of guesses.

    Args:
        values: The summary of a report.
        options: Its table of options.
        best: What the table calls the best option shown.
        favourites: Its table of raters' best options.
    """
    if look_guessed(values):
        return (
            "The answers look like guesses: the probability that a coin gave them all "
            f"is {values['guessed']:.2f}, where before them it was 0.50. Ask about "
            "options that differ more, or whether the person sees a difference."
        )
    row = options.loc[best]
    parts = [
        _failures(row),
        _only_ties(values),
        _left(values),
        _likelier(options, best),
        _parting(favourites, best),
    ]
    return " ".join(filter(None, parts))


def look_guessed(values: Mapping[str, Any]) -> bool:
    """Whether a coin gave all answers as good as surely, by the summary of a report."""
    return bool(values.get("guessed", 0.0) > GUESSED)


def _failures(best: Series) -> str:
    """That the best option failed, where in no answer it won or tied."""
    if not best.failed or best.wins or best.ties:
        return ""
    times = "once" if best.failed == 1 else f"{int(best.failed)} times"
    return f"This option failed {times}, and no answer prefers it to another."


def _only_ties(values: Mapping[str, Any]) -> str:
    """That nobody saw a difference, where no answer says anything else of options."""
    kinds = {row.removeprefix("that say ") for row in values if "that say " in row}
    if "tie" not in kinds or kinds - {"tie", "invalid", "cannot_compare"}:
        return ""
    return (
        "Nobody has seen a difference so far, and all that is said here is a guess: "
        "ask about options that differ more, in wider ranges, or take any."
    )


def _left(values: Mapping[str, Any]) -> str:
    """What the rows of the summary on regret and gain say."""
    chance, share = values["chance of regret"], values["gain as a share of the range"]
    worth = ""
    if not math.isnan(share):
        percent = "less than 1 %" if share < 0.005 else f"{100 * share:.0f} %"
        better = f" It would be better by {percent} of the step from the worst option"
        worth = f"{better} so far to the best."
    return (
        f"{'Little is left to gain:' if values['stop'] else 'As far as is known,'} the "
        f"ideal design would be preferred to this one in {100 * chance:.0f} of 100 "
        f"comparisons, where 50 means as good as equal.{worth}"
    )


def _likelier(options: DataFrame, best: str) -> str:
    """That another option is the best more probably than the one called best."""
    chances = options["best"].round(DECIMALS["best"])
    other = chances.idxmax()
    if not chances[other] > chances[best]:
        return ""
    beside = "though its expected utility is lower"
    averaged = options["difference"]
    if averaged[other] > averaged[best]:
        beside = (
            "and its utility is higher, averaged over explanations of the answers; "
            f"{best} is the best under the fitted one"
        )
    return (
        f"{other} is the best of all with a larger probability than {best} "
        f"({chances[other]:g}, {chances[best]:g}), {beside}."
    )


def _parting(favourites: DataFrame | None, best: str) -> str:
    """Whose favourite is another option than the best for all, as good as surely."""
    if favourites is None:
        return ""
    apart = favourites[favourites["better"] >= LEVEL]
    return " ".join(
        f"{rater} parts from the others: for {rater} {row.favourite} is better than "
        f"{best}, with a probability of {row.better:.3g}."
        for rater, row in apart.iterrows()
    )
