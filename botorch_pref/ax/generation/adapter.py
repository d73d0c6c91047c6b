"""Ax's adapter between experiments and preference models, and its acquisition."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from inspect import signature
from typing import Any

import torch
from ax.adapter.base import clamp_observation_features
from ax.adapter.data_utils import ExperimentData
from ax.adapter.torch import TorchAdapter
from ax.core.arm import Arm
from ax.core.base_trial import BaseTrial
from ax.core.generator_run import ArmWeight, GeneratorRun
from ax.core.observation import ObservationFeatures
from ax.core.optimization_config import OptimizationConfig
from ax.core.search_space import SearchSpace, SearchSpaceDigest
from ax.core.types import TCandidateMetadata, TParameterization
from ax.generators.torch.botorch_modular.acquisition import Acquisition
from ax.generators.torch.botorch_modular.generator import BoTorchGenerator
from ax.generators.types import TConfig
from ax.utils.common.constants import Keys
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.acquisition.analytic import AnalyticAcquisitionFunction
from botorch.exceptions.errors import CandidateGenerationError
from botorch.models.model import Model
from botorch.posteriors.posterior import Posterior
from botorch.utils.datasets import SupervisedDataset
from torch import Tensor

from botorch_pref.acquisition import incumbent, likely_best
from botorch_pref.acquisition.design_space import DesignSpace
from botorch_pref.acquisition.duels import DuelingAcquisition
from botorch_pref.acquisition.option_search import Climb
from botorch_pref.acquisition.registration import reference_rule, utility_model
from botorch_pref.acquisition.reliability_check import reliability_check
from botorch_pref.acquisition.unbeaten_rival import unbeaten_rival
from botorch_pref.asking.chosen_options import best_design
from botorch_pref.ax.answer_kinds import OBJECTIVE, TIE
from botorch_pref.ax.generation.search import (
    Distinctness,
    QuestionSearch,
    design_space,
    is_joint,
)
from botorch_pref.ax.projection import (
    Counts,
    SignedArm,
    answer_counts,
    arms_and_raters,
    feedback_dataset,
    num_answers,
)
from botorch_pref.ax.settings import Settings
from botorch_pref.ax.space.context import NO_CONTEXT, Context, in_context
from botorch_pref.ax.space.differences import column_widths, features
from botorch_pref.ax.space.options import Catalogue
from botorch_pref.errors import FeedbackError
from botorch_pref.feedback import Feedback
from botorch_pref.models import averaged_utility
from botorch_pref.models.raters import answered_model
from botorch_pref.models.training_data import FeedbackDataset

_SPACE, _APART = "design_space", "distinctness"
_WAITING, _PENDING = "waiting_options", "pending_options"
"""Names by which Ax hands `PreferenceAcquisition` a `DesignSpace`, a `Distinctness`
(None where one design is sought), options that wait for an answer, ``n x d``, and those
of them that nobody has answered about."""

COUNT, FURTHER = "num_questions", "further_questions"
"""Names by which `PreferenceAdapter.gen` is asked for several questions, among Ax's
arguments of the acquisition, and tells those after the first, in a run's metadata."""

CHECKS = "checks_answers"
"""Name by which `PreferenceAdapter.gen` is told, among its options, whether a duel may
be a `reliability_check`, and a larger question show an `unbeaten_rival`. It is also the
name among Ax's arguments of the acquisition."""

UTILITY = "utility"
"""Name by which `PreferenceAdapter.gen` is told to seek options by another model than
the fitted one, among the same arguments."""

_OPEN = 24
"""Options that nobody has answered about and that a joint choice allows for, at most:
those that may be the best, for others change no maximum. Its cost grows with them."""


_DESIGNS = 256
"""The number of designs among which a knowledge gradient can choose in the end."""


