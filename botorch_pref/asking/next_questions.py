"""The next question to ask, by the rule that the library recommends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from random import Random
from typing import Any, Literal, NamedTuple, get_args

import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.models.model import Model
from botorch.utils.sampling import manual_seed
from torch import Tensor

from botorch_pref.acquisition import (
    DistinctOptions,
    DuelingBALD,
    DuelingEUBO,
    DuelingExploringEIIG,
    DuelingJointKG,
    FeasibilityWeighted,
    incumbent,
    likely_best,
)
from botorch_pref.acquisition.design_space import Constraint, DesignSpace
from botorch_pref.acquisition.duels import observed_points
from botorch_pref.acquisition.exploring_rule import SMALLEST_DIFFERENCE
from botorch_pref.acquisition.knowledge_gradient import without_hopeless
from botorch_pref.acquisition.line_search import (
    LineEUBO,
    are_turned,
    best_line,
    can_tell_ends,
    line_ends,
    line_of_last_stop,
    lines_through,
)
from botorch_pref.acquisition.option_search import ALL_ARE_OPEN, TOO_FEW, best_options
from botorch_pref.acquisition.plane_search import best_plane, planes_through, side_of
from botorch_pref.acquisition.recommendation import recommended_of_space
from botorch_pref.acquisition.reliability_check import reliability_check
from botorch_pref.acquisition.rules import DuelingJointEUBO
from botorch_pref.acquisition.space_arguments import (
    checked_bounds,
    checked_designs,
    checked_pending,
    space_of,
)
from botorch_pref.asking.reasons import (
    REASON_OF_CHECK,
    reason_of_joined,
    reason_of_line,
    reason_of_pair,
    reason_of_plane,
    reason_of_spread,
)
from botorch_pref.errors import FeedbackError
from botorch_pref.models import PreferenceGP
from botorch_pref.models.answer_likelihoods import check_unbatched, knows_duels
from botorch_pref.models.utility_model import DerivedModel
from botorch_pref.numerics.argument_checks import (
    check_count,
    check_kind,
    checked_arguments,
)
from botorch_pref.posteriors.gaussian import mean_at

__all__ = ["LineQuestion", "Question", "next_question"]

Goal = Literal["best", "understand"]
"""Purpose of the questions: the best design, or what a person's utility is like."""

QuestionKind = Literal["options", "line", "plane"]
"""Options that may be anywhere, or designs on a line or a plane."""

INITIAL, INITIAL_LINES = 5, 3
"""Answers before a model chooses: fewer say too little of its lengthscales. A stop on a
line, or the best of a plane, says what several duels do."""

FEW_PARAMETERS = 6
"""Most parameters with which two new points find more than the incumbent and a
challenger; with twenty they find less (`docs/logbook/claims.md`)."""

SPREAD, CHECK = "Sobol", "Check"
"""Choosers in place of an acquisition function: of options that are spread, and of
duels that show whether answers can be relied on."""

_FURTHER = 32
"""Designs that are drawn for each option where constraints make some the same."""

_DESIGNS, _OPEN = 256, 24
"""Designs that one may choose in the end are of so many; options of open questions that
a joint choice allows for, at most: those that may be the best."""


def recommended_acquisition(
    size: int, num_parameters: int, goal: Goal = "best"
) -> type[AcquisitionFunction]:
    """Returns the recommended acquisition function of questions of ``size`` options.

    `docs/logbook/claims.md` compares them. Experiments ask by the same rule.
    """
    if goal == "understand":
        return DuelingBALD
    if size >= 4:
        return DuelingJointKG
    if size == 2 and num_parameters <= FEW_PARAMETERS:
        return DuelingEUBO
    return DuelingExploringEIIG


class Question(NamedTuple):
    """Options to show side by side, and why these.

    Attributes:
        options: ``size x d``, in the units of the user and in a random order, because
            people favour what comes first; of a plane row by row.
        acquisition: The name of the acquisition function that chose them, `Sobol`, or
            `Check`.
        reason: A sentence that says why.
    """

    options: Tensor
    acquisition: str
    reason: str


