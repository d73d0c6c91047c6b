"""A report as one page: its figures are its numbers, and nothing in it is markup."""

import html
import re
from xml.etree import ElementTree

import pytest
from pandas import DataFrame, MultiIndex

from botorch_pref.ax.findings import (
    RATERS_LEGEND,
    distinct_options,
    effects_legend,
    options_legend,
    unit_of_differences,
)
from botorch_pref.ax.report import Report
from botorch_pref.ax.report_page import rater_sentences

BAD = "<b>&\"'"
UNIT = unit_of_differences({})


def report_of(**tables) -> Report:
    """Makes a report about three options, one with a name that markup would be."""
    options = DataFrame(
        {
            "dose": [4.0, 5.5, 7.0],
            "mean": [1.0, 0.5, -0.5],
            "best": [0.7, 0.2, 0.1],
            "wins": [2, 1, 0],
            "losses": [0, 1, 2],
            "ties": [0, 0, 0],
            "failed": [0, 0, 0],
            "part": [0, 0, 0],
            "copy_of": ["", "", ""],
            "difference": [0.0, -0.5, -1.5],
            "least": [0.0, -1.0, -3.0],
            "most": [0.0, 0.25, 1.0],
            "better": [0.5, 0.2, 0.1],
        },
        index=["1 A", "1 B", BAD],
    )
    value = {"stop": True, "recommended of those shown": f"1 A: {BAD}"}
    summary = DataFrame({"value": value, "meaning": ""}, dtype=object)
    return Report(summary, options, advice=f"Take {BAD}.", reference="1 A", **tables)


def figures(page: str) -> list[ElementTree.Element]:
    return [*map(ElementTree.fromstring, re.findall(r"<svg.*?</svg>", page))]


def test_the_page_has_what_to_take_and_needs_nothing_else() -> None:
    page = report_of().to_html(title=f"Tea {BAD}")
    escaped = "&lt;b&gt;&amp;&quot;&#x27;"
    assert f"<h1>Tea {escaped}</h1>" in page
    assert f"The best option shown is 1 A: {escaped}." in page
    assert f"<b>Stop.</b> Take {escaped}." in page
    assert BAD not in page
    assert not re.search(r"https?:|<script|<link|url\(", page)
    assert "To cite it: The botorch_pref authors (2026)." in page
    assert "@media print" in page


def test_intervals_lie_where_their_numbers_are() -> None:
    (figure,) = figures(report_of().to_html())
    zero, *intervals = figure.findall("line")
    circles = [float(circle.get("cx")) for circle in figure.findall("circle")]
    # From -3 to 1 on one scale, whose 0 is the line and the best option.
    ends = [float(intervals[2].get(name)) for name in ("x1", "x2")]
    unit = (ends[1] - ends[0]) / 4
    assert float(zero.get("x1")) == pytest.approx(ends[1] - unit, abs=0.1)
    expected = [ends[1] - unit - gap * unit for gap in (0, 0.5, 1.5)]
    assert circles == pytest.approx(expected, abs=0.1)
    second = [float(intervals[1].get(name)) for name in ("x1", "x2")]
    assert second == pytest.approx([ends[1] - 2 * unit, ends[1] - 0.75 * unit], abs=0.1)
    labels = [text.text for text in figure.findall("text")]
    assert labels == ["1 A", "1 B", BAD, "0", "-3.00", "1.00"]


def test_numbers_below_a_figure_neither_overlap_nor_are_cut_off() -> None:
    report = report_of()
    # The upper end is a fiftieth of the scale from 0.
    report.options["most"] = [0.0, 0.01, 0.066]
    (figure,) = figures(report.to_html())
    width = float(figure.get("width"))
    numbers = [t for t in figure.findall("text") if t.get("text-anchor") == "middle"]
    assert [t.text for t in numbers] == ["0", "-3.00"], "an end near 0 is named"
    for text in numbers:
        # A letter is less than 7 pixels wide.
        half = 3.5 * len(text.text)
        place = float(text.get("x"))
        assert half <= place <= width - half, f"{text.text} is cut off at the edge"


