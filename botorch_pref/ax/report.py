"""The report of an experiment."""

from __future__ import annotations

from dataclasses import dataclass

from pandas import DataFrame

from botorch_pref.ax.best_designs import (
    allowed_here,
    best_anywhere,
    best_shown,
    fitted_adapter,
)
from botorch_pref.ax.design_tables import (
    designs_of_experiment,
    effect_table,
    judged_arms,
    option_table,
)
from botorch_pref.ax.findings import (
    RATERS_LEGEND,
    advice_in_words,
    effects_legend,
    options_legend,
    printed_effects,
    printed_options,
    printed_raters,
    printed_summary,
    representatives,
    unit_of_differences,
)
from botorch_pref.ax.number_texts import cell_text, interval_text
from botorch_pref.ax.projection import Projection
from botorch_pref.ax.rater_report import favourites_of, rater_checks, rater_tables
from botorch_pref.ax.report_page import rater_sentences, report_html
from botorch_pref.ax.space.context import Context
from botorch_pref.ax.summary import all_judged, progress_rows, summary_table
from botorch_pref.errors import BotorchPrefError

_MOST_PRINTED = 30
"""Options of a printed report."""


@dataclass(frozen=True, repr=False)
class Report:
    """Report on the answers: ``print`` it, or end a notebook's cell with it.

    Differences and changes of utility are shares of the expected range, the step from
    the worst to the best option that was judged and that constraints allow in the
    context; the summary has that range. Duels and rankings say hardly how precise a
    person is, and so what a unit of utility is: of one who seldom errs, differences in
    utility leave their intervals in a third of the cases after 8 to 30 answers, and as
    shares in few (``docs/logbook/calibration-further.md``). One option alone has no
    range: differences and changes are in units of utility then.

    Attributes:
        summary: The column ``value`` has numbers of questions and answers; what is
            recommended, of a catalogue its id; the expected gain (in units of utility)
            of knowing the best option of the search space over the best one shown;
            whether to ``stop``, and the ``chance of regret`` in what the person would
            notice; how much of the space was ``searched for the best``; how often
            repeated questions were answered alike; into how many parts the comparisons
            join the options; with ``position_bias`` also how often the option shown
            first is chosen between equals, ties left out, with a 95 % interval. The
            column ``meaning`` has what to make of a value.
        options: A row for each option that was judged or could have been, and that
            constraints allow in the context, the largest posterior mean first, by what
            people call it (`.PreferenceExperiment.titles` has the names of Ax's arms):
            its parameters, whose columns end in
            ``_parameter`` where they would be called as others; its utility's posterior
            ``mean`` and 95 % interval from ``lower`` to ``upper``; the probability that
            it is the ``best`` of those that were judged; how many options it was said
            to be better than (``wins``), worse than (``losses``) and equal to
            (``ties``); how often it ``failed``; and the ``part`` of the comparison
            graph that it is in. Of options that nobody could tell apart one has an
            entry in ``best``, which ``copy_of`` names; they are printed as one. Then
            its ``difference`` to the ``reference`` as a share of the expected range,
            with a 95 % interval from ``least`` to ``most``; the probability that its
            utility is ``better``; and with a baseline the probability that it is
            ``preferred`` in an answer. These are printed, for comparisons say nothing
            of the level of utilities.
        raters: A row for each rater, those who agree beside each other: the table of
            :func:`.rater_reliability`. None unless two to 40 people with names compared
            options, three or more of them.
        agreement: A row for each two raters: the table of :func:`.rater_agreement` over
            options that were judged. None where ``raters`` is.
        checks: A row for each rater who was asked about the same options again, the
            name empty of those who gave none: the number of ``checks``, the share that
            was answered ``alike`` (the same options are the best), and its 95 %
            interval from ``lower`` to ``upper``. None where nobody was.
        effects: What each parameter does around the best option shown, the others held:
            a row for each ``parameter`` and ``value`` that the space has, with the
            ``change`` of utility from that option as a share of the expected range, and
            the ends ``lower`` and ``upper`` of a band that holds all changes of a
            parameter at once with a probability of 95 %, so that no two of its values
            differ by more than the height of the band. ``matters`` is the probability
            that the parameter has any effect in the space, and before any answer it is
            1/2 (`.inclusion_probabilities`); it is NaN where constraints hold that the
            parameter moves with others only, beyond 300 answers or 600 options, of a
            single parameter and under kernels without relevances. ``limited`` says
            whether constraints forbid the next value beside the best option's others:
            the values end there before those of the space. None of a catalogue, whose
            rows are all there is, and of a model that averages over its
            hyper-parameters. Printed is where each parameter is best and worst, and the
            ``difference``, the largest one first; or that its effect is not known,
            where the band holds 0 throughout and ``matters`` is below 0.95.
        advice: How sure it is that the best option shown is the best design, and so
            whether to go on asking, in words. It names an option that is the best with
            a larger probability, and raters who part from the others; or where raters
            do not share, those who surely disagree. Where the answers look like
            guesses, it says nothing else but that raters disagree.
        reference: The design to which differences of ``options`` are: the baseline, or
            the best option shown.
        favourites: A row for each rater, where raters share: the name of the
            ``favourite``, the option with the largest mean of that rater's utility, and
            the probabilities that it is ``better`` to the rater than the best option
            shown, and ``preferred`` to it. None where raters do not share.
    """

    summary: DataFrame
    options: DataFrame
    raters: DataFrame | None = None
    agreement: DataFrame | None = None
    checks: DataFrame | None = None
    effects: DataFrame | None = None
    advice: str = ""
    reference: str = "the best"
    favourites: DataFrame | None = None

    def to_markdown(self) -> str:
        """Writes the recommendation and how sure it is, then all tables, in Markdown.

        Of many options it has the best; agreements are a square, effects a row for each
        parameter; a sentence for each rater stands above the tables of raters; the
        summary is last.
        """
        options = printed_options(self.options, self.reference)
        values = self.summary["value"]
        unit = unit_of_differences(values)
        parts: list[str] = []
        if self.advice:
            best = values["recommended of those shown"]
            parts = [
                _cell(f"The best option shown is {best}."),
                f"{'Stop' if values['stop'] else 'Go on'}. {self.advice}",
            ]
        if self.effects is not None:
            parts.append(effects_legend(self.effects, unit))
            parts.append(_markdown(printed_effects(self.effects)))
        sentences = [options_legend(self.options, self.reference, unit)]
        if len(options) > _MOST_PRINTED:
            count = f"{_MOST_PRINTED} of {len(options)}"
            sentences.insert(
                0, f"The best {count} options; `report.options` has all of them."
            )
        parts.append(" ".join(filter(None, sentences)))
        parts.append(_markdown(options.head(_MOST_PRINTED)))
        parts.append("\n".join(f"- {sentence}" for sentence in self.rater_sentences))
        tables = [] if self.favourites is None else [self.favourites]
        if self.raters is not None and self.agreement is not None:
            parts.append(RATERS_LEGEND)
            names = [*self.raters.index]
            tables += [printed_raters(self.raters), _square(self.agreement, names)]
        if self.checks is not None:
            tables.append(self.checks)
        parts += map(_markdown, (*tables, printed_summary(self.summary)))
        return "\n\n".join(filter(None, parts))

    def to_html(self, title: str = "What was learned") -> str:
        """Makes one page with its figures, which needs no other file and no network.

        It has what to take and how sure that is, what each parameter does, differences
        as shares with their intervals, a sentence for each rater, tables, and how to
        cite it.

        Args:
            title: The title of the page.
        """
        return report_html(
            title,
            self.summary,
            self.options,
            advice=self.advice,
            reference=self.reference,
            effects=self.effects,
            raters=self.rater_sentences,
        )

    @property
    def rater_sentences(self) -> list[str]:
        """Sentences on raters, one for each, of what their tables have."""
        return rater_sentences(
            self.raters, self.agreement, self.checks, self.favourites
        )

    __repr__ = __str__ = to_markdown
    _repr_markdown_ = to_markdown


