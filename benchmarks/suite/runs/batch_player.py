"""Players of batches: one model of all runs of a rule, and what asks by it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.acquisition.analytic import PosteriorMean
from botorch.acquisition.preference import qExpectedUtilityOfBestOption
from botorch.models.model import Model
from botorch.optim.batched_lbfgs_b import fmin_l_bfgs_b_batched
from botorch.sampling.normal import SobolQMCNormalSampler
from gpytorch.kernels import Kernel
from gpytorch.priors import LogNormalPrior
from torch import Generator, Tensor

from benchmarks.suite.cell import Rule
from benchmarks.suite.errors import SuiteError
from benchmarks.suite.runs.kernels import (
    large_kernel,
    long_kernel,
    pairwise_kernel,
    short_kernel,
    stationary_kernel,
    wide_kernel,
)
from benchmarks.suite.runs.maximum_rules import (
    candidates,
    information_about_maximum,
    kg_of_space,
    promising,
)
from benchmarks.suite.runs.registry import (
    HUMAN_NOISE,
    IMPROVEMENT_WEIGHT,
    NOISE,
    exact_likelihood,
)
from benchmarks.suite.runs.search import Search
from benchmarks.suite.runs.trust_region import InBox, TrustRegion
from botorch_pref.acquisition import (
    DistinctOptions,
    DuelingEIIG,
    DuelingEUBO,
    DuelingHBEI,
    DuelingHBUCB,
    DuelingJointEUBO,
    DuelingJointKG,
    DuelingKG,
    DuelingMUC,
    DuelingTailedEI,
    DuelingThompson,
    DuelingUCB,
    HallucinatedModel,
    champion,
    incumbent,
    likely_best,
)
from botorch_pref.acquisition.duels import observed_points
from botorch_pref.feedback import Choices, Comparisons, Feedback, Rankings
from botorch_pref.likelihoods import LapsingProbitLikelihood, PairwiseProbitLikelihood
from botorch_pref.models import (
    DuelKernel,
    EPPreferenceGP,
    LaplacePreferenceGP,
    PreferenceGP,
    PreferenceMarginalLogLikelihood,
)
from botorch_pref.numerics.mixtures import tailed_positive_part
from botorch_pref.simulation.problem import Problem

EPSILON = 1 / 3
"""Share of the questions of `DuelingExploringEIIG` that explore."""

UNIFORM, NEAR, NEARER, RESTARTS = 192, 64, 64, 4
"""Points that an acquisition function is tried at: drawn from the cube, and around the
reference with deviations of 0.1 and 0.02; and how many of them are climbed from."""

EVALUATIONS = 60
"""Of an acquisition function by L-BFGS-B. Most runs converge in forty; where a maximum
is at the wall of `DistinctOptions`, line searches of a few would take hundreds."""

SMALL_REGION = TrustRegion(first=0.4, failures=4)
"""A trust region that shrinks soon enough for some tens of answers."""

DRAWS = 64
"""Draws of utilities behind the expected best of jointly chosen options."""


def uniform(sources: Sequence[Generator], *shape: int) -> Tensor:
    """Uniform draws, `num_runs x shape`, of each run from its own source."""
    return torch.stack(
        [torch.rand(shape, generator=source, dtype=torch.double) for source in sources]
    )


class BatchPlayer:
    """A rule in a batch of runs: what learns from the answers, and what asks.

    Args:
        rule: Its names.
        problem: What is optimised, of which only the designs are known to the rule.
        errs: Whether the judge errs.
        sources: Of each run's draws.
    """

    def __init__(
        self, rule: Rule, problem: Problem, errs: bool, sources: Sequence[Generator]
    ) -> None:
        self.rule, self.search = rule, Search.of(problem, sources)
        make = MODELS_OF_BATCHES[rule.model]
        self.make_model = make(problem.dim, errs, len(sources))
        self.model: PreferenceGP | None = None

    def learn(self, told: Tensor) -> None:
        """Fits the models of all answers, from where those of fewer ended.

        Args:
            told: The options of all questions, each with the best first,
                `num_runs x m x k x d`.
        """
        if self.model is None:
            feedback = answers(told.shape[1], self.rule)
            self.model = self.make_model(told.flatten(1, 2), feedback)
        else:
            last = answers(1, self.rule)
            self.model = self.model.condition_on_observations(told[:, -1], last)
        fit(self.model)
        self.best = incumbent(self.model)

    def recommended(self) -> Tensor:
        """The recommended points, `num_runs x d`."""
        return self.best.squeeze(-2)

    def ask(self) -> Tensor:
        """The next question of each run, `num_runs x k x d`."""
        assert self.model is not None
        ways = WAYS_OF_BATCHES[self.rule.acquisition]
        return ways(self.model, self.best, self.rule.options, self.search)

    def best_anywhere(self) -> Tensor:
        """The points of the cube with the largest posterior means, `num_runs x d`."""
        assert self.model is not None
        mean, shown = PosteriorMean(self.model), champion(self.model)
        found = maximise(mean, shown, 1, self.search)
        worse = mean(found) < mean(shown)
        return torch.where(worse[:, None, None], shown, found).squeeze(-2)


def answers(number: int, rule: Rule) -> Feedback:
    """Answers to questions whose options stand in the order of the answer.

    Args:
        number: Of questions.
        rule: Says how many options each has, and what an answer names.
    """
    places = torch.arange(number * rule.options).view(number, rule.options)
    if rule.options == 2:
        return Comparisons(places)
    if rule.answer == "order":
        return Rankings(places)
    if rule.answer == "worst":
        losers = places[:, -1:].expand_as(places[:, :-1])
        pairs = torch.stack([places[:, :-1], losers], -1)
        return Comparisons(pairs.flatten(0, 1))
    return Choices(places, places[:, 0])


MakeModel = Callable[[Tensor, Feedback], PreferenceGP]


def models_of(
    engine: type[PreferenceGP],
    kernel: Callable[..., Kernel | None],
    likelihood: Callable[[bool, torch.Size], PairwiseProbitLikelihood],
) -> Callable[[int, bool, int], MakeModel]:
    """Models of a batch of runs.

    Args:
        engine: Their class.
        kernel: From the number of inputs and the batch shape; None for the model's own.
        likelihood: From whether the judge errs and the batch shape.
    """

    def of_runs(dim: int, errs: bool, runs: int) -> MakeModel:
        batch = torch.Size([runs])

        def make(points: Tensor, feedback: Feedback) -> PreferenceGP:
            return engine(
                points,
                feedback=[feedback],
                covar_module=kernel(dim, batch),
                likelihood=likelihood(errs, batch),
            )

        return make

    return of_runs


def usual_noise(errs: bool, batch: torch.Size) -> PairwiseProbitLikelihood:
    """Fixed where the judge errs, learned where she does not."""
    if errs:
        return PairwiseProbitLikelihood(HUMAN_NOISE)
    return exact_likelihood(batch_shape=batch)


def fixed_noise(noise: float) -> Callable[..., PairwiseProbitLikelihood]:
    """The same noise for every judge."""
    return lambda errs, batch: PairwiseProbitLikelihood(noise)


def learned_noise(errs: bool, batch: torch.Size) -> PairwiseProbitLikelihood:
    """Learned whether the judge errs or not, each from what is usual for her."""
    if not errs:
        return exact_likelihood(batch_shape=batch)
    noise = torch.full(batch, HUMAN_NOISE, dtype=torch.double)
    return PairwiseProbitLikelihood(noise, noise_prior=LogNormalPrior(0.0, 1.0))


def lapsing_noise(errs: bool, batch: torch.Size) -> PairwiseProbitLikelihood:
    """As `learned_noise`; one answer in twenty of a judge who errs may be a lapse."""
    if not errs:
        return exact_likelihood(batch_shape=batch)
    noise = torch.full(batch, HUMAN_NOISE, dtype=torch.double)
    return LapsingProbitLikelihood(noise, noise_prior=LogNormalPrior(0.0, 1.0))


def default_noise(errs: bool, batch: torch.Size) -> PairwiseProbitLikelihood:
    """As `lapsing_noise`, with the prior of the library, most probably 1."""
    if not errs:
        return exact_likelihood(batch_shape=batch)
    noise = torch.full(batch, HUMAN_NOISE, dtype=torch.double)
    return LapsingProbitLikelihood(noise, noise_prior=LogNormalPrior(1.0, 1.0))


MODELS_OF_BATCHES = {
    "ep": models_of(EPPreferenceGP, stationary_kernel, usual_noise),
    "ep-short": models_of(EPPreferenceGP, short_kernel, usual_noise),
    "ep-long": models_of(EPPreferenceGP, long_kernel, usual_noise),
    "ep-wide": models_of(EPPreferenceGP, wide_kernel, usual_noise),
    "ep-large-scale": models_of(EPPreferenceGP, large_kernel, usual_noise),
    "ep-pairwise-kernel": models_of(EPPreferenceGP, pairwise_kernel, usual_noise),
    "ep-learned-noise": models_of(EPPreferenceGP, stationary_kernel, learned_noise),
    "ep-lapses": models_of(EPPreferenceGP, stationary_kernel, lapsing_noise),
    "ep-relevance": models_of(EPPreferenceGP, DuelKernel, usual_noise),
    "ep-relevance-lapses": models_of(EPPreferenceGP, DuelKernel, default_noise),
    "ep-default-prior": models_of(
        EPPreferenceGP, lambda dim, batch: None, fixed_noise(HUMAN_NOISE)
    ),
    "laplace": models_of(
        LaplacePreferenceGP, stationary_kernel, fixed_noise(HUMAN_NOISE)
    ),
    "laplace-little-noise": models_of(
        LaplacePreferenceGP, stationary_kernel, fixed_noise(NOISE)
    ),
}
"""From the number of inputs, whether the judge errs, and the number of runs."""


def fit(model: PreferenceGP) -> None:
    """Maximises the objective of every model of a batch, each by its own L-BFGS-B."""
    loss = PreferenceMarginalLogLikelihood(model.likelihood, model)
    learned = [p for p in model.parameters() if p.requires_grad]
    (runs,) = model.batch_shape
    widths = [p.numel() // runs for p in learned]
    everyone = torch.cat([p.detach().reshape(runs, -1) for p in learned], 1)

    def place(points: Tensor) -> None:
        with torch.no_grad():
            for parameter, part in zip(learned, points.split(widths, 1), strict=True):
                parameter.copy_(part.reshape(parameter.shape))

    def objective(x: Any, batch_indices: list[int]) -> tuple[Any, Any]:
        everyone[batch_indices] = torch.tensor(x)
        place(everyone)
        values = -loss.log_posterior()
        slopes = torch.autograd.grad(values.sum(), learned)
        slope = torch.cat([s.reshape(runs, -1) for s in slopes], 1)
        return (
            values.detach()[batch_indices].numpy(),
            slope[batch_indices].numpy(),
        )

    place(minimised(objective, everyone.clone(), None, 1e-3, 60))
    model.eval()


def minimised(
    objective: Callable[..., tuple[Any, Any]],
    start: Tensor,
    bounds: list[tuple[float, float]] | None,
    gradient: float,
    iterations: int,
) -> Tensor:
    """Minima of several functions by BoTorch's batched L-BFGS-B."""
    points, _, _ = fmin_l_bfgs_b_batched(
        objective,
        np.ascontiguousarray(start.numpy()),
        bounds=bounds,
        factr=1e8,
        pgtol=gradient,
        maxiter=iterations,
        pass_batch_indices=True,
    )
    return torch.tensor(points)