def test_a_caption_does_not_widen_its_figure() -> None:
    style = report_of().to_html().split("figcaption {")[1].split("}")[0]
    assert "width: 0; min-width: 100%" in style, "figures would stand in one column"


def test_effects_have_one_scale() -> None:
    rows = [
        ("dose", 1.0, 0.0),
        ("dose", 3.0, -2.0),
        ("bean", "b", 0.0),
        ("bean", "a", -1.0),
    ]
    effects = DataFrame(rows, columns=["parameter", "value", "change"])
    effects["lower"], effects["upper"] = effects["change"] - 1, effects["change"] + 1
    effects["matters"] = [0.97] * 2 + [0.4] * 2
    effects["limited"] = False
    numeric, choice, _ = figures(report_of(effects=effects).to_html())
    (curve,) = numeric.findall("polyline")
    (_, top), (_, low) = (map(float, p.split(",")) for p in curve.get("points").split())
    places = [float(circle.get("cy")) for circle in choice.findall("circle")]
    assert places == pytest.approx([top, (top + low) / 2], abs=0.1)
    page = report_of(effects=effects).to_html()
    assert "the others stay, but for those derived from it, as a share" in page
    # Every interval holds 0 but that of -2 with its end -1.
    ends = "best at 1, worst at 3, difference 2.00"
    assert f"dose <small>{ends}, at most 4.00, P(matters) 0.97</small>" in page
    unknown = "not known from these answers, at most 3.00, P(matters) 0.40"
    assert f"bean <small>{unknown}</small>" in page


def test_values_of_choices_are_no_tags() -> None:
    rows = [("bean", "<b>", 0.0, 0.0, 0.0), ("bean", "a&b", -2.0, -3.0, -1.0)]
    columns = ["parameter", "value", "change", "lower", "upper"]
    effects = DataFrame(rows, columns=columns).assign(matters=0.97, limited=False)
    page = report_of(effects=effects).to_html()
    assert "<b>," not in page
    assert "best at &lt;b&gt;, worst at a&amp;b, difference 2.00" in page


def test_the_page_has_the_words_and_numbers_of_the_print() -> None:
    """Each cell and each legend of the one is in the other, word by word."""
    rows = [("dose", 1.0, 0.0, -0.5, 0.25), ("dose", 3.0, -2.0, -3.5, -0.004)]
    columns = ["parameter", "value", "change", "lower", "upper"]
    effects = DataFrame(rows, columns=columns).assign(matters=0.97, limited=True)
    report = report_of(effects=effects)
    report.summary.loc["gain as a share of the range"] = [0.04192, ""]
    report.options["most"] = [0.0, -0.004, 1.0]
    page, text = html.unescape(report.to_html()), report.to_markdown()
    for words in (
        *("-0.50 (-1.00 to -0.004)", "at most", "0.97", "0.04", "3.75", "2.00"),
        options_legend(report.options, "1 A", UNIT),
        effects_legend(effects, UNIT),
    ):
        assert words in page, f"the page has no {words}"
        assert words in text, f"the print has no {words}"
    report.summary.loc["expected range"] = [0.0, ""]
    unit = unit_of_differences(report.summary["value"])
    for words in (report.to_html(), report.to_markdown()):
        assert unit in words, "it is not said that there is no step"
        assert "share of the step" not in words, "one option alone has no step"


