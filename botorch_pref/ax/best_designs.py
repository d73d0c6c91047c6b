"""The designs that an experiment recommends, its predictions, and their scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from ax.core.arm import Arm
from ax.core.experiment import Experiment
from ax.core.types import TParameterization
from ax.generation_strategy.generator_spec import GeneratorSpec
from ax.utils.common.constants import Keys
from ax.utils.common.random import with_rng_seed
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.acquisition.analytic import PosteriorMean
from botorch.acquisition.input_constructors import acqf_input_constructor
from botorch.exceptions.errors import CandidateGenerationError
from botorch.models.model import Model
from botorch.utils.transforms import t_batch_mode_transform
from pandas import DataFrame
from pandas.api.types import is_integer
from torch import Tensor

from botorch_pref.acquisition.line_search import is_at_stop
from botorch_pref.ax.generation import question_choice
from botorch_pref.ax.generation.adapter import UTILITY, PreferenceAdapter
from botorch_pref.ax.log import Log
from botorch_pref.ax.projection import Projection, answer_counts
from botorch_pref.ax.settings import Settings
from botorch_pref.ax.space.context import (
    NO_CONTEXT,
    Context,
    context_text,
    in_context,
)
from botorch_pref.ax.user_values import quoted
from botorch_pref.errors import ExperimentError
from botorch_pref.evaluation.scores import HeldOutAnswers, answer_scores, table_of
from botorch_pref.models.training_data import FeedbackDataset
from botorch_pref.posteriors.gaussian import mean_of


class UtilityMean(PosteriorMean):
    """BoTorch's posterior mean of a utility, without Ax's weights of objectives.

    Of an average over plausible models it is the mean of their means.
    """

    @t_batch_mode_transform(expected_q=1)  # type: ignore[arg-type]
    def forward(self, X: Tensor) -> Tensor:
        """Finds means of points, ``batch_shape`` of ``batch_shape x 1 x d``."""
        return mean_of(self.model.posterior(X)).squeeze(-1)


@acqf_input_constructor(UtilityMean)
def _construct_inputs(model: Model) -> dict[str, Any]:
    """Gives BoTorch's hook: arguments of the class, without Ax's weights."""
    return {"model": model}


def fitted_adapter(
    projection: Projection,
    acquisition_class: type[AcquisitionFunction] = UtilityMean,
    rater: int | None = None,
    context: Context = NO_CONTEXT,
) -> PreferenceAdapter:
    """Makes Ax's adapter with the model of all answers so far, fitted from scratch.

    Recommendations, predictions and reports ask for it. Its ``gen`` maximises the
    acquisition function, for the rater of this number or for the mean of all, in the
    ``context``. The same log gives the same fit.
    """
    log = projection.log
    seed = question_choice.derived_seed(log.settings, len(log.questions))
    spec = question_choice.model_spec(log.settings, acquisition_class, rater)
    adapter = _fitted(spec, projection.experiment(), seed)
    adapter.context = context
    return adapter


def _fitted(
    spec: GeneratorSpec, experiment: Experiment, seed: int
) -> PreferenceAdapter:
    """Fits a model to an experiment's answers; the global random state stays."""
    with with_rng_seed(seed):
        spec.fit(experiment)
    adapter = spec.fitted_adapter
    assert isinstance(adapter, PreferenceAdapter)
    return adapter


def best_of_experiment(
    experiment: Experiment, settings: Settings
) -> tuple[Arm, float, float]:
    """Finds the arm judged so far whose utility has the largest posterior mean.

    Ax's client, which has the experiment and not its log, calls this.

    Returns:
        The arm, and the posterior mean and variance of its utility.
    """
    seed = question_choice.derived_seed(settings, len(experiment.trials))
    adapter = _fitted(
        question_choice.model_spec(settings, UtilityMean), experiment, seed
    )
    means, variances = _moments(adapter.judged_posterior)
    best = int(means.argmax())
    return adapter.arms[best], float(means[best]), float(variances[best])


