"""One entry for each class of the package that a contract holds to its promises.

The contracts take their parameters from here, and ``test_registry`` fails where an
engine, a likelihood, a kind of answer or an acquisition function is missing.
"""

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from entries import Acquisition, Case, Cell, Engine, SetCase
from random_answers import integers, padded, stops_between_ends, subsets, uniform
from torch import Generator
from truths import duel_values
from truths.answer_probabilities import (
    CUTPOINTS,
    LAPSE_RATE,
    PAIR,
    affine,
    beta_density,
    lapsing_tie,
    lapsing_win,
    logistic,
    ordinal_level,
    probit_tie,
    probit_win,
    rao_kupper_tie,
    rao_kupper_win,
)
from truths.answers import (
    CHOICES,
    LINES,
    NOISE,
    ORDINAL,
    PAIRS,
    RANKINGS,
    RATINGS,
    STRENGTHS,
    TIES,
    VALIDITY,
)

from botorch_pref import (
    AffineProbitLikelihood,
    BetaRatingLikelihood,
    Choices,
    Comparisons,
    DuelingBALD,
    DuelingEIIG,
    DuelingEUBO,
    DuelingExploringEIIG,
    DuelingHBEI,
    DuelingHBUCB,
    DuelingJointEUBO,
    DuelingJointKG,
    DuelingKG,
    DuelingMUC,
    DuelingTailedEI,
    DuelingThompson,
    DuelingUCB,
    EPPreferenceGP,
    LaplacePreferenceGP,
    LapsingProbitLikelihood,
    LineChoices,
    LineLogitLikelihood,
    LineProbitLikelihood,
    OrdinalProbitLikelihood,
    OrdinalRatings,
    PairwiseBetaLikelihood,
    PairwiseLogitLikelihood,
    PairwiseProbitLikelihood,
    PlackettLuceLikelihood,
    Rankings,
    RaoKupperLikelihood,
    Ratings,
    SkewPreferenceGP,
    SparsePreferenceGP,
    Strengths,
    Validity,
    VariationalPreferenceGP,
)
from botorch_pref.feedback import Feedback
from botorch_pref.inference import ExpectationPropagation
from botorch_pref.likelihoods.beta import BetaFactors
from botorch_pref.likelihoods.factors import (
    BoxFactors,
    CorrelatedBoxFactors,
)
from botorch_pref.likelihoods.lapses import LapsingFactors
from botorch_pref.likelihoods.logit import (
    LogitFactors,
    PlackettLuceFactors,
    RaoKupperFactors,
    SoftmaxFactors,
)

# Deviations and nats are those of the worst cells, rounded up: Laplace is far off where
# little is known, the variational bound everywhere but for pairs. SkewGP is exact up to
# its 1,024 draws.
ENGINES = {
    engine.cls: engine
    for engine in (
        Engine(
            LaplacePreferenceGP,
            deviations=0.3,
            nats=0.6,
        ),
        Engine(
            EPPreferenceGP,
            deviations=0.02,
            nats=0.1,
        ),
        Engine(
            SkewPreferenceGP,
            deviations=0.06,
            nats=0.1,
            capped=lambda engine, number: replace(
                engine, approximation=ExpectationPropagation(max_iterations=number)
            ),
            with_evidence=lambda solution, evidence: replace(
                solution,
                ep_solution=replace(solution.approximation, evidence=evidence),
            ),
            logit=False,
            num_draws=512,
            options={"num_draws": 512},
        ),
        Engine(
            SparsePreferenceGP,
            deviations=0.02,
            nats=0.1,
            all_inducing=True,
        ),
        Engine(
            VariationalPreferenceGP,
            deviations=0.5,
            nats=5.0,
        ),
    )
}


# --- Answers of every kind under every likelihood that explains them

CELLS = [
    Cell(
        lambda: PairwiseProbitLikelihood(NOISE, tie_threshold=0.3),
        Comparisons(PAIRS, TIES),
    ),
    Cell(PairwiseLogitLikelihood, Comparisons(PAIRS)),
    Cell(lambda: RaoKupperLikelihood(0.3), Comparisons(PAIRS, TIES)),
    Cell(lambda: PairwiseProbitLikelihood(NOISE), CHOICES),
    Cell(lambda: PairwiseProbitLikelihood(NOISE), RANKINGS),
    Cell(PlackettLuceLikelihood, CHOICES),
    Cell(PlackettLuceLikelihood, RANKINGS),
    Cell(lambda: AffineProbitLikelihood(NOISE), VALIDITY),
    Cell(
        lambda: OrdinalProbitLikelihood(
            noise=NOISE, cutpoints=torch.tensor([-0.6, 0.5])
        ),
        ORDINAL,
    ),
    Cell(lambda: PairwiseBetaLikelihood(precision=6.0, noise=NOISE), STRENGTHS),
    Cell(lambda: BetaRatingLikelihood(precision=6.0, noise=NOISE), RATINGS),
    Cell(
        lambda: LapsingProbitLikelihood(NOISE, tie_threshold=0.3, lapse_rate=0.2),
        Comparisons(PAIRS, TIES),
    ),
    Cell(lambda: LineProbitLikelihood(NOISE), LINES),
    Cell(LineLogitLikelihood, LINES),
]


