"""The model that the library recommends for what people said, and what it asks next."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any, Literal, NamedTuple, get_args

import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.fit import fit_gpytorch_mll
from botorch.models.model import Model
from botorch.models.transforms.input import Normalize
from botorch.utils.sampling import manual_seed
from gpytorch.priors import GammaPrior
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
from botorch_pref.acquisition.knowledge_gradient import without_hopeless
from botorch_pref.acquisition.line_search import LineEUBO, line_ends, moved_last
from botorch_pref.acquisition.option_search import best_options
from botorch_pref.acquisition.plane_search import best_plane, planes_through, side_of
from botorch_pref.acquisition.recommendation import recommended_of_space
from botorch_pref.acquisition.rules import SMALLEST_DIFFERENCE, DuelingJointEUBO
from botorch_pref.acquisition.space_arguments import (
    checked_bounds,
    checked_designs,
    checked_pending,
    space_of,
)
from botorch_pref.errors import FeedbackError
from botorch_pref.feedback import (
    Choices,
    Comparisons,
    Feedback,
    Rankings,
    Ratings,
    Strengths,
)
from botorch_pref.likelihoods import (
    BetaRatingLikelihood,
    LapsingProbitLikelihood,
    PairwiseBetaLikelihood,
)
from botorch_pref.likelihoods.protocol import PreferenceLikelihood
from botorch_pref.models import (
    DuelKernel,
    EPPreferenceGP,
    GroupUtility,
    PreferenceGP,
    PreferenceMarginalLogLikelihood,
    rater_covar_module,
)
from botorch_pref.models.answer_likelihoods import check_unbatched, knows_duels
from botorch_pref.models.utility_model import DerivedModel
from botorch_pref.numerics.argument_checks import (
    check_count,
    check_kind,
    check_points,
    checked_arguments,
)
from botorch_pref.posteriors.gaussian import mean_at

__all__ = ["LineQuestion", "Question", "default_model", "next_question"]

Goal = Literal["best", "understand"]
"""What questions are asked for: the best design, or what a person's utility is like."""

QuestionKind = Literal["options", "line", "plane"]
"""Options that may be anywhere, or designs on a line or a plane."""

INITIAL, INITIAL_LINES = 5, 3
"""Answers before a model chooses: fewer say too little of its lengthscales. A stop on a
line, or the best of a plane, says what several duels do."""

FEW_PARAMETERS = 6
"""Up to so many, two new points find more than the incumbent and a challenger; with
twenty they find less (`docs/logbook/claims.md`)."""

SPREAD = "Sobol"
"""What chooses the options of a question that no model chooses."""

_DESIGNS, _OPEN = 256, 24
"""Designs that one may choose in the end are of so many; options of open questions that
a joint choice allows for, at most: those that may be the best."""


def likelihoods_of_people(
    feedback: Sequence[Feedback],
    model_class: type[PreferenceGP] = EPPreferenceGP,
    chosen: Collection[type[Feedback]] = (),
) -> dict[type[Feedback], PreferenceLikelihood[Any]]:
    """Chooses likelihoods of a person's answers that models do not take by themselves.

    Duels alone teach how precise a person is, and she may lapse; choices and rankings
    share one fixed noise with duels, which models have by default. Who rates, or says
    how much better, does not repeat herself: the precision of her scale has the prior
    Gamma(2, 0.05), most probably 20, an error of a ninth of the scale in its middle.

    Args:
        feedback: All answers, at most one container of a kind.
        model_class: The model. Others than EP have their own likelihoods.
        chosen: Kinds of which the user chose likelihoods: then models have their own of
            the others.
    """
    blocks = {type(block): block for block in feedback}
    likelihoods: dict[type[Feedback], PreferenceLikelihood[Any]] = {}
    if not blocks.keys() & {Comparisons, Choices, Rankings}:
        # The questions to come are duels.
        duels = model_class.default_likelihoods[Comparisons].default_for(None)
        likelihoods[Comparisons] = duels
    if chosen or model_class is not EPPreferenceGP:
        return likelihoods
    if Comparisons in blocks and not blocks.keys() & {Choices, Rankings}:
        duels = LapsingProbitLikelihood.default_for(blocks[Comparisons], blocks)
        likelihoods[Comparisons] = duels
    precision = GammaPrior(2.0, 0.05)
    if Ratings in blocks:
        likelihoods[Ratings] = BetaRatingLikelihood(precision_prior=precision)
    if Strengths in blocks:
        likelihoods[Strengths] = PairwiseBetaLikelihood(precision_prior=precision)
    return likelihoods