def best_shown(adapter: PreferenceAdapter) -> TParameterization:
    """Finds the option shown so far with the largest posterior mean.

    Options of other contexts count as they would be in the adapter's own, unless
    constraints forbid them there.

    Raises:
        ExperimentError: Constraints forbid all options there.
    """
    arms, means = adapter.arms, mean_of(adapter.judged_posterior)
    allowed = allowed_here(adapter, arms)
    if not allowed.any():
        raise ExperimentError(
            "No option shown so far satisfies the constraints where "
            f"{context_text(adapter.context)}; ask there first, or have the best of "
            "all designs recommended, with anywhere=True."
        )
    return dict(arms[int(means.where(allowed, -torch.inf).argmax())].parameters)


def allowed_here(adapter: PreferenceAdapter, arms: Sequence[Arm]) -> Tensor:
    """Tells of which arms constraints allow the designs in the adapter's context."""
    space, is_here = adapter._experiment.search_space, not adapter.context
    return torch.tensor([is_here or space.check_membership(a.parameters) for a in arms])


def predictions(
    adapter: PreferenceAdapter, designs: list[TParameterization]
) -> DataFrame:
    """Predicts the mean and standard deviation of the utility of each design."""
    with torch.no_grad():
        posterior = adapter.utility.posterior(adapter.points_of(designs))
    mean, variance = _moments(posterior)
    return table_of({"mean": mean, "deviation": variance.sqrt()})


def _moments(posterior: Any) -> tuple[Tensor, Tensor]:
    """Computes mean and variance of a posterior of ``n`` utilities, ``n`` each.

    An ensemble and a fully Bayesian model predict a mixture, and these are its mean and
    variance.
    """
    variance: Tensor = getattr(posterior, "mixture_variance", posterior.variance)
    return mean_of(posterior), variance.squeeze(-1)


def best_anywhere(log: Log, adapter: PreferenceAdapter) -> TParameterization:
    """Finds the design of the search space that is recommended, in the context.

    It is the one with the largest posterior mean of the utility. Rounding can make it
    worse, or leave the constraints: then it is the best shown. Where it is too near to
    the last stop on a line for a hand on a knob to tell them apart, it is that stop.
    """
    options: Any = {
        Keys.OPTIMIZER_KWARGS.value: log.settings.optimizer_options,
        Keys.AX_ACQUISITION_KWARGS.value: {UTILITY: adapter.utility},
    }
    candidates: list[TParameterization] = []
    with suppress(ExperimentError):
        candidates.append(best_shown(adapter))
    # Ax rounds categories by NumPy's global generator, also where it only predicts.
    with with_rng_seed(question_choice.derived_seed(log.settings, len(log.questions))):
        with suppress(CandidateGenerationError):
            run = adapter.gen(1, model_gen_options=options)
            candidates += [dict(arm.parameters) for arm in run.arms]
        feasible = [c for c in candidates if log.space.check_membership(c)]
        feasible = feasible or [best_shown(adapter)]
        with torch.no_grad():
            points = adapter.points_of(feasible)
            means = mean_of(adapter.utility.posterior(points))
    best = feasible[int(means.argmax())]
    # One-hot columns stand last, so that Ax's candidates are in another order.
    return _stop_near(log, adapter, best) or {n: best[n] for n in log.space.parameters}