# --- Random answers of every kind about n points


RANDOM: dict[type[Feedback], Callable[[Generator, int], Feedback]] = {
    Comparisons: lambda g, n: Comparisons(subsets(g, 5, 2, n)),
    Choices: lambda g, n: (lambda sets: Choices(sets, sets[:, 1]))(padded(g, n)),
    Rankings: lambda g, n: Rankings(padded(g, n)),
    Validity: lambda g, n: Validity(integers(g, n), uniform(g, 5) < 0.5),
    OrdinalRatings: lambda g, n: OrdinalRatings(integers(g, n), integers(g, 3), 3),
    Strengths: lambda g, n: Strengths(subsets(g, 5, 2, n), uniform(g, 5)),
    Ratings: lambda g, n: Ratings(integers(g, n), uniform(g, 5)),
    LineChoices: lambda g, n: LineChoices(
        subsets(g, 5, 2, n), uniform(g, 5), points=stops_between_ends(g, n)
    ),
}


# --- Likelihoods: single answers

WIN, LOSS = Comparisons(PAIR), Comparisons(PAIR.flip(-1))
TIE = Comparisons(None, PAIR)
VALID = Validity(torch.tensor([1]), torch.tensor([True]))
FAILED = Validity(torch.tensor([1]), torch.tensor([False]))
THRESHOLD = {"noise": 0.3, "tie_threshold": 0.7}

CASES = {
    "probit win": Case(
        PairwiseProbitLikelihood, WIN, probit_win, [1, -1, 0], BoxFactors,
        {"noise": 0.3},
    ),
    "probit win, little noise": Case(
        PairwiseProbitLikelihood, LOSS, probit_win, [-1, 1, 0], BoxFactors,
        {"noise": 1e-4},
    ),
    "probit win beyond a threshold": Case(
        PairwiseProbitLikelihood, WIN, probit_win, [1, -1, 0], BoxFactors,
        THRESHOLD,
    ),
    "probit tie": Case(
        PairwiseProbitLikelihood, TIE, probit_tie, [1, -1, 0], BoxFactors,
        THRESHOLD, width=1.4,
    ),
    "probit narrow tie": Case(
        PairwiseProbitLikelihood, TIE, probit_tie, [1, -1, 0], BoxFactors,
        {"noise": 2.0, "tie_threshold": 1e-4}, width=2e-4,
    ),
    "logit win": Case(
        PairwiseLogitLikelihood, WIN, logistic, [1, -1, 0], LogitFactors
    ),
    "Rao-Kupper win": Case(
        RaoKupperLikelihood, WIN, rao_kupper_win, [1, -1, 0], RaoKupperFactors,
        {"tie_threshold": 0.7},
    ),
    "Rao-Kupper tie": Case(
        RaoKupperLikelihood, TIE, rao_kupper_tie, [1, -1, 0], RaoKupperFactors,
        {"tie_threshold": 0.7},
    ),
    "Rao-Kupper narrow tie": Case(
        RaoKupperLikelihood, TIE, rao_kupper_tie, [1, -1, 0], RaoKupperFactors,
        {"tie_threshold": 1e-4},
    ),
    "valid": Case(
        AffineProbitLikelihood, VALID, affine, [0, 1, 0], BoxFactors,
        {"noise": 0.5}, items=1,
    ),
    # Here z = -f: the row carries the sign.
    "failed": Case(
        AffineProbitLikelihood, FAILED, affine, [0, -1, 0], BoxFactors,
        {"noise": 0.5}, items=1,
    ),
}  # fmt: skip
CASES |= {
    f"ordinal {level}": Case(
        OrdinalProbitLikelihood,
        OrdinalRatings(torch.tensor([1]), torch.tensor([level]), 4),
        ordinal_level(level), [0, 1, 0], BoxFactors, {"noise": 0.3},
        fixed={"cutpoints": torch.tensor(CUTPOINTS, dtype=torch.float64)}, items=1,
        width=dict(enumerate([math.inf, 0.7, 0.9, math.inf]))[level],
    )
    for level in range(4)
}  # fmt: skip