Ask = Callable[[PreferenceGP, Tensor, int, Search], Tensor]
"""From models, incumbents (`num_runs x 1 x d`), the number of options and the search to
questions, `num_runs x k x d`."""

MakeOfBatch = Callable[[Model, Tensor, Search], AcquisitionFunction]
"""Makes the acquisition function of models, references and the search."""


class ExploringInEachRun(DuelingEIIG):
    """`DuelingExploringEIIG` with a draw for each run.

    Args:
        model: Of all runs.
        X_ref: `num_runs x 1 x d`.
        explores: Whether a run explores, `num_runs`.
    """

    def __init__(self, model: Model, X_ref: Tensor, explores: Tensor) -> None:
        super().__init__(model, X_ref, k=IMPROVEMENT_WEIGHT)
        self.explores = explores

    def duel_value(self, means: Tensor, variance: Tensor) -> Tensor:
        """See base class."""
        refined = super().duel_value(means, variance)
        return torch.where(
            self.explores, tailed_positive_part(means, variance), refined
        )


def exploring(model: Model, X_ref: Tensor, search: Search) -> AcquisitionFunction:
    """The acquisition function that the library asks by."""
    explores = uniform(search.sources, 1).squeeze(-1) < EPSILON
    return ExploringInEachRun(model, X_ref, explores)