def preference_report(projection: Projection, context: Context | None = None) -> Report:
    """Makes the report on the answers so far, in a context or that of the last one."""
    log = projection.log
    context = log.last_context if context is None else context
    adapter = fitted_adapter(projection, context=context)
    designs = designs_of_experiment(log.space, adapter)
    anywhere = best_anywhere(log, adapter)
    progress = progress_rows(projection, adapter, anywhere)
    # One option alone has no range.
    unit = progress["expected range"] or 1.0
    arms = judged_arms(projection, adapter)
    options = option_table(log, adapter, arms, designs, unit)
    place = [arm.parameters for arm in arms].index(best_shown(adapter))
    # A design that was seen in two contexts goes by one title.
    best = str(representatives(options).iloc[place])
    raters, agreement, failure = None, None, ""
    try:
        raters, agreement = rater_tables(projection, adapter) or (None, None)
    except BotorchPrefError as error:
        failure = f"not known: {error}"
    summary = summary_table(log, adapter, options, best, anywhere, progress, failure)
    # After the summary, whose parts of the graph are those of all options.
    options = options[allowed_here(adapter, arms).tolist()]
    options = options.sort_values("mean", ascending=False, kind="stable")
    favourites = favourites_of(log, adapter)
    return Report(
        summary,
        options,
        raters,
        agreement,
        rater_checks(log),
        effect_table(log, adapter, designs, unit),
        advice_in_words(
            dict(summary["value"]),
            options,
            best,
            favourites,
            agreement,
            all_judged(adapter),
        ),
        "the baseline" if log.settings.baseline else best,
        favourites,
    )


def _square(agreement: DataFrame, raters: list[str]) -> DataFrame:
    """Writes agreements with their intervals as texts, ``R x R``."""
    table = DataFrame("", index=raters, columns=raters)
    for (first, second), row in agreement.iterrows():
        text = interval_text(row.agreement, row.lower, row.upper)
        table.loc[first, second] = table.loc[second, first] = text
    return table


def _markdown(table: DataFrame) -> str:
    """Writes a table in Markdown."""
    texts = table.map(_cell).rename(index=_cell, columns=_cell)
    return str(texts.to_markdown(disable_numparse=True))


def _cell(value: object) -> str:
    """Writes a value as text of one cell of a Markdown table."""
    # A name with either of them would be two cells, or two rows.
    return " ".join(cell_text(value).splitlines()).replace("|", r"\|")
