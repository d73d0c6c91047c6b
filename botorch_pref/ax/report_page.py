"""A report as one page of HTML, with its figures, and a sentence for each rater."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence

from pandas import DataFrame, Series, isna
from pandas.api.types import is_number

import botorch_pref
from botorch_pref.ax.findings import (
    TYPICAL,
    distinct_options,
    effect_caption,
    effects_legend,
    options_legend,
    printed_options,
    printed_summary,
    unit_of_differences,
)
from botorch_pref.ax.number_texts import (
    cell_text,
    interval_texts,
    share_text,
    value_text,
)

DRAWN = 30
"""The number of options on a page, those with the largest means."""


# --- Sentences


def rater_sentences(
    raters: DataFrame | None,
    agreement: DataFrame | None = None,
    checks: DataFrame | None = None,
    favourites: DataFrame | None = None,
) -> list[str]:
    """Says of each rater how steady she is, with whom she agrees, and what she likes.

    Args:
        raters: The table of a `Report`; of raters that it lacks, or who have no name,
            there are the checks alone.
        agreement: Its table of each two raters.
        checks: Its table of questions that were asked again.
        favourites: Its table of each rater's best option.
    """
    sentences = []
    for name, row in () if raters is None else raters.iterrows():
        answers = f"{row['answers']:,} answer{'s' * (row['answers'] != 1)}"
        right = f"right in {100 * row['names_better']:.0f} %"
        typical = f"where the typical rater is right in {TYPICAL} %"
        parts = [f"{name}: {answers}, {right} {typical}"]
        if row["outlier"]:
            parts.append("less steady than the others by more than chance explains")
        if agreement is not None:
            parts += _agreements(str(name), agreement)
        if favourites is not None:
            parts.append(_favourite(favourites.loc[name]))
        if checks is not None and name in checks.index:
            alike, number = checks.loc[name, ["alike", "checks"]]
            parts.append(f"{alike * number:.0f} of {number:.0f} repeated alike")
        sentences.append("; ".join(parts) + ".")
    described = () if raters is None else raters.index
    for name, row in () if checks is None else checks.iterrows():
        if name not in described:
            speaker = f"{name}: " if name else "Without a name: "
            alike = f"{row['alike'] * row['checks']:.0f} of {row['checks']:.0f}"
            sentences.append(f"{speaker}{alike} repeated alike.")
    return sentences


_INTERVAL = ["agreement", "lower", "upper"]


def _favourite(row: Series) -> str:
    """Says which option a rater likes best, and how surely more than that of all."""
    likes, chance = f"likes {row['favourite']} best", round(row["better"], 2)
    if chance <= 0.5:
        return likes
    return f"{likes}, with probability {chance:.2f} more than the best for all"


def _agreements(name: str, agreement: DataFrame) -> list[str]:
    """Says with whom a rater agrees most and least, as far as intervals exclude 0."""
    pairs = {
        str(second if first == name else first): row
        for (first, second), row in agreement.iterrows()
        if name in (first, second) and not isna(row["agreement"])
    }
    if not pairs:
        return []
    agreeing = {partner: row for partner, row in pairs.items() if row["lower"] > 0}
    values = {partner: float(row["agreement"]) for partner, row in pairs.items()}
    nearest = max(agreeing or pairs, key=values.__getitem__)
    farthest = min(pairs, key=values.__getitem__)
    parts = []
    if agreeing:
        parts.append(f"agrees most with {nearest} ({values[nearest]:.2f})")
    elif pairs[nearest]["upper"] >= 0:
        mean, lower, upper = interval_texts(*pairs[nearest][_INTERVAL])
        closest = f"with {nearest} {mean}, {lower} to {upper}"
        parts.append(f"not known to agree with anybody ({closest})")
    else:
        parts.append(f"disagrees with {nearest} ({values[nearest]:.2f})")
    if farthest != nearest and pairs[farthest]["upper"] < 0:
        parts.append(f"disagrees most with {farthest} ({values[farthest]:.2f})")
    elif farthest != nearest and agreeing:
        parts.append(f"least with {farthest} ({values[farthest]:.2f})")
    return parts


# --- Figures


def _svg(width: float, height: float, parts: Sequence[str], title: str) -> str:
    """Makes an image of its parts, which are SVG already; the title is escaped."""
    return (
        f'<svg role="img" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}">'
        f"<title>{html.escape(title)}</title>{''.join(parts)}</svg>"
    )


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    places = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {places} class="{kind}"/>'


def _label(x: float, y: float, text: str, anchor: str) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f"<text {place}>{html.escape(text)}</text>"


def _scale(
    low: float, high: float, start: float, end: float
) -> Callable[[float], float]:
    """Makes the linear map from values, low to high, to places, start to end.

    Where ``low`` equals ``high``, all values are in the middle.
    """
    if high == low:
        return lambda value: (start + end) / 2
    return lambda value: start + (value - low) / (high - low) * (end - start)


def _difference_figure(options: DataFrame, reference: str) -> str:
    """Draws differences of utility with their intervals, the best first."""
    rows = options.dropna(subset=["difference", "least", "most"])
    if rows.empty:
        return ""
    names = [_cut(str(name), 28) for name in rows.index]
    # In pixels: a letter is about 7 wide, and half of a label has room on the right.
    margin, side, width = 12 + 7 * max(map(len, names)), 22, 400
    low, high = min(0.0, rows["least"].min()), max(0.0, rows["most"].max())
    x, bottom = _scale(low, high, margin, width - 24), side * len(rows) + 8
    parts = [_line(x(0), 4, x(0), bottom, "zero")]
    for i, (name, mean, low_end, high_end) in enumerate(
        zip(names, rows["difference"], rows["least"], rows["most"], strict=True)
    ):
        y = 8 + side * (i + 0.5)
        parts += [
            _label(margin - 8, y + 4, name, "end"),
            _line(x(low_end), y, x(high_end), y, "interval"),
            f'<circle cx="{x(mean):.1f}" cy="{y:.1f}" r="4"/>',
        ]
    # An end that is so near 0 that the numbers would run into one another has none.
    ends = [end for end in (low, high) if abs(x(end) - x(0.0)) >= 36]
    for value in (0.0, *ends):
        parts.append(_label(x(value), bottom + 16, share_text(value), "middle"))
    return _svg(width, bottom + 22, parts, f"Differences of utility to {reference}")


def _effect_figure(effect: DataFrame, name: str, low: float, high: float) -> str:
    """Draws how the utility changes with one parameter, the others held, as SVG.

    Numbers have a curve in its band, choices a bar each. ``low`` and
    ``high`` are the ends of the scale of changes, the same for all parameters.
    """
    width, height = 200, 130
    y = _scale(low, high, height - 24, 8)
    values = [*effect["value"]]
    numeric = all(is_number(v) and not isinstance(v, bool) for v in values)
    # Values are tried at even steps of their parameter's scale.
    places = [*range(len(values))]
    x = _scale(0, len(values) - 1, 4, width - 4)
    if not numeric:
        x = _scale(-0.5, len(values) - 0.5, 0, width)
    parts = [_line(0, y(0), width, y(0), "zero")]
    bottoms = [*zip(map(x, places), map(y, effect["lower"]), strict=True)]
    tops = [*zip(map(x, places), map(y, effect["upper"]), strict=True)]
    means = [*zip(map(x, places), map(y, effect["change"]), strict=True)]
    if numeric:
        band = " ".join(f"{a:.1f},{b:.1f}" for a, b in [*bottoms, *tops[::-1]])
        curve = " ".join(f"{a:.1f},{b:.1f}" for a, b in means)
        parts += [f'<polygon points="{band}"/>', f'<polyline points="{curve}"/>']
        labels = [(0, "start", 2.0), (-1, "end", width - 2.0)]
    else:
        for (place, low_end), (_, high_end), (_, mean) in zip(
            bottoms, tops, means, strict=True
        ):
            parts.append(_line(place, low_end, place, high_end, "interval"))
            parts.append(f'<circle cx="{place:.1f}" cy="{mean:.1f}" r="4"/>')
        labels = [(i, "middle", x(place)) for i, place in enumerate(places)]
    room = max(4, 28 // len(labels))
    for i, anchor, place in labels:
        parts.append(
            _label(place, height - 6, _cut(str(value_text(values[i])), room), anchor)
        )
    return _svg(width, height, parts, name)


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


# --- The page

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem;
  padding: 0 1rem; color: #222; background: #fff }
h1 { margin-bottom: 0 } .best { font-size: 1.125rem; overflow-wrap: anywhere }
figure { display: inline-block; margin: 0 1rem 1rem 0; max-width: 100%;
  break-inside: avoid; vertical-align: bottom }
figcaption { width: 0; min-width: 100%; font-weight: 600; overflow-wrap: anywhere }
svg { max-width: 100%; height: auto; font-size: 12px; fill: #555 }
svg circle { fill: #0f766e } svg polygon { fill: #0f766e; fill-opacity: .2 }
svg polyline { fill: none; stroke: #0f766e; stroke-width: 2 }
.zero { stroke: #ccc } .interval { stroke: #0f766e; stroke-width: 4; opacity: .4 }
.scroll { overflow-x: auto } small { color: #666; font-weight: 400 }
table { border-collapse: collapse; font-size: .875rem;
  font-variant-numeric: tabular-nums }
th, td { padding: .2rem .6rem; text-align: left; border-bottom: 1px solid #ddd;
  vertical-align: top; overflow-wrap: break-word }
td:first-of-type, th { white-space: nowrap }
.numbers th, .numbers td { white-space: normal }
.options { width: max-content } .options td { max-width: 16rem }
thead th { border-bottom: 2px solid #888 } footer { margin-top: 2rem; color: #666 }
@media print { body { margin: 0; max-width: none; font-size: 11pt }
  .scroll { overflow: visible } .options { width: auto }
  h2 { break-after: avoid } tr { break-inside: avoid } }
"""