def one_by_one(make: MakeOfBatch, anew: bool = False) -> Ask:
    """The rule whose challengers of a reference are chosen one after the other.

    Args:
        make: Makes the acquisition function, which has the reference.
        anew: Whether for each challenger, so that each has draws of its own.
    """

    def ask(model: PreferenceGP, X_ref: Tensor, size: int, search: Search) -> Tensor:
        acquisition = DistinctOptions(make(model, X_ref, search))
        reference = acquisition.X_ref
        assert reference is not None
        found = maximise(acquisition, reference, 1, search)
        for _ in range(size - 2):
            if anew:
                acquisition = DistinctOptions(make(model, X_ref, search))
            acquisition.set_X_pending(found)
            more = maximise(acquisition, reference, 1, search)
            found = torch.cat([found, more], -2)
        return torch.cat([found, reference], -2)

    return ask


def locally(make: MakeOfBatch, region: TrustRegion) -> Ask:
    """The rule whose one challenger is chosen in a trust region of the incumbent.

    Args:
        make: Makes the acquisition function, which has the reference.
        region: How the box grows and shrinks.
    """

    def ask(model: PreferenceGP, X_ref: Tensor, size: int, search: Search) -> Tensor:
        if size != 2:
            raise SuiteError("the rules of a trust region ask duels: give options=2")
        if search.project is not None:
            raise SuiteError("the rules of a trust region take numbers without steps")
        acquisition = DistinctOptions(make(model, X_ref, search))
        told = observed_points(model).unflatten(-2, (-1, size))
        box = region.box(told, X_ref, _lengthscales(model))
        local = InBox(acquisition, box)
        found = maximise(local, local.to_cube(X_ref), 1, search)
        return torch.cat([local.to_space(found), X_ref], -2)

    return ask