def default_model(
    X: Tensor,
    feedback: Tensor | Feedback | Sequence[Feedback],
    *,
    bounds: Tensor | None = None,
    categorical: Sequence[Sequence[int]] | None = None,
    raters: Tensor | None = None,
) -> EPPreferenceGP | GroupUtility:
    """Fits the model that the library recommends for a person's answers.

    Expectation propagation under a `DuelKernel`, which expects a sum of functions of
    few inputs. Of duels alone it learns how precise the person is, and allows for
    lapses (`LapsingProbitLikelihood`). Questions take it as it is; findings average
    over all hyper-parameters that explain the answers (`plausible_models`), because the
    most probable ones are surer than the answers are.

    Args:
        X: ``n x d`` designs that were shown, in the units of the user.
        feedback: What was said of them: pairs ``m x 2`` of rows of ``X``, the winner
            first; a container such as `Rankings`; or several, at most one of a kind.
        bounds: ``2 x d``, the lower and the upper end of each column; the unit cube by
            default. Columns of choices are from 0 to 1.
        categorical: The columns of each unordered choice, coded as zeros and a one.
        raters: ``n`` numbers, the rater who saw each row of ``X``: a design that two
            raters saw is two rows. What all raters share and what is each rater's is
            learned, and the model is the mean utility of all (`GroupUtility`).

    Returns:
        The fitted model, in evaluation mode.

    Raises:
        FeedbackError: Points, answers, bounds or raters that cannot be.
        UnsupportedFeedbackError: A kind of answers that expectation propagation does
            not take.
    """
    X = check_points("X", X)
    dim = X.shape[-1]
    if isinstance(feedback, Tensor):
        feedback = Comparisons(feedback)
    check_kind("feedback", feedback, Feedback, Sequence)
    blocks = [feedback] if isinstance(feedback, Feedback) else [*feedback]
    for block in blocks:
        check_kind("feedback", block, Feedback)
    bounds = None if bounds is None else _checked(bounds, X)
    choices = () if categorical is None else categorical
    kernel: Any = DuelKernel(dim, categorical=choices)
    for choice in choices:
        _check_coded(X, bounds, [*choice])
    transform = None
    if bounds is not None:
        columns = [*range(dim)]
        transform = Normalize(len(columns), indices=columns, bounds=bounds)
    points = X
    if raters is not None:
        points = torch.cat([X, _rater_column(raters, X)], dim=-1)
        kernel = rater_covar_module(dim, stimulus=kernel)
    model = EPPreferenceGP(
        points,
        feedback=blocks,
        likelihood=likelihoods_of_people(blocks),
        covar_module=kernel.to(X),
        input_transform=transform,
    )
    fit_gpytorch_mll(PreferenceMarginalLogLikelihood(model.likelihood, model))
    if raters is None:
        return model.eval()
    return GroupUtility(model.eval(), points[:, -1].unique())


def _checked(bounds: Tensor, X: Tensor) -> Tensor:
    is_right = isinstance(bounds, Tensor) and bounds.shape == (2, X.shape[-1])
    if not is_right or not bool((bounds.isfinite() & (bounds[0] < bounds[1])).all()):
        value = bounds.tolist() if isinstance(bounds, Tensor) else bounds
        raise FeedbackError(
            f"bounds is {value!r}; give a tensor, 2 x {X.shape[-1]}, the finite lower "
            "ends of the columns of X and then the upper ends, which are larger."
        )
    return bounds.to(X)


def _check_coded(X: Tensor, bounds: Tensor | None, columns: list[int]) -> None:
    """Checks that a choice is coded as zeros and a one, which its bounds leave so."""
    values = X[:, columns]
    is_coded = ((values == 0) | (values == 1)).all(-1) & (values.sum(-1) == 1)
    if not bool(is_coded.all()):
        row = int(is_coded.logical_not().nonzero()[0, 0])
        raise FeedbackError(
            f"X[{row}] has {values[row].tolist()} in the columns {columns} of a "
            "choice; give a one for its option and zeros."
        )
    if bounds is not None and bounds[:, columns].unique(dim=-1).T.tolist() != [[0, 1]]:
        raise FeedbackError(
            f"bounds of the columns {columns} of a choice are "
            f"{bounds[:, columns].tolist()}; give 0 and 1 for each."
        )