class LineQuestion(Question):
    """A line of designs, on which somebody stops where it is best.

    Attributes:
        options: ``2 x d``, the ends of the line, in the units of the user.
        acquisition: The name of the acquisition function that chose it, or `Sobol`.
        reason: A sentence that says why.
    """

    __slots__ = ()

    def at(self, position: float | Tensor) -> Tensor:
        """Returns the designs at positions, ``... x d`` of ``...``.

        Raises:
            FeedbackError: A position is not from 0 to 1.
        """
        share = torch.as_tensor(position).to(self.options).unsqueeze(-1)
        if not bool(((share >= 0) & (share <= 1)).all()):
            raise FeedbackError(
                f"position is {position}; give a number from 0, the first end of the "
                "line, to 1, the second."
            )
        first, last = self.options
        return torch.lerp(first, last, share)


@checked_arguments
def next_question(
    model: Model | None,
    bounds: Tensor,
    size: int = 4,
    *,
    inequality_constraints: Sequence[Constraint] | None = None,
    discrete: Tensor | None = None,
    discrete_dims: Mapping[int, Sequence[float]] | None = None,
    categorical: Sequence[Sequence[int]] | None = None,
    fixed_features: Mapping[int, float] | None = None,
    choices: Tensor | None = None,
    pending: Tensor | None = None,
    best: Tensor | None = None,
    beside: Tensor | None = None,
    feasibility_model: PreferenceGP | None = None,
    seed: int = 0,
    kind: QuestionKind = "options",
    goal: Goal = "best",
) -> Question:
    """Chooses the next question, by the rule that the library recommends.

    Four options or more are the best design so far and challengers chosen jointly by
    `DuelingJointKG`; where designs cannot be listed, challengers that less than 1 % of
    answers would name are replaced. Three are the best design and two challengers by
    `DuelingExploringEIIG`; two are new points by `DuelingEUBO`, or of more than six
    parameters the best design and a challenger. Without a model, and until it has five
    answers, options are spread by a Sobol sequence. Everything random follows from the
    seed and the numbers of points and answers, so that the same model asks the same
    question, and the global random state stays as it is.

    Close duels do not tell a person from a coin. So while a model of duels that learns
    how often she lapses explains them hardly better than a coin does, every second one
    is of designs that were shown, and its answer is foreseen (`reliability_check`); but
    never where ``best`` or ``beside`` says what to show.

    The goal "understand" asks what each parameter does, by the answer that says most
    about utilities (`DuelingBALD`): of two new points, or of the best design and a
    challenger at a time. More effects are known in the end, and the best design less
    well (`docs/logbook/calibration-further.md`).

    A question of the kind "line" moves one number of the design that `recommend` names
    from edge to edge of the space, the one that `LineEUBO` values most of those that
    the last line left as they were; people turn its knob and stop. Before there are
    three stops, lines run through spread designs. Categories stay along a line, so that
    stops say nothing of them: ask for options in between. Tell a model of a stop by
    `LineChoices`.

    A question of the kind "plane" is a gallery: nine designs, three by three, or 25,
    row by row. Two numbers of the design that `recommend` names move in equal steps,
    those by which the best one is expected to be the best (`DuelingJointEUBO`); that
    design is in the middle, or as near to it as there is room. Before there are three
    answers, options are spread. Tell a model of the best one by `Choices`.

    Args:
        model: Any BoTorch model of one output with training inputs: `default_model`,
            or another that is no batch. None before the first answer.
        bounds: ``2 x d``, the lower and the upper end of each column, which differ.
        size: Number of options, at least 2; a line has its two ends, and a plane 9 or
            25 designs.
        inequality_constraints: Tuples ``(indices, coefficients, rhs)``, each for
            ``sum(coefficients * x[indices]) >= rhs`` of every option; two make an
            equality. They may be about columns of ``discrete_dims``.
        discrete: ``N x d``, the designs that there are, such as those of a catalogue,
            of which the options are different rows.
        discrete_dims: The values that a column may have, by its index from 0, such as
            whole numbers.
        categorical: The columns of each unordered choice, coded as zeros and a one.
        fixed_features: Values of columns, by their indices from 0, that all options
            have; they may be beyond the bounds.
        choices: ``n x d``, points that one may take in the end, for `DuelingJointKG`;
            by default some that are likely to be the best of all designs.
        pending: ``k x size x d``, questions that nobody has answered yet, which are not
            asked again. A duel of two new points is chosen as if they were answered;
            other rules keep away from their options.
        best: ``1 x d``, the best design so far, one of this space; by default the
            `incumbent`, or where that is none of this space, the observed one with the
            largest posterior mean that is, once its columns are those of
            ``fixed_features``; for a line or a plane the recommended one.
        beside: ``k x d``, options that the question has already, fewer than ``size``:
            one of them takes the place of ``best``, the one of the largest posterior
            mean.
        feasibility_model: A model of `Validity`, by whose probabilities that options
            can be judged their values are weighted (`FeasibilityWeighted`).
        seed: Of the Sobol sequence and of all draws: another one begins elsewhere.
        kind: Options side by side, a line, or a plane.
        goal: To find the "best" design, or to "understand" what a person likes; lines
            and planes are asked for the best.

    Returns:
        The options, the name of the acquisition function, and why these were chosen;
        of a line a `LineQuestion`.

    Raises:
        BotorchPrefError: The model is a batch, or an argument that cannot be.
        FeedbackError: No design, or too few of them, satisfies the arguments.
        UnsupportedFeedbackError: The model says nothing of duels, for two or three
            options beside the best.
    """
    check_count("size", size, at_least=2)
    of_options = {"discrete": discrete, "choices": choices, "beside": beside}
    _check_kind_and_goal(kind, goal, **of_options, feasibility_model=feasibility_model)
    observed = _observed(model, bounds)
    designs = discrete, discrete_dims, categorical, fixed_features
    space = space_of(checked_bounds(bounds, observed), inequality_constraints, *designs)
    # A line has two ends.
    size = 2 if kind == "line" else size
    request = _Request(
        kind=kind,
        goal=goal,
        size=size,
        space=space,
        observed=observed,
        num_answers=0 if model is None else _num_answers(model),
        choices=_designs("choices", choices, space),
        best=_designs("best", best, space),
        beside=_designs("beside", beside, space),
        open_questions=checked_pending(pending, size, space.base),
        feasibility_model=feasibility_model,
        seed=seed,
    )
    with manual_seed(request.draw_seed):
        if model is None or request.knows_little:
            return _spread_question(request)
        if kind == "line":
            return _line_question(request, model)
        if kind == "plane":
            return _plane_question(request, model)
        return _check_question(request, model) or _chosen_question(request, model)