SET_CASES = [
    SetCase(PairwiseProbitLikelihood, Choices, CorrelatedBoxFactors, {"noise": 0.4}),
    SetCase(PairwiseProbitLikelihood, Rankings, CorrelatedBoxFactors, {"noise": 0.4}),
    SetCase(PlackettLuceLikelihood, Choices, PlackettLuceFactors),
    SetCase(PlackettLuceLikelihood, Rankings, PlackettLuceFactors),
]


LINE_CASES = [
    SetCase(LineProbitLikelihood, LineChoices, CorrelatedBoxFactors, {"noise": 0.4}),
    SetCase(LineLogitLikelihood, LineChoices, SoftmaxFactors),
]

LAPSES = {"lapse_rate": torch.tensor(LAPSE_RATE, dtype=torch.float64)}

# Not log-concave: of the contract, what holds for them too. The rest is in
# test_beta_likelihoods.py and test_lapses.py.
DENSITIES = {
    "strength": Case(
        PairwiseBetaLikelihood, Strengths(PAIR, torch.tensor([0.8])), beta_density(0.8),
        [1, -1, 0], BetaFactors, {"precision": 7.0, "noise": 0.3},
    ),
    "rating": Case(
        BetaRatingLikelihood, Ratings(torch.tensor([1]), torch.tensor([0.1])),
        beta_density(0.1), [0, 1, 0], BetaFactors, {"precision": 0.8, "noise": 2.0},
        items=1,
    ),
    "lapsing win": Case(
        LapsingProbitLikelihood, WIN, lapsing_win, [1, -1, 0], LapsingFactors,
        {"noise": 0.3}, LAPSES,
    ),
    "lapsing win, little noise": Case(
        LapsingProbitLikelihood, LOSS, lapsing_win, [-1, 1, 0], LapsingFactors,
        {"noise": 1e-4}, LAPSES,
    ),
    "lapsing win beyond a threshold": Case(
        LapsingProbitLikelihood, WIN, lapsing_win, [1, -1, 0], LapsingFactors,
        THRESHOLD, LAPSES,
    ),
    "lapsing tie": Case(
        LapsingProbitLikelihood, TIE, lapsing_tie, [1, -1, 0], LapsingFactors,
        THRESHOLD, LAPSES, width=1.4,
    ),
}  # fmt: skip
ENTRIES = CASES | DENSITIES


# --- Acquisition functions

# Around a corner that most duels improve on: elsewhere knowledge gains nothing.
CHOICES_IN_THE_END = torch.tensor(
    [[0.95, 0.95], [0.9, 0.85], [0.85, 0.95]], dtype=torch.double
)
ACQUISITIONS = {
    "DuelingBALD": Acquisition(
        DuelingBALD, pairs=True, linked=True,
        value=duel_values.information,
    ),
    "DuelingEIIG": Acquisition(
        DuelingEIIG, linked=True, itself=0.1 * math.log(0.5),
        value=duel_values.probable_information(0.1),
    ),
    "DuelingEIIG, k = 0.5": Acquisition(
        DuelingEIIG, linked=True, itself=0.5 * math.log(0.5), options={"k": 0.5},
        value=duel_values.probable_information(0.5),
    ),
    "DuelingEUBO": Acquisition(
        DuelingEUBO, pairs=True, power=1, level=True,
        value=duel_values.improvement,
    ),
    "DuelingKG": Acquisition(
        DuelingKG, pairs=True, linked=True, power=1,
        options={"choices": CHOICES_IN_THE_END},
        value=duel_values.knowledge(CHOICES_IN_THE_END),
    ),
    "DuelingMUC": Acquisition(
        DuelingMUC, linked=True,
        value=duel_values.win_variance,
    ),
    "DuelingTailedEI": Acquisition(
        DuelingTailedEI, power=1, value=duel_values.tailed_improvement
    ),
    "DuelingUCB": Acquisition(DuelingUCB, power=1, value=duel_values.upper_end(0.95)),
    "DuelingExploringEIIG": Acquisition(DuelingExploringEIIG, drawn=True, linked=True),
    "DuelingHBEI": Acquisition(DuelingHBEI, drawn=True),
    "DuelingHBUCB": Acquisition(DuelingHBUCB, drawn=True),
    "DuelingJointEUBO": Acquisition(DuelingJointEUBO, drawn=True),
    "DuelingJointKG": Acquisition(DuelingJointKG, drawn=True),
    "DuelingThompson": Acquisition(DuelingThompson, drawn=True),
}  # fmt: skip