def _rater_column(raters: Tensor, X: Tensor) -> Tensor:
    check_kind("raters", raters, Tensor)
    if raters.shape != X.shape[:-1]:
        raise FeedbackError(
            f"raters has shape {tuple(raters.shape)}; give the number of the rater who "
            f"saw each of the {len(X)} rows of X."
        )
    return raters.to(X).unsqueeze(-1)


def recommended_acquisition(
    size: int, num_parameters: int, goal: Goal = "best"
) -> type[AcquisitionFunction]:
    """The acquisition function of questions of ``size`` options that is recommended.

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
        acquisition: The name of the acquisition function that chose them, or `Sobol`.
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
        """The designs at positions, ``... x d`` of ``...``.

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


_REASONS: dict[type[AcquisitionFunction], str] = {
    DuelingBALD: (
        "Answers about these options are expected to say more of the utility of all "
        "designs than answers about others."
    ),
    DuelingEUBO: (
        "Both options are new: the better one of them is expected to be better than "
        "that of any other pair."
    ),
    DuelingExploringEIIG: (
        "One option is the best design so far. Its challengers are those whose answers "
        "teach most, or now and then those that may be far better."
    ),
    LineEUBO: (
        "The line runs through the recommended design and moves one number, if there "
        "are several another than the last line moved: that by which the best design "
        "of its line is expected to be the best."
    ),
    DuelingJointEUBO: (
        "The options move two numbers of the recommended design, those by which the "
        "best of them is expected to be the best."
    ),
    DuelingJointKG: (
        "One option is the best design so far. The others were chosen together, so "
        "that the design to take after the answer is expected to be as good as can be."
    ),
}


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
    """The next question to ask, by the rule that the library recommends.

    Four options or more are the best design so far and challengers chosen jointly by
    `DuelingJointKG`, where designs are no list without those that would be named in
    less than 1 % of answers; three the best design and two challengers by
    `DuelingExploringEIIG`; two are new points by `DuelingEUBO`, or of more than six
    parameters the best design and a challenger. Without a model, and until it has five
    answers, options are spread by a Sobol sequence. Everything random follows from the
    seed and the numbers of points and answers, so that the same model asks the same
    question, and the global random state stays as it is.

    The goal "understand" asks what each parameter does, by the answer that says most
    about utilities (`DuelingBALD`): of two new points, or of the best design and a
    challenger at a time. More effects are known in the end, and the best design less
    well (`docs/logbook/calibration.md`).

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
            asked again. Of two new points an answer is expected to each; other rules
            keep away from their options.
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
    _check_asked(
        kind,
        goal,
        discrete=discrete,
        choices=choices,
        beside=beside,
        feasibility_model=feasibility_model,
    )
    observed = _observed(model, bounds)
    space = space_of(
        checked_bounds(bounds, observed),
        inequality_constraints,
        discrete,
        discrete_dims,
        categorical,
        fixed_features,
    )
    choices, best, beside = (
        None if point is None else checked_designs(name, point, space.base)
        for name, point in (("choices", choices), ("best", best), ("beside", beside))
    )
    there = observed[:0].to(space.base) if beside is None else beside
    _check_points(space, size, best, there)
    # A line has two ends.
    size = 2 if kind == "line" else size
    if kind == "plane":
        side_of(size)
    waiting = checked_pending(pending, size, space.base)
    answers = 0 if model is None else _num_answers(model)
    draw = (seed, len(observed), answers, len(waiting))
    of_draw = Random(repr(draw)).getrandbits(31)
    with manual_seed(of_draw):
        if kind == "line":
            return _line_question(model, space, answers, best, waiting, seed)
        initial = INITIAL if kind == "options" else INITIAL_LINES
        if model is None or answers < initial or len(observed.unique(dim=0)) < 2:
            seen = torch.cat([observed, waiting.flatten(0, 1)])
            too_little = _too_little(answers, initial)
            return _spread_question(space, size, there, seen, too_little, seed)
        if kind == "plane":
            return _plane_question(model, space, size, best, waiting, seed)
        if len(there):
            best = there[mean_at(model, there).argmax()].unsqueeze(0)
        elif best is None:
            best = best_design(model, space, of_draw)
        return _chosen_question(
            *(model, space, size, best, there, choices, waiting),
            feasibility_model,
            of_draw,
            goal,
        )


def _observed(model: Model | None, bounds: Tensor) -> Tensor:
    """The points that a model has seen, ``n x d``; none of None."""
    check_kind("bounds", bounds, Tensor)
    if model is None:
        return bounds.new_zeros(0, bounds.numel() // 2, dtype=torch.double)
    check_unbatched(model)
    return observed_points(model)


def _check_points(
    space: DesignSpace, size: int, best: Tensor | None, beside: Tensor
) -> None:
    """Checks that the best design is one of the space, and that options are left."""
    if best is not None and not (len(best) == 1 and bool(space.allows(best))):
        raise FeedbackError(
            f"best is {best.tolist()}; give one design, 1 x {len(space.base)}, within "
            "bounds and all else that designs have to satisfy, or leave it out."
        )
    if len(beside) >= size:
        raise FeedbackError(
            f"beside has {len(beside)} options, and size is {size}; give fewer of "
            "them, or a larger size."
        )


def _check_asked(kind: object, goal: object, **of_options: object) -> None:
    """Checks the kind of a question, its goal, and what lines and planes take."""
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
    """Number of answers of a model, of whatever kind; of BoTorch's, of its duels."""
    if isinstance(model, DerivedModel):
        return _num_answers(model._source)
    blocks = getattr(model, "feedback", None)
    if blocks is not None:
        return sum(block.num_rows for block in blocks)
    duels = getattr(model, "comparisons", None)
    return INITIAL if duels is None else len(duels)