@dataclass(frozen=True)
class _Request:
    """A question that somebody wants, as `next_question` takes it, with all checked.

    Attributes:
        observed: ``n x d``, the points that the model has seen.
        num_answers: How many answers the model has.
        choices: ``n x d``, without rows by default.
        best: ``1 x d``, without a row by default.
        beside: ``k x d``, without rows by default.
        open_questions: ``m x size x d``, questions that wait for an answer.
        seed: Seed of the Sobol sequence.
    """

    kind: QuestionKind
    goal: Goal
    size: int
    space: DesignSpace
    observed: Tensor
    num_answers: int
    choices: Tensor
    best: Tensor
    beside: Tensor
    open_questions: Tensor
    feasibility_model: PreferenceGP | None
    seed: int

    @property
    def draw_seed(self) -> int:
        """Seed of all draws: another one for each number of answers and questions."""
        draw = self.seed, len(self.observed), self.num_answers, len(self.open_questions)
        return Random(repr(draw)).getrandbits(31)

    @property
    def num_initial(self) -> int:
        """Number of answers before a model chooses such a question."""
        return INITIAL if self.kind == "options" else INITIAL_LINES

    @property
    def knows_little(self) -> bool:
        """Whether answers are too few, or all about one design, which a line allows."""
        if self.num_answers < self.num_initial:
            return True
        return self.kind != "line" and len(self.observed.unique(dim=0)) < 2

    def __post_init__(self) -> None:
        """Checks the best design, other options, and what lines and planes need."""
        best, space = self.best, self.space
        if len(best) and not (len(best) == 1 and bool(space.allows(best))):
            raise FeedbackError(
                f"best is {best.tolist()}; give one design, 1 x {len(space.base)}, "
                "within bounds and all else that designs have to satisfy, or leave it "
                "out."
            )
        if len(self.beside) >= self.size:
            raise FeedbackError(
                f"beside has {len(self.beside)} options, and size is {self.size}; give "
                "fewer of them, or a larger size."
            )
        if self.kind == "plane":
            side_of(self.size)
        if self.kind == "line" and (space.rows is not None or not len(space.columns)):
            raise FeedbackError(
                "A line needs numbers that vary, and designs between any two; ask for "
                "options."
            )


