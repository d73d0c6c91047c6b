"""The next question to ask, by the rule that the library recommends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple, get_args

import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.models.model import Model
from botorch.utils.sampling import manual_seed
from torch import Tensor

from botorch_pref.acquisition import (
    DuelingBALD,
    DuelingEUBO,
    DuelingExploringEIIG,
    DuelingJointKG,
)
from botorch_pref.acquisition.design_space import Constraint, DesignSpace
from botorch_pref.acquisition.duels import observed_points
from botorch_pref.acquisition.exploring_rule import SMALLEST_DIFFERENCE
from botorch_pref.acquisition.line_search import (
    LineEUBO,
    are_turned,
    best_line,
    can_tell_ends,
    line_ends,
    line_of_last_stop,
    lines_through,
)
from botorch_pref.acquisition.option_search import ALL_ARE_OPEN, TOO_FEW
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
from botorch_pref.asking.chosen_options import (
    best_there,
    is_best_so_far,
    new_pair,
    present_options,
    with_challengers,
    with_joint_challengers,
)
from botorch_pref.asking.reasons import (
    REASON_OF_CHECK,
    reason_of_joined,
    reason_of_line,
    reason_of_pair,
    reason_of_plane,
    reason_of_spread,
)
from botorch_pref.asking.request import INITIAL, Goal, QuestionKind, Request
from botorch_pref.errors import FeedbackError
from botorch_pref.models import PreferenceGP
from botorch_pref.models.answer_likelihoods import check_unbatched
from botorch_pref.models.derived_model import DerivedModel
from botorch_pref.numerics.argument_checks import (
    check_count,
    check_kind,
    checked_arguments,
)

__all__ = ["LineQuestion", "Question", "next_question"]

FEW_PARAMETERS = 6
"""Most parameters with which two new points find more than the incumbent and a
challenger; with twenty they find less (`docs/logbook/claims.md`)."""

SPREAD, CHECK = "Sobol", "Check"
"""Choosers in place of an acquisition function: of options that are spread, and of
duels that show whether answers can be relied on."""

_FURTHER = 32
"""Designs that are drawn for each option where constraints make some the same."""


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

    A question of three options or more also shows an option that won all its answers,
    and that the model yet holds for worse than the best: it is beaten, or the model
    learns (`unbeaten_rival`); but not where ``best`` or ``beside`` says what to show.

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
        of a line a `LineQuestion`. Options have the type of the model's points, or
        without a model that of ``discrete`` or of ``bounds``; double for whole numbers.

    Raises:
        BotorchPrefError: The model is a batch, or an argument that cannot be.
        FeedbackError: No design, or too few of them, satisfies the arguments.
        UnsupportedFeedbackError: The model says nothing of duels, for two or three
            options beside the best.
    """
    check_count("size", size, at_least=2)
    of_options = {"discrete": discrete, "choices": choices, "beside": beside}
    _check_kind_and_goal(kind, goal, **of_options, feasibility_model=feasibility_model)
    observed = _observed(model, bounds, discrete)
    designs = discrete, discrete_dims, categorical, fixed_features
    space = space_of(checked_bounds(bounds, observed), inequality_constraints, *designs)
    # A line has two ends.
    size = 2 if kind == "line" else size
    request = Request(
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


def _observed(model: Model | None, bounds: Tensor, discrete: Tensor | None) -> Tensor:
    """Returns the points that a model has seen, ``n x d``; of None ``0 x d``.

    Options get their type, which is that of the designs or bounds where there are none.
    """
    check_kind("bounds", bounds, Tensor)
    if model is None:
        of_space = discrete if isinstance(discrete, Tensor) else bounds
        # Whole numbers are ends too, and options between them have decimals.
        dtype = of_space.dtype if of_space.is_floating_point() else torch.double
        return bounds.new_zeros(0, bounds.numel() // 2, dtype=dtype)
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


def _spread_question(request: Request) -> Question:
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


def _check_question(request: Request, model: Model) -> Question | None:
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


def _chosen_question(request: Request, model: Model) -> Question:
    """Asks the question that the recommended acquisition function chooses.

    Its options are two new points, or those that are there already with challengers.
    All are shuffled: people favour what comes first.
    """
    size, num_beside = request.size, len(request.beside)
    best = best_there(request, model)
    rule = recommended_acquisition(size, request.space.num_parameters, request.goal)
    if size == 2 and rule in (DuelingBALD, DuelingEUBO) and not num_beside:
        options, reason = new_pair(request, model, rule, best), reason_of_pair(rule)
    else:
        is_joint = rule is DuelingJointKG
        present = present_options(request, model, best)
        options = (
            with_joint_challengers(request, model, best, present)
            if is_joint
            else with_challengers(request, model, rule, best, present)
        )
        reason = reason_of_joined(
            rule,
            num_beside=num_beside,
            is_best_so_far=is_best_so_far(request, best),
            has_rival=len(present) > max(num_beside, 1),
            num_chosen=size - len(present),
            is_joint=is_joint,
        )
    return Question(options[torch.randperm(size)], rule.__name__, reason)


def _spread_line(request: Request) -> LineQuestion:
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


def _line_question(request: Request, model: Model) -> LineQuestion:
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


def _plane_question(request: Request, model: Model) -> Question:
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


def _centre(request: Request) -> str:
    """Names the design through which lines and planes run, see `_recommended`."""
    return "best design so far" if len(request.best) else "recommended design"


def _recommended(request: Request, model: Model) -> Tensor:
    """Returns the recommended design, ``1 x d``, through which lines and planes run."""
    if len(request.best):
        return request.best
    # Not `draw_seed`, which changes with open questions: all run through one design.
    with manual_seed(request.seed):
        return recommended_of_space(model, request.space, request.seed)