def _stop_near(
    log: Log, adapter: PreferenceAdapter, best: TParameterization
) -> TParameterization | None:
    """Finds the last stop on a line, if no hand on the knob can tell ``best`` from it.

    `best_anywhere` recommends it then; None where the stop is farther away. Answers
    that nothing on a line is best, or any good, name no stop and are passed over. Of
    one rater's utility it is that rater's stop; of the mean of several raters there is
    none.
    """
    raters = getattr(adapter.botorch_model, "raters", None)
    # Those whose mean the model's utility is; None where answers are pooled.
    numbers = None if raters is None else {*raters.flatten().tolist()}
    latest_first = (
        log.questions[answer.question]
        for answer in log.answers()
        if numbers is None or numbers == {log.raters[str(answer.rater)]}
    )
    line = next((q for q in latest_first if q.is_line and not q.has_no_stop), None)
    if line is None or line.stop is None:
        return None
    designs = best, *(option.parameters for option in (line.stop, *line.options))
    point, stop, *ends = adapter.points_of(designs)
    if not is_at_stop(point, stop, torch.stack(ends)):
        return None
    # A stop so near may be in another context, and is moved to the adapter's.
    design = in_context(log.space, line.stop.parameters, adapter.context)
    return design if log.space.check_membership(design) else None


Array = Any
"""An array of NumPy's."""

_MOST_DEALT = 10_000_000


def cross_validation(adapter: PreferenceAdapter, num_folds: int) -> DataFrame:
    r"""Scores each answer under a model that was fitted without it.

    Folds are of whole answers, dealt out as Ax does (from NumPy's global generator);
    an answer that was given several times can be in several folds. For the answers
    :math:`y_1 \dots y_m` of a kind, and the answers :math:`D_{-i}` outside the fold of
    :math:`y_i`, from which hyper-parameters are learned anew, the log-loss is

    .. math:: -\frac{1}{m} \sum_{i=1}^m \log p(y_i \mid D_{-i}),

    in nats, of densities for strengths and ratings. Guessing costs 0.693 a duel, 1.099
    where ties are possible. The table is that of :func:`.answer_scores`.
    """
    data = adapter.get_training_data()
    # A question that nothing was said of has no data to be held out.
    answered = set(data.observation_data.index.get_level_values("trial_index"))
    counts = answer_counts(adapter._experiment)
    answers = [(index, rater) for index in sorted(answered) for rater in counts[index]]
    times = [counts[index][rater] for index, rater in answers]
    total = sum(times)
    if total < 2:
        raise ExperimentError(
            "Some answers are predicted from the others: give two or more, where there "
            f"is {total}."
        )
    if not is_integer(num_folds) or num_folds not in range(2, total + 1):
        raise ExperimentError(
            f"num_folds is {quoted(num_folds)}; there are {total} answers, give a "
            "number from 2 to that."
        )
    if total > _MOST_DEALT:
        raise ExperimentError(
            f"There are {total} answers, and {_MOST_DEALT} at most are dealt out to "
            "folds; score some of them in an experiment of their own."
        )
    # Each time that an answer was given is dealt out by itself.
    every = np.repeat(np.arange(len(answers)), times)

    def dataset(places: Array) -> FeedbackDataset:
        """Makes the data set of answers, each as often as ``places`` has its place."""
        part: dict[int, dict[int | None, int]] = {}
        for place, count in zip(*np.unique(places, return_counts=True), strict=True):
            index, rater = answers[place]
            part.setdefault(index, {})[rater] = int(count)
        return adapter.dataset_of(data.filter_by_trial_index(set(part)), part)

    def parts() -> Iterator[HeldOutAnswers]:
        for train, test in _folds(num_folds, total):
            model: Any = adapter.model_of(dataset(every[train]))
            held_out = dataset(every[test])
            yield HeldOutAnswers(model, held_out.feedback, held_out.points)

    return answer_scores(parts())


def _folds(num_folds: int, number: int) -> Iterator[tuple[Array, Array]]:
    """Yields the places of answers to learn from, and of those held out, by folds.

    The folds are those that Ax makes of as many questions, and NumPy's global
    generator deals them out, which the caller seeds.
    """
    places, size = np.arange(number), number // num_folds
    if num_folds != number:
        # Ax's generator, so that folds are Ax's.
        np.random.shuffle(places)  # noqa: NPY002
    for fold in range(num_folds):
        places = np.roll(places, size)
        held_out = size if fold < num_folds - 1 else number - fold * size
        yield places[:-held_out], places[-held_out:]