def _observed(model: Model | None, bounds: Tensor) -> Tensor:
    """Returns the points that a model has seen, ``n x d``; of None ``0 x d``."""
    check_kind("bounds", bounds, Tensor)
    if model is None:
        return bounds.new_zeros(0, bounds.numel() // 2, dtype=torch.double)
    check_unbatched(model)
    return observed_points(model)


def _designs(name: str, X: Tensor | None, space: DesignSpace) -> Tensor:
    """Checks an argument's designs, ``n x d``; of None it makes none, ``0 x d``."""
    none = space.base.new_zeros(0, len(space.base))
    return none if X is None else checked_designs(name, X, space.base)


def _check_kind_and_goal(kind: object, goal: object, **of_options: object) -> None:
    """Checks the kind of a question, its goal, and what lines and planes take.

    Only options side by side take the arguments ``of_options``, which are None by
    default, and have other goals than the best.
    """
    if not isinstance(kind, str) or kind not in get_args(QuestionKind):
        raise FeedbackError(
            f"kind is {kind!r}; ask for 'options', for a 'line', or for a 'plane'."
        )
    goals = get_args(Goal) if kind == "options" else ("best",)
    if not isinstance(goal, str) or goal not in goals:
        raise FeedbackError(
            f"goal is {goal!r} of a question of the kind {kind!r}; give one of "
            f"{', '.join(map(repr, goals))}."
        )
    unused = [name for name, value in of_options.items() if value is not None]
    if kind != "options" and unused:
        raise FeedbackError(
            f"A {kind} takes no {' and no '.join(unused)}; leave that out, or ask for "
            "options."
        )


def _num_answers(model: Model) -> int:
    """Counts answers of a model, of whatever kind; of BoTorch's, of its duels."""
    if isinstance(model, DerivedModel):
        return _num_answers(model._source)
    blocks = getattr(model, "feedback", None)
    if blocks is not None:
        return sum(block.num_rows for block in blocks)
    duels = getattr(model, "comparisons", None)
    # A model that does not tell its answers has enough to choose by.
    return INITIAL if duels is None else len(duels)


def _spread_question(request: _Request) -> Question:
    """Asks a question that is spread over the space, while the model knows little.

    Options are the next ones of a Sobol sequence, or rows of a table: those that were
    asked about least often, in a random order. A line runs through two designs.
    """
    if request.kind == "line":
        return _spread_line(request)
    space, beside = request.space, request.beside
    count = request.size - len(beside)
    asked_about = torch.cat([request.observed, request.open_questions.flatten(0, 1)])
    if space.rows is None:
        before = len(asked_about) + len(beside)
        spread = _drawn(space, before, count, beside, request.seed)
    else:
        rows = space.rows_besides(beside, count)
        times = (rows.unsqueeze(-2) == asked_about).all(-1).sum(-1)
        order = (times + torch.rand(len(rows)).to(times.device)).argsort()
        spread = _first_not_open(rows[order], count, beside, request.open_questions)
    options = "further options" if len(beside) else "options"
    reason = reason_of_spread(
        f"{options} are spread over all designs.",
        request.num_answers,
        request.num_initial,
    )
    return Question(torch.cat([beside, spread]), SPREAD, reason)


def _drawn(
    space: DesignSpace, before: int, count: int, beside: Tensor, seed: int
) -> Tensor:
    """Draws ``count`` designs, ``count x d``, after as many as there were ``before``.

    They differ from each other and from options ``beside``, ``k x d``.
    """
    for times in (1, _FURTHER):
        drawn = space.features(space.draw(before + times * count, seed)[before:])
        is_repeated = space.same(drawn, drawn).tril(-1).any(-1)
        is_repeated |= space.same(drawn, beside).any(-1)
        if len(drawn[~is_repeated]) >= count:
            return drawn[~is_repeated][:count]
    raise FeedbackError(TOO_FEW)


def _first_not_open(
    rows: Tensor, count: int, beside: Tensor, questions: Tensor
) -> Tensor:
    """Takes the first ``count`` rows that make no open question with those beside.

    Rows are ``N x d``, options ``beside`` ``k x d``, and open ``questions`` ``m x (k +
    count) x d``.
    """
    for places in combinations(range(len(rows)), count):
        options = torch.cat([beside, rows[[*places]]])
        is_same = (questions.unsqueeze(-2) == options).all(-1).any(-1).all(-1)
        if not bool(is_same.any()):
            return rows[[*places]]
    raise FeedbackError(ALL_ARE_OPEN)


def best_design(model: Model, space: DesignSpace, seed: int) -> Tensor:
    """Finds the best design so far of a space, ``1 x d``; see `next_question`.

    It is the incumbent, if that is in the space. Else it has the largest posterior mean
    of observed points that are in the space once columns that do not vary are set; or,
    where there are none, of the rows of the table or of 256 drawn designs.

    Args:
        model: Any BoTorch model with training inputs.
        space: The designs that it may be.
        seed: Of the drawn designs.
    """
    best = incumbent(model)
    if bool(space.allows(best)):
        return best
    moved = space.projected(observed_points(model))
    designs = moved[space.allows(moved)]
    if not len(designs):
        rows = space.rows
        designs = space.features(space.draw(_DESIGNS, seed)) if rows is None else rows
    return designs[mean_at(model, designs).argmax()].unsqueeze(0)


def _check_question(request: _Request, model: Model) -> Question | None:
    """Asks a duel whose answer is foreseen, where somebody seeks the best by duels.

    None where no such check of the answers is due, see `reliability_check`.
    """
    is_free = not len(request.best) and not len(request.beside)
    if request.size != 2 or request.goal != "best" or not is_free:
        return None
    waiting = request.open_questions
    number = request.num_answers + len(waiting)
    duel = reliability_check(model, request.space, number, waiting)
    if duel is None:
        return None
    return Question(duel[torch.randperm(2)], CHECK, REASON_OF_CHECK)


def _chosen_question(request: _Request, model: Model) -> Question:
    """Asks the question that the recommended acquisition function chooses.

    The options that are there already are those ``beside``, else the best design, or
    none for a duel of two new points. Further ones up to ``size`` are chosen one at a
    time or jointly. All are shuffled: people favour what comes first.
    """
    size, space, beside = request.size, request.space, request.beside
    if len(beside):
        best = beside[mean_at(model, beside).argmax()].unsqueeze(0)
    elif len(request.best):
        best = request.best
    else:
        best = best_design(model, space, request.draw_seed)
    rule = recommended_acquisition(size, space.num_parameters, request.goal)
    # Either two new points, or challengers of what is there already.
    of_new = size == 2 and rule in (DuelingBALD, DuelingEUBO) and not len(beside)
    centres, options = best, beside if len(beside) else best[: not of_new]
    in_turn = rule in (DuelingBALD, DuelingExploringEIIG) and not of_new
    num_there = len(options)
    at_once = 1 if in_turn else size - num_there
    make: Any = rule
    make = make if of_new else partial(make, X_ref=best)
    if rule is DuelingJointKG:
        near = space.sample_near(best, _DESIGNS, request.draw_seed)
        likely = likely_best(model, near)
        choices = request.choices if len(request.choices) else likely
        make = partial(make, choices=choices)
        centres = torch.cat([best, likely])
    value: AcquisitionFunction = make(model)
    if request.feasibility_model is not None:
        # What cannot be judged leaves the best as it is: a gain of 0, or its utility
        # where values are utilities.
        failure = float(mean_at(model, best)) if of_new else 0.0
        value = FeasibilityWeighted(value, request.feasibility_model, failure)
    # Where the utility is flat, the model tells no options of `DuelingJointKG` apart:
    # their designs have to differ.
    acquisition = _apart(value, space, by_model=rule is not DuelingJointKG)
    pending = _pending_options(of_new, model, best, request.open_questions)
    while len(options) < size:
        # The best is the reference of the others, or there is none.
        challengers = options[(options != best).any(-1)]
        excluded = torch.cat([pending, challengers])
        acquisition.set_X_pending(excluded if len(excluded) else None)
        chosen = best_options(
            acquisition,
            space,
            at_once,
            centres,
            beside=options,
            open_questions=request.open_questions,
            seed=request.draw_seed + len(options),
        )
        if rule is DuelingJointKG and space.designs() is None:
            chosen = without_hopeless(acquisition, chosen, options, likely)
        options = torch.cat([options, chosen])
    order = torch.randperm(size)
    if of_new:
        return Question(options[order], rule.__name__, reason_of_pair(rule))
    reason = reason_of_joined(
        rule,
        num_beside=len(beside),
        is_best_so_far=_is_best_so_far(request, best),
        num_chosen=size - num_there,
        is_joint=not in_turn,
    )
    return Question(options[order], rule.__name__, reason)


def _is_best_so_far(request: _Request, best: Tensor) -> bool:
    """Tells whether ``best``, ``1 x d``, was observed, or is the user's ``best``."""
    return len(request.best) > 0 or bool((request.observed == best).all(-1).any())


def _pending_options(
    of_new: bool, model: Model, best: Tensor, questions: Tensor
) -> Tensor:
    """Returns options of open questions, ``k x size x d``, as pending ones, ``n x d``.

    Of two new points an answer is expected to each question: all options stay, and in
    their order. Other rules keep away from the options, whatever their question.
    """
    pending = questions.flatten(0, 1)
    if of_new:
        return pending
    # What was answered about is known, and is no new option.
    is_best = (pending.unsqueeze(-2) == best).all(-1).any(-1)
    pending = pending[~is_best].unique(dim=0)
    return likely_best(model, pending, _OPEN) if len(pending) > _OPEN else pending


def _spread_line(request: _Request) -> LineQuestion:
    """Asks about a line through the next two designs of a Sobol sequence."""
    space = request.space
    number = request.num_answers + len(request.open_questions)
    start, toward = space.features(space.draw(2 * number + 2, request.seed))[-2:]
    line = line_ends(space, start, toward)
    smallest = SMALLEST_DIFFERENCE * space.widths
    if not can_tell_ends(line, smallest):
        # As where both designs are in the same corner.
        lines = lines_through(space, start.unsqueeze(0), smallest)
        line = lines[number % len(lines)]
    reason = reason_of_spread(
        "lines run through designs that are spread over all.",
        request.num_answers,
        request.num_initial,
    )
    return LineQuestion(line, SPREAD, reason)


def _line_question(request: _Request, model: Model) -> LineQuestion:
    """Asks about the line through the recommended design that promises most.

    It moves one number, another one than the line that waits for an answer or, if none
    waits, the last one did (`best_line`).
    """
    space = request.space
    best = _recommended(request, model)
    lines = lines_through(space, best, SMALLEST_DIFFERENCE * space.widths)
    recent = request.open_questions
    if not len(recent):
        recent = line_of_last_stop(model, best)
    line = lines[best_line(model, lines, best, recent)]
    are_some_turned = bool(are_turned(lines, recent).any())
    reason = reason_of_line(_centre(request), are_some_turned)
    return LineQuestion(line, LineEUBO.__name__, reason)


def _plane_question(request: _Request, model: Model) -> Question:
    """Asks about the plane through the recommended design that promises most.

    Options stay row by row, see `planes_through`, since they are shown as a gallery.
    """
    space, side = request.space, side_of(request.size)
    best = _recommended(request, model)
    smallest = SMALLEST_DIFFERENCE * space.widths
    planes = planes_through(space, best, side, smallest)
    options = best_plane(model, planes, best, request.open_questions, smallest)
    reason = reason_of_plane(_centre(request))
    return Question(options, DuelingJointEUBO.__name__, reason)


def _centre(request: _Request) -> str:
    """Names the design through which lines and planes run, see `_recommended`."""
    return "best design so far" if len(request.best) else "recommended design"


def _recommended(request: _Request, model: Model) -> Tensor:
    """Returns the recommended design, ``1 x d``, through which lines and planes run."""
    if len(request.best):
        return request.best
    # Not `draw_seed`, which changes with open questions: all run through one design.
    with manual_seed(request.seed):
        return recommended_of_space(model, request.space, request.seed)


def _apart(
    acquisition: AcquisitionFunction, space: DesignSpace, by_model: bool = True
) -> DistinctOptions:
    """Keeps an acquisition function from options that nobody could tell apart.

    By the model, if its likelihood knows, or else options differ that are a hundredth
    of the range apart in some column.
    """
    if by_model and knows_duels(acquisition.model):
        return DistinctOptions(acquisition)
    return DistinctOptions(acquisition, SMALLEST_DIFFERENCE * space.widths)