def _lengthscales(model: PreferenceGP) -> Tensor:
    """Those of every model of a batch, `num_runs x 1 x d`."""
    kernel = model.covar_module
    scales: Tensor = getattr(kernel, "base_kernel", kernel).lengthscale
    return scales.detach()


def at_random(model: PreferenceGP, X_ref: Tensor, size: int, search: Search) -> Tensor:
    """Random points meet the incumbent."""
    drawn = search.designs(uniform(search.sources, size, X_ref.shape[-1]))
    return torch.cat([drawn[:, : size - 1], X_ref], -2)


def jointly(make: Callable[[Model, int], AcquisitionFunction]) -> Ask:
    """The rule whose options are all new and are chosen at once.

    Args:
        make: Makes the acquisition function of a model, from a seed of its draws.
    """

    def ask(model: PreferenceGP, X_ref: Tensor, size: int, search: Search) -> Tensor:
        value = make(model, _seed_of(search))
        return maximise(value, X_ref, size, search)

    return ask


def expected_best(model: Model, seed: int) -> qExpectedUtilityOfBestOption:
    """BoTorch's qEUBO of a batch of models."""
    sampler = SobolQMCNormalSampler(torch.Size([DRAWS]), seed=seed)
    return qExpectedUtilityOfBestOption(pref_model=model, sampler=sampler)