def report_html(
    title: str,
    summary: DataFrame,
    options: DataFrame,
    *,
    advice: str,
    reference: str,
    effects: DataFrame | None,
    raters: Sequence[str],
) -> str:
    """Makes a page of a `Report` that needs no other file and no other host.

    Args:
        title: The title of the page.
        summary: `Report.summary`.
        options: `Report.options`.
        advice: `Report.advice`, which may be empty.
        reference: What the report calls the design to which differences are taken.
        effects: `Report.effects`.
        raters: Sentences on raters, see `rater_sentences`.
    """
    values = summary["value"]
    unit = unit_of_differences(values)
    distinct = distinct_options(options).head(DRAWN)
    sections = []
    if advice:
        best = values["recommended of those shown"]
        sections.append(
            f'<p class="best">The best option shown is {_escaped(best)}.</p>'
            f"<p><b>{'Stop' if values['stop'] else 'Go on'}.</b> "
            f"{_escaped(advice)}</p>"
        )
    if effects is not None:
        sections.append(_effects(effects, effects_legend(effects, unit)))
    if "difference" in distinct:
        figure = _difference_figure(distinct, reference)
        head = f"Differences to {reference}, with 95 % intervals"
        sections.append(f"<h2>{_escaped(head)}</h2>{figure}")
    if raters:
        items = "".join(f"<li>{_escaped(sentence)}</li>" for sentence in raters)
        sections.append(f"<h2>Raters</h2><ul>{items}</ul>")
    printed = printed_options(options, reference)
    count = f"{DRAWN} of {len(printed)}, the best first"
    head = f"Options ({count})" if len(printed) > DRAWN else "Options"
    sections.append(f"<h2>{head}</h2>{_table(printed.head(DRAWN))}")
    if legend := options_legend(options, reference, unit):
        sections.append(f"<p>{_escaped(legend)}</p>")
    sections.append(
        f"<h2>Numbers behind this</h2>{_table(printed_summary(summary), 'numbers')}"
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_escaped(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{_escaped(title)}</h1>\n" + "\n".join(sections) + "\n"
        f"<footer><p>{_escaped(botorch_pref.__citation__)}</p></footer>\n</body>\n</html>\n"
    )


FIGURES_LEGEND = (
    "The whole curve is expected in the band, or all choices on their bars, 19 times "
    "in 20; below the line is worse. All have the same scale."
)
"""The text that explains figures of effects, beside `effects_legend`."""


def _effects(effects: DataFrame, legend: str) -> str:
    """Writes the section of what each parameter does, with figures and a legend."""
    low = min(0.0, float(effects["lower"].min()))
    high = max(0.0, float(effects["upper"].max()))
    figures = [
        f"<figure><figcaption>{_escaped(name)} "
        f"<small>{_escaped(effect_caption(effect))}</small></figcaption>"
        f"{_effect_figure(effect, str(name), low, high)}</figure>"
        for name, effect in effects.groupby("parameter", sort=False)
    ]
    return (
        f"<h2>What each parameter does</h2>{''.join(figures)}"
        f"<p>{_escaped(legend)} {FIGURES_LEGEND}</p>"
    )


def _table(table: DataFrame, kind: str = "options") -> str:
    """Writes a table as HTML, of a ``kind`` by which the page's style tells widths."""
    heads = "".join(f"<th>{_escaped(name)}</th>" for name in ("", *table.columns))
    rows = "".join(
        f"<tr><th>{_escaped(name)}</th>"
        + "".join(f"<td>{_escaped(cell_text(value))}</td>" for value in row)
        + "</tr>"
        for name, row in zip(table.index, table.to_numpy(dtype=object), strict=True)
    )
    body = f"<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody>"
    return f'<div class="scroll"><table class="{kind}">{body}</table></div>'


def _escaped(value: object) -> str:
    return html.escape(str(value))