def test_each_rater_has_a_sentence() -> None:
    raters = DataFrame(
        {
            "answers": [12, 1],
            "noise": [0.9, 4.0],
            "lower": [0.3, 1.3],
            "upper": [2.7, 12.0],
            "names_better": [0.771, 0.62],
            "outlier": [False, True],
        },
        index=["Ann", "Bob"],
    )
    pairs = MultiIndex.from_tuples([("Ann", "Bob")], names=["first", "second"])
    columns = {"agreement": [0.25], "lower": [0.1], "upper": [0.4]}
    agreement = DataFrame(columns, index=pairs)
    checks = DataFrame({"checks": [4], "alike": [0.75]}, index=["Ann"])
    ann, bob = rater_sentences(raters, agreement, checks)
    assert ann == (
        "Ann: 12 answers, right in 77 % where the typical rater is right in 76 %; "
        "agrees most with Bob (0.25); 3 of 4 repeated alike."
    )
    assert bob == (
        "Bob: 1 answer, right in 62 % where the typical rater is right in 76 %; "
        "less steady than the others by more than chance explains; "
        "agrees most with Ann (0.25)."
    )
    assert rater_sentences(None) == []
    columns = {"favourite": ["1 A", "2 B"], "better": [0.5 + 1e-9, 0.934]}
    favourites = DataFrame(columns, index=["Ann", "Bob"])
    ann, bob = rater_sentences(raters, agreement, None, favourites)
    assert ann.endswith("; likes 1 A best.")
    assert bob.endswith(
        "; likes 2 B best, with probability 0.93 more than the best for all."
    )
    page = report_of(raters=raters, favourites=favourites).to_html()
    assert "likes 2 B best" in page
    # One person alone, or one whom the table of raters lacks, has checks all the same.
    alone = DataFrame({"checks": [4, 2], "alike": [0.75, 0.5]}, index=["", "Ann"])
    assert rater_sentences(None, None, alone) == [
        "Without a name: 3 of 4 repeated alike.",
        "Ann: 1 of 2 repeated alike.",
    ]
    report = report_of(raters=raters, agreement=agreement, checks=checks)
    assert "<li>Ann: 12 answers" in report.to_html()
    # The print has four tables of numbers, which are nothing without words.
    text = report.to_markdown()
    first, *_ = text.split("| Ann ")
    assert "\n- Ann: 12 answers" in first, "no sentence stands above the tables"
    assert RATERS_LEGEND in first, "nothing says what noise and agreement are"
    assert "- Without a name: 3 of 4" in report_of(checks=alone).to_markdown()


@pytest.mark.parametrize(
    ("with_bob", "with_cid", "sentence"),
    [
        ((0.6, 0.3, 0.8), (0.2, -0.1, 0.4), "agrees most with Bob (0.60); least with "),
        ((0.6, 0.3, 0.8), (-0.4, -0.7, -0.1), "disagrees most with Cid (-0.40)."),
        # A mean above 0 whose interval holds it is no agreement, a smaller one may be.
        ((0.4, -0.1, 0.8), (0.3, 0.1, 0.5), "agrees most with Cid (0.30)."),
        (
            (-0.15, -0.6, 0.3),
            (-0.2, -0.6, 0.2),
            "not known to agree with anybody (with Bob -0.15, -0.60 to 0.30).",
        ),
        (
            (-0.8, -0.9, -0.5),
            (-0.5, -0.7, -0.2),
            "disagrees with Cid (-0.50); disagrees most with Bob (-0.80).",
        ),
    ],
)
def test_raters_agree_only_where_an_interval_excludes_zero(
    with_bob, with_cid, sentence
) -> None:
    columns = ["agreement", "lower", "upper"]
    pairs = MultiIndex.from_tuples([("Ann", "Bob"), ("Ann", "Cid")])
    agreement = DataFrame([with_bob, with_cid], index=pairs, columns=columns)
    row = {"answers": 2, "names_better": 0.7, "outlier": False}
    (ann,) = rater_sentences(DataFrame([row], index=["Ann"]), agreement)
    assert sentence in ann
    assert ("; agrees most" in ann) is (max(with_bob[1], with_cid[1]) > 0)


def test_a_report_of_a_run_is_whole(played) -> None:
    found = played.report()
    page = found.to_html()
    assert len(figures(page)) == 1 + found.effects["parameter"].nunique()
    for name in distinct_options(found.options).index:
        assert f"<th>{name}</th>" in page
    assert ">nan<" not in page