class PreferenceAcquisition(Acquisition):
    """Ax's acquisition, that looks for the options of one question by `QuestionSearch`.

    Pending points are set here and not by Ax, which hands them to input constructors.
    ``further`` has the challengers of questions after the first, ``k x n x d``, and
    ``present`` the options that they join, ``m x d``.
    """

    further: Tensor | None = None
    present: Tensor | None = None

    @property
    def reference(self) -> Tensor | None:
        """Point that challengers meet, ``1 x d``; None where pairs are chosen."""
        return getattr(self.acqf, "X_ref", None)

    def _construct_botorch_acquisition(
        self,
        botorch_acqf_class: type[AcquisitionFunction],
        botorch_acqf_options: dict[str, Any],
        model: Model,
    ) -> AcquisitionFunction:
        """Makes the acquisition function of one question, see base class.

        The function gets the reference that challengers meet, the ``choices`` of a
        knowledge gradient, and points that wait for an answer, as far as it takes
        them. A ``UTILITY`` among the options replaces the model.
        """
        options, space = dict(botorch_acqf_options), self.options.get(_SPACE)
        takes_choices = "choices" in signature(botorch_acqf_class).parameters
        rule = reference_rule(botorch_acqf_class)
        if space is not None and (rule or takes_choices):
            utility = utility_model(model)
            best = _reference(utility, space, rule or incumbent)
            if takes_choices:
                seed = int(torch.randint(2**31, ()))
                designs = space.sample_near(best, _DESIGNS, seed)
                options = {"choices": likely_best(utility, designs), **options}
            options = {"X_ref": best, **options} if rule else options
        model = self.options.get(UTILITY, model)
        acqf = super()._construct_botorch_acquisition(
            botorch_acqf_class, options, model
        )
        pending, apart = self.options.get(_PENDING), self.options.get(_APART)
        chooses_all = isinstance(acqf, DuelingAcquisition) and acqf.X_ref is None
        if chooses_all and apart is not None:
            # Whole questions, also where an option of theirs was seen before.
            pending = apart.pending.flatten(0, 1)
        if pending is not None and len(pending) > _OPEN and is_joint(acqf):
            pending = likely_best(utility_model(model), pending, _OPEN)
        # BoTorch's analytic functions take no pending points.
        analytic = isinstance(acqf, AnalyticAcquisitionFunction)
        if pending is not None and len(pending) and not analytic:
            acqf.set_X_pending(pending)
        return acqf

    def optimize(
        self,
        n: int,
        search_space_digest: SearchSpaceDigest,
        *args: Any,
        **arguments: Any,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Finds the options with the largest value.

        Returns the ``n`` options, ``n x d``, of which a reference is the first; the
        value of each challenger, or of all options together; and their weights.
        """
        apart, pending = self.options.get(_APART), getattr(self.acqf, "X_pending", None)
        self.present = None if apart is None else self._present_options(n)
        try:
            options, value = self._challengers(n, search_space_digest, args, arguments)
        except CandidateGenerationError:
            if self.present is None or len(self.present) == 1:
                raise
            # Too few designs differ from the rival: the question does without it.
            self.acqf.set_X_pending(pending)
            self.present = self.reference
            options, value = self._challengers(n, search_space_digest, args, arguments)
        if self.present is not None:
            options = torch.cat([self.present, options])
        return options, value, torch.ones(n, dtype=self.dtype)

    def _challengers(
        self,
        n: int,
        search_space_digest: SearchSpaceDigest,
        args: tuple[Any, ...],
        arguments: Mapping[str, Any],
    ) -> tuple[Tensor, Tensor]:
        """Finds the options that join those `present` in a question of ``n``.

        Returns them, ``k x d``, and the value of each, or of all together. ``args`` and
        ``arguments`` are those of `optimize`.

        Raises:
            CandidateGenerationError: There are too few that differ.
        """
        space, apart = self.options.get(_SPACE), self.options.get(_APART)
        chosen = n if self.present is None else n - len(self.present)
        # Ax's own search, for what a `DesignSpace` cannot describe.
        if (
            space is None
            or arguments.get("equality_constraints")
            or arguments.get("candidate_set") is not None
        ):
            options, value, _ = super().optimize(
                chosen, search_space_digest, *args, **arguments
            )
            return options, value
        search = QuestionSearch(space, self._centres(space), _climb(arguments))
        if apart is not None:
            apart = replace(apart, reference=self.present)
        try:
            count = self.options.get(COUNT, 1)
            options, *further = search.several(self.acqf, chosen, apart, count)
            self.further = torch.stack(further) if further else None
        except FeedbackError as error:
            # Whole numbers leave next to no room.
            raise CandidateGenerationError(f"No start found: {error}") from error
        with torch.no_grad():
            separate = self.reference is not None
            value = self.acqf(options.unsqueeze(1) if separate else options)
        return options, value

    def _present_options(self, n: int) -> Tensor | None:
        """Returns the options that challengers join in a question of ``n``, ``k x d``.

        They are the reference, and perhaps an `unbeaten_rival`, which is pending from
        then on; None without a reference.
        """
        best, space = self.reference, self.options.get(_SPACE)
        if best is None or space is None or n < 3 or not self.options.get(CHECKS):
            return best
        utility, widths = utility_model(self.acqf.model), self.options[_APART].widths
        rival = unbeaten_rival(utility, space, best, self.options[_WAITING], widths)
        if len(rival):
            pending = getattr(self.acqf, "X_pending", None)
            pending = rival if pending is None else torch.cat([pending, rival])
            self.acqf.set_X_pending(pending)
        return torch.cat([best, rival])

    def _centres(self, space: DesignSpace) -> Tensor:
        """Lists designs that may be the best, near which half of a search starts.

        They are ``n x d``, the reference or the incumbent first. What is not in the
        space is left out, so that there may be none.
        """
        best = self.reference
        if best is None:
            best = _reference(utility_model(self.acqf.model), space, incumbent)
        centres = torch.cat([best, getattr(self.acqf, "choices", best[:0])])
        return centres[space.allows(centres)]


def _reference(
    utility: Model, space: DesignSpace, rule: Callable[[Model], Tensor]
) -> Tensor:
    """Finds the point that challengers meet, ``1 x d``.

    It is the point of the ``rule``, such as the `incumbent`; or the best design of the
    space where that point is outside it, as in another context.
    """
    best = rule(utility)
    if bool(space.allows(best).all()):
        return best
    return best_design(utility, space, int(torch.randint(2**31, ())))


def _climb(arguments: Mapping[str, Any]) -> Climb:
    """Translates Ax's arguments of an optimizer to settings of a `QuestionSearch`."""
    options = dict(arguments.get("optimizer_options") or {})
    rounding = arguments.get("rounding_func")
    numbers = {
        n: options.pop(n) for n in ("num_restarts", "raw_samples") if n in options
    }
    return Climb(**numbers, arguments=options, rounding=rounding)


def run_of_arms(run: GeneratorRun, arms: Iterable[Arm]) -> GeneratorRun:
    """Returns a run of a generator with other arms, of equal weights."""
    run = run.clone()
    weights = ((arm.signature, ArmWeight(arm.clone(), 1.0)) for arm in arms)
    run._arm_weight_table = OrderedDict(weights)
    return run


def run_in_context(
    run: GeneratorRun, space: SearchSpace, context: Context
) -> GeneratorRun:
    """Returns a run whose arms have the values of a context exactly as they are stated.

    Transforms there and back change digits. What is derived is computed anew.
    """
    if not context:
        return run
    designs = (in_context(space, arm.parameters, context) for arm in run.arms)
    return run_of_arms(run, map(Arm, designs))


class PreferenceAdapter(TorchAdapter):
    """Ax's adapter, with one model of the utility for all metrics of answers.

    ``gen(n)`` gives the ``n`` options of one question. An acquisition function with a
    reference point chooses ``n - 1`` challengers, and the reference is the first
    option; one without chooses all ``n`` jointly.

    Attributes:
        context: Values of parameters, by name, that are measured and not chosen. The
            `arms`, their `datapoints` and the `design_space` are as they are there.
    """

    context: Context = NO_CONTEXT

    def _convert_experiment_data(
        self,
        experiment_data: ExperimentData,
        outcomes: list[str],
        parameters: list[str],
        search_space_digest: SearchSpaceDigest | None = None,
    ) -> tuple[
        list[SupervisedDataset], list[str], list[list[TCandidateMetadata]] | None
    ]:
        """Makes one data set of all answers, in place of one a metric."""
        dataset = feedback_dataset(self._experiment, experiment_data, parameters)
        return [dataset], [OBJECTIVE], None

    @property
    def _botorch_generator(self) -> BoTorchGenerator:
        assert isinstance(self.generator, BoTorchGenerator)
        return self.generator

    @cached_property
    def _average(self) -> tuple[Model, int | str]:
        return averaged_utility(self.botorch_model)

    @property
    def utility(self) -> Model:
        """The utility that findings are about, see `averaged_utility`."""
        return self._average[0]

    @property
    def explanations(self) -> int | str:
        """The number of explanations that `utility` averages, or why there is one."""
        return self._average[1]

    @property
    def dataset(self) -> FeedbackDataset:
        """The answers as the model takes them, about transformed points."""
        (dataset,) = self._botorch_generator.surrogate.training_data
        assert isinstance(dataset, FeedbackDataset)
        return dataset

    @property
    def datapoints(self) -> Tensor:
        """The points that were judged, transformed, ``n x d``, each once."""
        if self.context:
            return self.points_of(arm.parameters for arm in self.arms)
        _, rows = self._arms_and_rows()
        # Where raters are kept apart, an arm has a row for each of its raters.
        first = [rows.index(place) for place in range(max(rows) + 1)]
        return self.dataset.X[first]

    @cached_property
    def judged_posterior(self) -> Posterior:
        """The joint posterior of the `utility` at the `datapoints`, without a graph.

        Findings ask for it often, and it takes as long as a fit.
        """
        with torch.no_grad():
            return self.utility.posterior(self.datapoints)

    def in_context(self, context: Context) -> PreferenceAdapter:
        """Copies the adapter, with the same model, for another context."""
        adapter = copy(self)
        adapter.context = context
        adapter.__dict__.pop("judged_posterior", None)
        return adapter

    @property
    def arms(self) -> list[Arm]:
        """The arm of each datapoint."""
        names, _ = self._arms_and_rows()
        by_name = self._experiment.arms_by_name
        return [self.arm_in_context(by_name[name]) for name in names]

    @property
    def feedback(self) -> list[Feedback]:
        """All answers, about `datapoints`, whoever gave them."""
        _, rows = self._arms_and_rows()
        return [block.reindexed(torch.tensor(rows)) for block in self.dataset.feedback]

    def _arms_and_rows(self) -> tuple[list[str], list[int]]:
        """Lists the names of arms, and for each row of the data set the arm's place.

        Where raters are kept apart, an arm has a row for each who judged it.
        """
        counts = answer_counts(self._experiment)
        rows = arms_and_raters(self._training_data, counts)
        place = {name: i for i, name in enumerate(dict.fromkeys(n for n, _ in rows))}
        return [*place], [place[name] for name, _ in rows]

    def arm_in_context(self, arm: Arm) -> Arm:
        """Returns an arm as it would be in the context, under the same name."""
        if not self.context:
            return arm
        space = self._experiment.search_space
        return SignedArm(in_context(space, arm.parameters, self.context), arm.name)

    def dataset_of(
        self,
        experiment_data: ExperimentData,
        counts: Counts | None = None,
        of_raters: bool = False,
    ) -> FeedbackDataset:
        """Returns a part of ``get_training_data()`` as the model takes it.

        Held-out answers are such parts, and those of raters with names. ``counts`` and
        ``of_raters`` are those of `feedback_dataset`.
        """
        transformed, _, _ = self._transform_inputs_for_cv(experiment_data, [])
        return feedback_dataset(
            self._experiment, transformed, self.parameters, counts, of_raters
        )

    def model_of(self, dataset: FeedbackDataset) -> Model:
        """Returns the adapter's model, fitted from scratch to what `dataset_of` gave.

        Cross-validation fits one a fold; the adapter's own stays as it is. The result
        is about ``dataset.points``: where raters share, it is the model of all of them.
        """
        generator = self._botorch_generator
        surrogate = generator.surrogate.clone_reset()
        surrogate.fit([dataset], generator.search_space_digest)
        model: Model = answered_model(surrogate.model)
        return model

    def gen(
        self,
        n: int,
        search_space: SearchSpace | None = None,
        optimization_config: OptimizationConfig | None = None,
        pending_observations: dict[str, list[ObservationFeatures]] | None = None,
        fixed_features: ObservationFeatures | None = None,
        model_gen_options: TConfig | None = None,
    ) -> GeneratorRun:
        """Returns the ``n`` options of one question; see base class.

        All of them have the ``fixed_features``, or are in the `context`. Where the
        ``model_gen_options`` have `CHECKS`, two options may be a duel whose answer is
        foreseen, see `reliability_check`.

        Where Ax's arguments of the acquisition ask for `COUNT` questions, the run's
        metadata have those after the first as `FURTHER`; there may be fewer.

        Ax's ``pending_observations`` include what was withdrawn and what was answered:
        the adapter looks up itself which options are pending.
        """
        context = self.context
        if fixed_features is not None:
            context = fixed_features.parameters
        options = {**(model_gen_options or {})}
        checks = options.pop(CHECKS, False)
        if checks and n == 2:
            duel = self._foreseen_duel(context)
            if duel is not None:
                return GeneratorRun(duel, generator_key=self._generator_key)
        arguments = Keys.AX_ACQUISITION_KWARGS.value
        arguments_of_ax: Any = options.get(arguments, {})
        run = super().gen(
            n,
            search_space=search_space,
            optimization_config=optimization_config,
            model_gen_options={
                **options,
                arguments: {
                    **arguments_of_ax,
                    **self._search_arguments(n, context),
                    CHECKS: checks,
                },
            },
        )
        acquisition = self._botorch_generator._acquisition
        assert isinstance(acquisition, PreferenceAcquisition)
        space = self._experiment.search_space
        present = self._present_arms(acquisition.present, run)
        run = run_of_arms(run, [*present, *run.arms[len(present) :]])
        run = run_in_context(run, space, context)
        if acquisition.further is not None:
            options_shown = [dict(arm.parameters) for arm in present]
            questions = [
                [
                    in_context(space, design, context)
                    for design in [*options_shown, *self.designs_of(points)]
                ]
                for points in acquisition.further
            ]
            run._gen_metadata = {**(run.gen_metadata or {}), FURTHER: questions}
        return run

    def _present_arms(self, present: Tensor | None, run: GeneratorRun) -> list[Arm]:
        """Finds the arms of the options that challengers join, the first of a ``run``.

        They are those that were observed, for transforms there and back change digits.
        A reference on a line at which nobody stopped is no such arm.
        """
        arms = []
        for option, arm in zip(
            [] if present is None else present, run.arms, strict=False
        ):
            places = (self.datapoints == option).all(-1).nonzero()
            arms.append(self.arms[int(places[0])] if len(places) else arm)
        return arms

    def _foreseen_duel(self, context: Context) -> list[Arm] | None:
        """Finds the arms of the duel of a `reliability_check`; None if none is due."""
        points, waiting = self.datapoints, self.open_questions(2)
        number = num_answers(self._experiment) + len(waiting)
        space = self.design_space(context)
        duel = reliability_check(self.botorch_model, space, number, waiting)
        if duel is None:
            return None
        places = [int((points == option).all(-1).nonzero()[0]) for option in duel]
        return [self.arms[place] for place in places]

    def designs_of(self, points: Tensor) -> list[TParameterization]:
        """Makes designs of points, ``N x d``, rounded as people are shown them."""
        designs = self._array_to_observation_features(points.numpy(), None)
        for transform in reversed([*self.transforms.values()]):
            designs = transform.untransform_observation_features(designs)
        space = self._experiment.search_space
        designs = clamp_observation_features(designs, space)
        return [dict(observation.parameters) for observation in designs]

    def _search_arguments(self, size: int, context: Context) -> dict[str, Any]:
        """Makes what `PreferenceAcquisition` needs, by the names that it looks up.

        These are the search space, pending options, and what a question has to differ
        from: nothing (None) where a single design is sought.
        """
        trials, answered = self._experiment.trials.values(), {*self.arms}
        running = [arm for t in trials if t.status.is_running for arm in t.arms]
        waiting = {arm.name: arm for arm in running}
        points = self.points_of(arm.parameters for arm in waiting.values())
        is_new = [arm not in answered for arm in waiting.values()]
        options = {
            _SPACE: self.design_space(context),
            _WAITING: points,
            _PENDING: points[is_new] if any(is_new) else None,
        }
        if size == 1:
            return {**options, _APART: None}
        questions = [trial for trial in trials if len(trial.arms_by_name) == size]
        open_ones = [i for i, trial in enumerate(questions) if trial.status.is_running]
        means = self._training_data.observation_data["mean"]
        ties = means.reindex(columns=[TIE.metric]).dropna().index
        with_tie = {*ties.get_level_values("trial_index")}
        tied = [i for i, trial in enumerate(questions) if trial.index in with_tie]
        counts = answer_counts(self._experiment, apart=False)
        times = [counts[trial.index][None] for trial in questions]
        points = self._points_of_questions(questions, size)
        apart = Distinctness(
            self.smallest_differences,
            points,
            points[open_ones],
            tied=points[tied],
            times=torch.tensor(times, dtype=torch.float64),
        )
        return {**options, _APART: apart}

    @property
    def smallest_differences(self) -> Tensor:
        """The smallest differences that somebody could tell, of features, ``d``."""
        smallest = Settings.from_experiment(self._experiment).smallest_difference
        widths = column_widths(self._experiment.search_space, smallest)
        return torch.tensor([widths[c] for c in self.parameters], dtype=torch.float64)

    def open_questions(self, size: int) -> Tensor:
        """Finds the questions of a size without answers, ``k x size x d``."""
        running = (t for t in self._experiment.trials.values() if t.status.is_running)
        waiting = [trial for trial in running if len(trial.arms_by_name) == size]
        return self._points_of_questions(waiting, size)

    def _points_of_questions(self, questions: Sequence[BaseTrial], size: int) -> Tensor:
        """Makes points of the options of questions of one size, ``k x size x d``.

        Ax's transforms take long, and many questions are about few options.
        """
        arms = {name: arm for t in questions for name, arm in t.arms_by_name.items()}
        place = {name: i for i, name in enumerate(arms)}
        rows = [place[name] for trial in questions for name in trial.arms_by_name]
        points = self.points_of(arm.parameters for arm in arms.values())[rows]
        return points.reshape(len(questions), size, len(self.parameters))

    def design_space(self, context: Context | None = None) -> DesignSpace:
        """Makes the search space as the model takes designs.

        Args:
            context: Values that all designs have; by default the adapter's own.
        """
        catalogue, space = (
            Catalogue.from_experiment(self._experiment),
            self._experiment.search_space,
        )
        rows = None
        if catalogue is not None:
            # Ax's transforms take a second for some thousand rows.
            rows = features(space, [*catalogue.rows.values()], self.parameters)
        transforms = [*self.transforms.values()]
        fixed = self.context if context is None else context
        return design_space(space, transforms, self.parameters, rows, fixed)

    def points_of(self, designs: Iterable[TParameterization]) -> Tensor:
        """Returns designs as the model takes them, ``N x d``."""
        features = [ObservationFeatures(parameters=dict(design)) for design in designs]
        if not features:
            return torch.zeros(0, len(self.parameters), dtype=torch.float64)
        points: Tensor = self.transform_observation_features(features)
        return points
