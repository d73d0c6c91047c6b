"""Rows and sentences in which a report says what its tables hold."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from pandas import DataFrame, Series
from pandas.api.types import is_number

from botorch_pref.ax.number_texts import (
    cell_text,
    interval_text,
    interval_texts,
    number_text,
    share_text,
    value_text,
)
from botorch_pref.models.plausible import GUESSED, GUESSERS

LEVEL = 0.95
"""Probability of the intervals."""

NOT_KNOWN = "not known from these answers"
"""The text for a parameter that may have no effect, see `has_effect`."""

NOT_ALONE = "moves with others only"
"""The text for a parameter of which constraints allow no other value by itself."""

BASELINE_ROWS = (
    "its difference to the baseline",
    f"from, with probability {LEVEL}",
    "to",
)
"""Rows of a summary that compare the best option with the baseline."""

TYPICAL = 76
"""Percent of answers in which the typical rater names the better of two options that
are one deviation of her noise apart, see `rater_reliability`."""

DECIMALS = {"best": 3, "better": 3, "preferred": 3}
"""Decimals of printed probabilities: these are shares of draws, so that few count."""

OPTION_COLUMNS = (
    *("name", "mean", "lower", "upper", "best", "wins", "losses", "ties", "failed"),
    *("copy_of", "part", "difference", "least", "most", "better", "preferred"),
)
"""Columns of the table of options beside those of parameters, and of its page."""

_COUNTS = ["wins", "losses", "ties", "failed"]


def representatives(options: DataFrame) -> Series:
    """Names the option that stands for each option: itself, but for copies of another.

    Args:
        options: The table of a report, whose column ``copy_of``, if it has one, names
            the option that stands for another.
    """
    names = options.index.to_series()
    if "copy_of" not in options:
        return names
    return options["copy_of"].where(options["copy_of"] != "", names)


def distinct_options(options: DataFrame) -> DataFrame:
    """Keeps the options that people can tell apart, with the counts of their copies.

    Args:
        options: The table of a report, see `representatives`.
    """
    if "copy_of" not in options:
        return options
    counts = options[_COUNTS].groupby(representatives(options)).sum()
    distinct = options[options["copy_of"] == ""].drop(columns="copy_of")
    return distinct.assign(**counts.loc[distinct.index])


def printed_options(options: DataFrame, reference: str) -> DataFrame:
    """Arranges options as reports show them, with differences to a reference.

    Comparisons say nothing of the level of utilities, so that differences and their
    intervals are shown in place of utilities.

    Args:
        options: A table of a report, or its first rows.
        reference: What the report calls the design to which differences are taken.
    """
    table = distinct_options(options).round(DECIMALS)
    designs = [name for name in table.columns if name not in OPTION_COLUMNS]
    table = table.assign(**{name: table[name].map(value_text) for name in designs})
    if "difference" not in table:
        return table
    if table["part"].nunique() == 1:
        table = table.drop(columns="part")
    differences = table[["difference", "least", "most"]]
    table[f"beside {reference}"] = [
        interval_text(*row) for row in differences.itertuples(index=False)
    ]
    first = [*designs, f"beside {reference}", "better", "preferred", "best"]
    counts = [c for c in (*_COUNTS, "part") if c in table]
    columns = [c for c in first if c in table] + counts
    return table[columns].rename(columns={"better": "P(better)", "best": "P(best)"})


def unit_of_differences(values: Mapping[str, Any]) -> str:
    """Says in which unit a report has differences and changes of utility.

    They are shares of the range of options judged, which of one alone is 0.

    Args:
        values: The summary of a report.
    """
    if values.get("expected range") == 0:
        return "in units of utility, since one option alone has no worst and best"
    return "as a share of the step from the worst option judged to the best"


def options_legend(options: DataFrame, reference: str, unit: str) -> str:
    """Explains columns of `printed_options`; an empty text where these are not there.

    Args:
        options: The table of a report.
        reference: What the report calls the design to which differences are taken.
        unit: See `unit_of_differences`.
    """
    if "difference" not in options:
        return ""
    chances = f" P(better) is the probability of being better than {reference}"
    if "preferred" in options:
        chances += ", preferred that of being named in an answer beside it"
    if "best" in options:
        chances += ", P(best) that of being the best of those judged"
    groups = ""
    if "copy_of" in options:
        groups = " Options that are too close to tell apart are one row."
    if options["part"].nunique() > 1:
        groups += " Answers compare no two options of different parts."
    return (
        f"Beside {reference}: the difference to it, {unit}, with its 95 % interval."
        f"{chances}.{groups}{_title_sentence(options)}"
    )


def _title_sentence(options: DataFrame) -> str:
    """Explains names of options; an empty text of a catalogue, whose rows have ids."""
    name = str(options.index[0])
    parts = re.fullmatch(r"(\d+) ([A-Z]|\d+)", name)
    if parts is None:
        return ""
    question, place = parts.groups()
    return (
        f" {name} is option {place} of question {question}, where it was first shown."
    )


def printed_effects(effects: DataFrame) -> DataFrame:
    """Makes a row for each parameter: where it is best and worst, and the difference.

    Parameters of which it is not known that they have an effect come last. Of every
    parameter it is said how large the difference is at most, and how probably it
    matters, where that is known of any; but of none that cannot move by itself.
    """
    of_parameter = effects.groupby("parameter", sort=False)
    changes = of_parameter["change"]
    ends = changes.idxmax(), changes.idxmin()
    best, worst = (effects.loc[end].set_index("parameter") for end in ends)
    certain = Series({name: has_effect(table) for name, table in of_parameter})
    span = (best["change"] - worst["change"]).where(certain)
    places = {"best at": best["value"], "worst at": worst["value"]}
    columns = {
        head: values.map(value_text).astype(object).where(certain, "")
        for head, values in places.items()
    }
    alone = of_parameter.size() > 1
    steps = Series({name: largest_step(table) for name, table in of_parameter})
    differences = span.map(share_text).where(certain, NOT_KNOWN)
    columns["difference"] = differences.where(alone, NOT_ALONE)
    columns["at most"] = steps.map(share_text).where(alone, "")
    matters = best["matters"].where(alone).round(2)
    if matters.notna().any():
        columns["P(matters)"] = matters.map(_matters_text)
    order = DataFrame({"span": span, "matters": matters, "step": steps.where(alone)})
    order = order.sort_values(
        [*order.columns], ascending=False, kind="stable", na_position="last"
    )
    return DataFrame(columns).loc[order.index].rename_axis("effect of")


def has_effect(effect: DataFrame) -> bool:
    """Tells whether a parameter surely has an effect.

    Its band excludes 0 somewhere, or it matters with a probability of `LEVEL` or more,
    as it is printed. A parameter that cannot move by itself has none.
    """
    if len(effect) == 1:
        return False
    excluded = (effect["lower"] > 0) | (effect["upper"] < 0)
    return bool(excluded.any() or (effect["matters"].round(2) >= LEVEL).any())


def largest_step(effect: DataFrame) -> float:
    """Returns by how much two values of a parameter differ at most, within its band."""
    return float(effect["upper"].max() - effect["lower"].min())


def _matters_text(probability: float) -> str:
    """Writes the probability that a parameter matters; an empty text of NaN."""
    return "" if math.isnan(probability) else f"{probability:.2f}"


def effect_caption(effect: DataFrame) -> str:
    """Says where a parameter is best and worst, or that it may have no effect.

    It has the numbers of `printed_effects`. Where constraints end the scale of its
    values, it says that.
    """
    if len(effect) == 1:
        return NOT_ALONE
    matters = _matters_text(effect["matters"].iloc[0])
    texts = [
        _ends_of_effect(effect) if has_effect(effect) else NOT_KNOWN,
        f"at most {share_text(largest_step(effect))}",
        matters and f"P(matters) {matters}",
        _end_text(effect, "constraints end it"),
    ]
    return ", ".join(filter(None, texts))


def _ends_of_effect(effect: DataFrame) -> str:
    """Says at which values a parameter is best and worst, and how far these differ."""
    changes = effect["change"]
    best, worst = (effect.loc[end] for end in (changes.idxmax(), changes.idxmin()))
    return (
        f"best at {value_text(best['value'])}, worst at {value_text(worst['value'])}, "
        f"difference {share_text(best['change'] - worst['change'])}"
    )


def _end_text(effect: DataFrame, start: str) -> str:
    """Says near which values constraints end the scale of a parameter, if they do."""
    ends = effect["value"][effect["limited"]]
    if ends.empty or len(effect) == 1:
        return ""
    if not all(map(is_number, ends)):
        return f"{start} before other choices"
    return f"{start} near {' and '.join(number_text(float(end)) for end in ends)}"


def effects_legend(effects: DataFrame, unit: str) -> str:
    """Explains `printed_effects` and captions, and says which scales constraints end.

    Args:
        effects: The table of a report.
        unit: See `unit_of_differences`.
    """
    matters = ""
    if effects["matters"].notna().any():
        matters = (
            " P(matters) is the probability that it does anything at all, 0.5 before "
            "answers."
        )
    ends = [
        _end_text(effect, f"of {name}")
        for name, effect in effects.groupby("parameter", sort=False)
    ]
    limits = ", ".join(filter(None, ends))
    return (
        "Change of utility from the best option shown as one parameter moves and the "
        f"others stay, but for those derived from it, {unit}. No two values of a "
        "parameter differ by more than is said, 19 times in 20."
        + matters
        + (f" Constraints end the values tried {limits}." if limits else "")
    )


def printed_raters(raters: DataFrame) -> DataFrame:
    """Arranges what is known of each rater as reports show it.

    Args:
        raters: The table of a report.
    """
    noises = raters[["noise", "lower", "upper"]].map(number_text)
    ends = noises["lower"] + " to " + noises["upper"]
    right = 100 * raters["names_better"]
    columns = {
        "answers": raters["answers"],
        "noise": noises["noise"] + " (" + ends + ")",
        "right": right.map("{:.0f} %".format),
        "outlier": raters["outlier"],
    }
    return DataFrame(columns)


RATERS_LEGEND = (
    "Noise: how much chance is in the answers, where 1 is the typical rater, with its "
    f"95 % interval. Right: how often this rater names the better of two options of "
    f"which the typical rater names the better in {TYPICAL} %. Outlier: more noise "
    "than that of the others, by more than chance explains; in one of twenty groups a "
    "yes is wrong. Agreement: 1 if two like the same, 0 if they have nothing in "
    "common, -1 if one likes what the other dislikes."
)
"""The text that explains `printed_raters` and agreements."""

_SHARES = ("gain as a share of the range",)
"""Rows of a summary that are shares of the step from the worst option to the best."""


def printed_summary(summary: DataFrame) -> DataFrame:
    """Writes the values of a summary as texts, and keeps what they mean.

    Args:
        summary: The table of a report.
    """
    values = summary["value"]
    texts = {row: cell_text(value) for row, value in values.items()}
    texts |= {row: share_text(values[row]) for row in _SHARES if row in values}
    if BASELINE_ROWS[0] in values:
        interval = interval_texts(*(values[row] for row in BASELINE_ROWS))
        texts |= dict(zip(BASELINE_ROWS, interval, strict=True))
    return summary.assign(value=Series(texts, dtype=object))


def advice_in_words(
    values: Mapping[str, Any],
    options: DataFrame,
    best: str,
    favourites: DataFrame | None = None,
    agreement: DataFrame | None = None,
    all_judged: bool = False,
) -> str:
    """Says how sure it is that an option is the best, and whether to ask on.

    Where the answers look like guesses, it says that alone, or of ties that nobody saw
    a difference: anything else would rest on guesses. So answers look that are of one
    utility, but of raters who disagree, which is said too.

    Args:
        values: The summary of a report.
        options: Its table of options.
        best: What the table calls the best option shown.
        favourites: Its table of raters' best options.
        agreement: Its table of each two raters.
        all_judged: Whether the space has no other designs.
    """
    disagreement = "" if favourites is not None else _disagreement_sentence(agreement)
    if look_like_guesses(values):
        # A coin calls nothing equal.
        guesses = _tie_sentence(values) or (
            "The answers look like guesses: the probability that a coin gave them all "
            f"is {values['guessed']:.2f}, where before them it was {GUESSERS:.2f}. Ask "
            "about options that differ more, or whether the person sees a difference."
        )
        return " ".join(filter(None, (guesses, disagreement)))
    # With the counts of copies, which nobody can tell from the best option.
    row = distinct_options(options).loc[best]
    parts = [
        _context_sentence(values),
        _failure_sentence(row),
        _tie_sentence(values),
        _validity_sentence(values),
        _gain_sentence(values, all_judged),
        _rival_sentence(options, best),
        _dissent_sentence(favourites, best),
        disagreement,
    ]
    return " ".join(filter(None, parts))


def look_like_guesses(values: Mapping[str, Any]) -> bool:
    """Tells whether all said of utilities would be guesses, by a report's summary.

    A coin probably gave all answers, or all of them are ties.
    """
    return bool(values.get("guessed", 0.0) > GUESSED or _tie_sentence(values))


def _context_sentence(values: Mapping[str, Any]) -> str:
    """Says in which context all of this holds."""
    return f"This holds where {values['context']}." if "context" in values else ""


def _failure_sentence(best: Series) -> str:
    """Says that the best option failed, where in no answer it won or tied."""
    if not best.failed or best.wins or best.ties:
        return ""
    times = "once" if best.failed == 1 else f"{int(best.failed)} times"
    return f"This option failed {times}, and no answer prefers it to another."


def _tie_sentence(values: Mapping[str, Any]) -> str:
    """Says that nobody saw a difference, where all answers about options are ties."""
    kinds = _kinds_of_answers(values)
    if "tie" not in kinds or kinds - {"tie", "invalid", "cannot_compare"}:
        return ""
    best_option = "any that did not fail" if "invalid" in kinds else "any"
    return (
        "Nobody has seen a difference so far, and all that is said here is a guess: "
        f"ask about options that differ more, in wider ranges, or take {best_option}."
    )


def _validity_sentence(values: Mapping[str, Any]) -> str:
    """Says that no answer compares options, where all say what failed."""
    kinds = _kinds_of_answers(values)
    if "invalid" not in kinds or kinds - {"invalid", "cannot_compare"}:
        return ""
    return (
        "No answer says so far which of two options is better: all that is said here "
        "follows from what failed."
    )


def _kinds_of_answers(values: Mapping[str, Any]) -> set[str]:
    """Returns what answers say, by the rows of the summary that count it."""
    return {row.removeprefix("that say ") for row in values if "that say " in row}


def _gain_sentence(values: Mapping[str, Any], all_judged: bool) -> str:
    """Says what is left to gain, by the rows of the summary on regret and gain."""
    chance, share = values["chance of regret"], values["gain as a share of the range"]
    worth = ""
    if not math.isnan(share):
        percent = "less than 1 %" if share < 0.005 else f"{100 * share:.0f} %"
        better = f" It would be better by {percent} of the step from the worst option"
        worth = f"{better} so far to the best. Differences are shares of that step."
    ties = ""
    if "tie" in _kinds_of_answers(values):
        ties = ", and half of those without a difference count"
    unseen = " A narrow peak far from all options shown would not be seen."
    has_unseen = values["stop"] and not all_judged
    return (
        f"{'Little is left to gain:' if values['stop'] else 'As far as is known,'} the "
        f"ideal design would be preferred to this one in {100 * chance:.0f} of 100 "
        f"comparisons, where 50 means as good as equal{ties}.{worth}"
        f"{unseen if has_unseen else ''}"
    )


def _rival_sentence(options: DataFrame, best: str) -> str:
    """Says that another option is the best more probably than the one called best.

    A lead of less than 0.05 is left out: of two options that are as good as each other,
    one still has the larger share of posterior samples.
    """
    chances = options["best"].round(DECIMALS["best"])
    rival = chances.idxmax()
    if chances[rival] < chances[best] + 0.05:
        return ""
    # Options like one another share their chance to be the best: beside the best one
    # alone, a rival unlike them may be the worse. A baseline is another reference.
    beside = ""
    if options.at[best, "difference"] == 0:
        better = _chance_text(options.at[rival, "better"])
        beside = f" It is better than {best} with a probability of {better}."
    return (
        f"{rival} is the best of all with a larger probability than {best} "
        f"({chances[rival]:g}, {chances[best]:g}), though its expected utility is "
        f"lower.{beside}"
    )


def _dissent_sentence(favourites: DataFrame | None, best: str) -> str:
    """Names raters whose favourite is better for them than the best for all.

    The probability of that is `LEVEL` or more.
    """
    if favourites is None:
        return ""
    apart = favourites[favourites["better"] >= LEVEL]
    return " ".join(
        f"{rater} parts from the others: for {rater} {row.favourite} is better than "
        f"{best}, with a probability of {_chance_text(row.better)}."
        for rater, row in apart.iterrows()
    )


_MOST_PAIRS = 3
"""Pairs of raters that a sentence names, at most."""


def _disagreement_sentence(agreement: DataFrame | None) -> str:
    """Names raters who surely disagree, though one utility stands for all of them.

    The whole interval of their agreement is below 0.
    """
    if agreement is None:
        return ""
    apart = agreement[agreement["upper"] < 0].sort_values("agreement")
    pairs = [
        f"{first} and {second} ({row.agreement:.2f})"
        for (first, second), row in apart.head(_MOST_PAIRS).iterrows()
    ]
    if not pairs:
        return ""
    others = len(apart) - len(pairs)
    more = f" and {others} pair{'s' * (others > 1)} more" if others else ""
    return (
        f"Raters disagree: {', '.join(pairs)}{more}. All answers count as one person's "
        'here; an experiment with raters="share" has a utility for each.'
    )


def _chance_text(probability: float) -> str:
    """Writes a probability with three digits; no answers make one certain."""
    return "more than 0.999" if probability > 0.9995 else f"{probability:.3g}"