def _too_little(answers: int, initial: int) -> str:
    """Says what a model lacks to choose, as the start of a sentence."""
    if answers >= initial:
        return "All answers are about one design; before there are two,"
    number = "is 1 answer" if answers == 1 else f"are {answers} answers"
    return f"There {number}; before there are {initial},"


def _spread_question(
    space: DesignSpace,
    size: int,
    beside: Tensor,
    seen: Tensor,
    too_little: str,
    seed: int,
) -> Question:
    """Options from where a Sobol sequence is, or at random of those rows not shown."""
    count = size - len(beside)
    if space.rows is None:
        before = len(seen) + len(beside)
        spread = space.features(space.draw(before + count, seed)[before:])
    else:
        rows = space.rows_besides(beside, count)
        shown = (rows.unsqueeze(-2) == seen).all(-1).sum(-1)
        spread = rows[
            (shown + torch.rand(len(rows)).to(shown.device)).argsort()[:count]
        ]
    reason = f"{too_little} options are spread over all designs."
    return Question(torch.cat([beside, spread]), SPREAD, reason)


def best_design(model: Model, space: DesignSpace, seed: int) -> Tensor:
    """The best design so far of a space, ``1 x d``; see `next_question`.

    Args:
        model: Any BoTorch model with training inputs.
        space: The designs that it may be.
        seed: Of the designs that are tried where no observed one can be moved there.
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


def _chosen_question(
    model: Model,
    space: DesignSpace,
    size: int,
    best: Tensor,
    beside: Tensor,
    choices: Tensor | None,
    waiting: Tensor,
    feasibility_model: PreferenceGP | None,
    seed: int,
    goal: Goal,
) -> Question:
    """The question that the recommended acquisition function chooses."""
    rule = recommended_acquisition(size, space.num_parameters, goal)
    of_new = size == 2 and rule in (DuelingBALD, DuelingEUBO) and not len(beside)
    centres, options = best, beside if len(beside) else best[: not of_new]
    in_turn = rule in (DuelingBALD, DuelingExploringEIIG) and not of_new
    at_once = 1 if in_turn else size - len(options)
    make: Any = rule
    make = make if of_new else partial(make, X_ref=best)
    if rule is DuelingJointKG:
        likely = likely_best(model, space.sample_near(best, _DESIGNS, seed))
        make = partial(make, choices=likely if choices is None else choices)
        centres = torch.cat([best, likely])
    value: AcquisitionFunction = make(model)
    if feasibility_model is not None:
        # What cannot be judged leaves the best as it is.
        failure = float(mean_at(model, best)) if of_new else 0.0
        value = FeasibilityWeighted(value, feasibility_model, failure)
    # Answers say little where all is flat, and joint options there would be the same.
    acquisition = _apart(value, space, by_model=rule is not DuelingJointKG)
    pending = _pending_options(rule, model, best, waiting)
    while len(options) < size:
        # The best is the reference of the others, or there is none.
        others = options[(options != best).any(-1)]
        same = torch.cat([pending, others])
        acquisition.set_X_pending(same if len(same) else None)
        found = best_options(
            acquisition,
            space,
            at_once,
            centres,
            beside=options,
            open_questions=waiting,
            seed=seed + len(options),
        )
        if rule is DuelingJointKG and space.designs() is None:
            found = without_hopeless(acquisition, found, options, likely)
        options = torch.cat([options, found])
    order = torch.randperm(size)
    return Question(options[order], rule.__name__, _REASONS[rule])


def _pending_options(
    rule: type[AcquisitionFunction], model: Model, best: Tensor, waiting: Tensor
) -> Tensor:
    """Options of open questions that a rule allows for, ``n x d``."""
    pending = waiting.flatten(0, 1)
    if rule is DuelingEUBO:
        return pending
    # What was answered about is known, and is no new option.
    known = (pending.unsqueeze(-2) == best).all(-1).any(-1)
    pending = pending[~known].unique(dim=0)
    return likely_best(model, pending, _OPEN) if len(pending) > _OPEN else pending


def _line_question(
    model: Model | None,
    space: DesignSpace,
    answers: int,
    best: Tensor | None,
    waiting: Tensor,
    seed: int,
) -> LineQuestion:
    """A line through the recommended design; before three stops, spread ones."""
    if space.rows is not None or not len(space.columns):
        raise FeedbackError(
            "A line needs numbers that vary, and designs between any two; ask for "
            "options."
        )
    if model is None or answers < INITIAL_LINES:
        number = answers + len(waiting)
        start, toward = space.features(space.draw(2 * number + 2, seed))[-2:]
        spread = "lines run through designs that are spread over all."
        reason = f"{_too_little(answers, INITIAL_LINES)} {spread}"
        return LineQuestion(line_ends(space, start, toward), SPREAD, reason)
    if best is None:
        best = _recommended(model, space, seed)
    # Along each number in turn, to its farther end.
    k = len(space.columns)
    here = space.coordinates(best).repeat(k, 1)
    there = here.clone()
    there[:, :k].diagonal().copy_((here[0, :k] < 0.5).to(here))
    toward = space.features(there)
    lines = line_ends(space, best.expand_as(toward), toward)
    with torch.no_grad():
        values = LineEUBO(model, best)(lines)
    is_turned = moved_last(model, lines, waiting)
    values = torch.where(is_turned & ~is_turned.all(), -torch.inf, values)
    return LineQuestion(lines[values.argmax()], LineEUBO.__name__, _REASONS[LineEUBO])


def _plane_question(
    model: Model,
    space: DesignSpace,
    size: int,
    best: Tensor | None,
    waiting: Tensor,
    seed: int,
) -> Question:
    """The plane through the recommended design whose best one promises most."""
    if best is None:
        best = _recommended(model, space, seed)
    smallest = SMALLEST_DIFFERENCE * space.widths
    planes = planes_through(space, best, side_of(size), smallest)
    options = best_plane(model, planes, best, waiting, smallest)
    return Question(options, DuelingJointEUBO.__name__, _REASONS[DuelingJointEUBO])


def _recommended(model: Model, space: DesignSpace, seed: int) -> Tensor:
    """The recommended design, the same whatever waits: what waits runs through it."""
    with manual_seed(seed):
        return recommended_of_space(model, space, seed)


def _apart(
    acquisition: AcquisitionFunction, space: DesignSpace, by_model: bool = True
) -> DistinctOptions:
    """The same, kept from options that nobody could tell apart.

    By the model, if its likelihood knows, or else by a hundredth of some range.
    """
    if by_model and knows_duels(acquisition.model):
        return DistinctOptions(acquisition)
    return DistinctOptions(acquisition, SMALLEST_DIFFERENCE * space.widths)