def beside_incumbent(make: MakeOfBatch) -> Ask:
    """The rule whose challengers of the incumbent are chosen at once.

    Args:
        make: Makes the acquisition function, which has the incumbent.
    """

    def ask(model: PreferenceGP, X_ref: Tensor, size: int, search: Search) -> Tensor:
        value = make(model, X_ref, search)
        return torch.cat([maximise(value, X_ref, size - 1, search), X_ref], -2)

    return ask


def joint_kg(model: Model, X_ref: Tensor, search: Search) -> DuelingJointKG:
    """The library's rule for questions of four."""
    source = search.sources[0]
    choices = likely_best(model, candidates(X_ref, search), generator=source)
    return DuelingJointKG(model, X_ref, source, choices)


def _seed_of(search: Search) -> int:
    return int(torch.randint(2**31, (), generator=search.sources[0]))


def own_best(model: Model, X_ref: Tensor, search: Search) -> AcquisitionFunction:
    """A believer's expected improvement over the best point of the draw itself."""
    believed = HallucinatedModel(model, search.sources[0])
    return DuelingEUBO(believed, champion(believed))


def worth_more(*ways: Ask) -> Ask:
    """Of the questions of several rules, that of the largest knowledge gradient."""

    def ask(model: PreferenceGP, X_ref: Tensor, size: int, search: Search) -> Tensor:
        questions = torch.stack([way(model, X_ref, size, search) for way in ways])
        worth = DuelingKG(model, choices=promising(model, X_ref, search))
        with torch.no_grad():
            chosen = worth(questions).argmax(0)
        return questions[chosen, torch.arange(len(X_ref))]

    return ask


def distinct_pair(model: Model, seed: int) -> AcquisitionFunction:
    """Two new points by the expected best of both."""
    return DistinctOptions(DuelingEUBO(model))


WAYS_OF_BATCHES: dict[str, Ask] = {
    "random": at_random,
    "exploring-eiig": one_by_one(exploring),
    "exploring-eiig-turbo": locally(exploring, TrustRegion()),
    "exploring-eiig-local": locally(exploring, SMALL_REGION),
    "eiig": one_by_one(lambda m, r, s: DuelingEIIG(m, r, k=IMPROVEMENT_WEIGHT)),
    "eiig-0.1": one_by_one(lambda m, r, s: DuelingEIIG(m, r, k=0.1)),
    "tailed-ei": one_by_one(lambda m, r, s: DuelingTailedEI(m, r)),
    "ucb": one_by_one(lambda m, r, s: DuelingUCB(m, r)),
    "muc": one_by_one(lambda m, r, s: DuelingMUC(m, champion(m))),
    "eubo": one_by_one(lambda m, r, s: DuelingEUBO(m, r)),
    "hbei": one_by_one(lambda m, r, s: DuelingHBEI(m, r, s.sources[0]), anew=True),
    "hbei-own-best": one_by_one(own_best, anew=True),
    "hbucb": one_by_one(
        lambda m, r, s: DuelingHBUCB(m, r, generator=s.sources[0]), anew=True
    ),
    "thompson": one_by_one(lambda m, r, s: DuelingThompson(m, r, s.sources[0])),
    "eubo-pair": jointly(distinct_pair),
    "kg-of-space": one_by_one(kg_of_space),
    "maximum-information": one_by_one(information_about_maximum),
    "pair-or-challenger": worth_more(one_by_one(exploring), jointly(distinct_pair)),
    "joint-eubo": beside_incumbent(
        lambda m, r, s: DuelingJointEUBO(m, r, s.sources[0])
    ),
    "joint-kg": beside_incumbent(joint_kg),
    "qeubo": jointly(expected_best),
}
"""Acquisition functions by name, as a batch of runs is asked by them."""


def maximise(
    acquisition: AcquisitionFunction,
    X_ref: Tensor,
    size: int,
    search: Search,
) -> Tensor:
    """The best points of each run, from uniform starts and ones near the reference.

    Args:
        acquisition: Of all runs: from `n x num_runs x size x d` to `n x num_runs`.
        X_ref: `num_runs x 1 x d`.
        size: How many points are chosen jointly.
        search: The starts of each run, and the designs that are looked through.

    Returns:
        `num_runs x size x d`.
    """
    runs = len(X_ref)
    X = search.designs(_starts(X_ref, size, search.sources).transpose(0, 1))
    with torch.no_grad():
        values = torch.cat([acquisition(part) for part in X.split(64)]).T
    z = values - values.mean(1, keepdim=True)
    z = z / values.std(1, keepdim=True).clamp_min(torch.finfo(z.dtype).tiny)
    odds = torch.softmax(2 * z, 1)
    # The largest of weighted exponential draws: a sample without replacement.
    drawn = uniform(search.sources, odds.shape[1]).log() / odds
    drawn = drawn.scatter(1, values.argmax(1, keepdim=True), 1.0)
    chosen = drawn.topk(RESTARTS, 1).indices
    begin = X[chosen.T, torch.arange(runs)].contiguous()
    return search.designs(_climbed(acquisition, begin, search))


def _climbed(acquisition: AcquisitionFunction, begin: Tensor, search: Search) -> Tensor:
    """The best points of each run that L-BFGS-B comes by, from several starts.

    Choices and steps stay as they are at the starts: they have no derivatives.

    Args:
        acquisition: Of all runs.
        begin: `RESTARTS x num_runs x size x d`.
        search: The designs that are looked through.

    Returns:
        `num_runs x size x d`.
    """
    now, best = begin.clone(), begin.clone()
    highest = torch.full(begin.shape[:2], -torch.inf, dtype=begin.dtype)
    flat, evaluations = now.view(-1, begin[0, 0].numel()), 0

    def objective(x: Any, batch_indices: list[int]) -> tuple[Any, Any]:
        nonlocal evaluations
        if evaluations == EVALUATIONS:
            raise StopIteration
        evaluations += 1
        flat[batch_indices] = torch.tensor(x)
        points = now.clone().requires_grad_()
        found = acquisition(search.designs(points))
        (slope,) = torch.autograd.grad(found.sum(), points)
        value = found.detach()
        better = value > highest
        best[better], highest[better] = now[better], value[better]
        slope = torch.nan_to_num(slope).reshape(flat.shape)
        return (
            -value.flatten()[batch_indices].numpy(),
            -slope[batch_indices].numpy(),
        )

    with suppress(StopIteration):
        box = [(0.0, 1.0)] * flat.shape[1]
        minimised(objective, begin.reshape(flat.shape), box, 1e-5, EVALUATIONS)
    return best[highest.argmax(0), torch.arange(begin.shape[1])]


def _starts(X_ref: Tensor, size: int, sources: Sequence[Generator]) -> Tensor:
    """Points to start from, `num_runs x n x size x d`."""
    dim = X_ref.shape[-1]
    anywhere = uniform(sources, UNIFORM, size, dim)
    spread = torch.tensor([0.1] * NEAR + [0.02] * NEARER).double()[:, None, None]
    moved = torch.stack(
        [
            torch.randn(len(spread), size, dim, generator=source, dtype=torch.double)
            for source in sources
        ]
    )
    near = (X_ref.unsqueeze(1) + spread * moved).clamp(0.0, 1.0)
    return torch.cat([anywhere, near], 1)
