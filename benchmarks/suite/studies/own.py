"""Our own studies: what should ask by default, and what is lost with people."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.suite.cell import OPTUNA, Rule, Setting
from benchmarks.suite.studies.claim import Claim
from benchmarks.suite.studies.rules import (
    ADVISED,
    BESIDE_CHANCE,
    BESIDE_PEERS,
    CHANCE,
    EXPLORING,
    PEERS,
    all_rules,
)
from benchmarks.suite.studies.study import Study

MORE_OPTIONS = (
    *(
        Rule("ep", acquisition, size)
        for acquisition in ("exploring-eiig", "eubo", "hbei", "thompson", "qeubo")
        for size in (3, 4)
    ),
    Rule("ep-learned-noise", "exploring-eiig", 4),
    *(
        Rule("ep", acquisition, size, "order")
        for acquisition in ("exploring-eiig", "joint-eubo", "joint-kg")
        for size in (3, 4)
    ),
    Rule("ep", "joint-eubo", 4),
    Rule("ep", "joint-kg", 4),
    Rule("ep-short", "joint-kg", 4, "order"),
    Rule("ep-wide", "joint-kg", 4, "order"),
    Rule("ep", "qeubo", 4, "order"),
    Rule("ep", "random", 4),
    Rule("pairwise-gp", "qeubo", 4),
    Rule("optuna", "sampler", 4, "worst"),
)

SHORTER = Claim(
    "Lengthscales should be shorter than those of the stationary kernel.",
    Rule("ep-short", "exploring-eiig"),
    EXPLORING,
)

LEARNED_NOISE = Claim(
    "The noise of a judge who errs should be learned.",
    Rule("ep-learned-noise", "exploring-eiig"),
    EXPLORING,
    leads=True,
)

LEARNED_EIIG = Claim(
    "EIIG with learned noise is better than the exploring rule.",
    Rule("ep-learned-noise", "eiig"),
    EXPLORING,
    leads=True,
)

LAPSES = Claim(
    "Two new points, with learned noise and lapses, are better than the exploring "
    "rule.",
    Rule("ep-lapses", "eubo-pair"),
    EXPLORING,
    leads=True,
)

LAPSING_CHALLENGER = Claim(
    "The exploring rule is better with learned noise and lapses.",
    Rule("ep-lapses", "exploring-eiig"),
    EXPLORING,
)

WIDE = (
    Claim(
        "The output scale of the stationary kernel should have a wider prior.",
        Rule("ep-wide", "exploring-eiig"),
        EXPLORING,
    ),
    Claim(
        "Rankings of four need a wider prior of the output scale.",
        Rule("ep-wide", "joint-kg", 4, "order"),
        ADVISED,
    ),
)

RANKED_FOUR = Claim(
    "To rank four that are chosen jointly is better than duels, question by question.",
    ADVISED,
    EXPLORING,
    leads=True,
)

PAIRWISE_KERNEL = Claim(
    "The kernel of `PairwiseGP` is better than the stationary kernel.",
    Rule("ep-pairwise-kernel", "exploring-eiig"),
    EXPLORING,
)

RELEVANT_PAIR = Rule("ep-relevance-lapses", "eubo-pair")
"""Two new points, as experiments choose them."""

RELEVANT_RANKING = replace(ADVISED, model="ep-relevance")
"""Four to rank, as experiments choose them."""

RELEVANCES = (
    Claim(
        "Two new points are better with relevances than with the stationary kernel.",
        RELEVANT_PAIR,
        LAPSES.better,
    ),
    Claim(
        "Rankings of four are better with relevances than with the stationary kernel.",
        RELEVANT_RANKING,
        ADVISED,
    ),
)

DEFAULTS = Study(
    "default",
    "Which rule, model and kernel should ask by default, of people who never err and "
    "of those who do?",
    settings=(
        Setting("hartmann6"),
        Setting("sixhumpcamel-narrow"),
        Setting("hartmann6", "probit", 0.3),
        Setting("sixhumpcamel-narrow", "probit", 0.2),
    ),
    rules=(
        *all_rules(("ep", "skew", "laplace"), ("exploring-eiig", "eiig")),
        Rule("laplace-little-noise", "eiig"),
        *all_rules(("ep",), ("tailed-ei", "eubo", "eubo-pair", "hbei", "ucb")),
        *all_rules(
            ("ep",), ("muc", "kg-of-space", "maximum-information", "pair-or-challenger")
        ),
        # A believer's challengers against the best point of the draw.
        Rule("ep", "hbei-own-best"),
        *all_rules(
            ("ep-short", "ep-default-prior", "ep-rival-prior", "ep-learned-noise"),
            ("exploring-eiig",),
        ),
        WIDE[0].better,
        LEARNED_EIIG.better,
        LAPSES.better,
        RELEVANT_PAIR,
        *PEERS,
    ),
    reference=EXPLORING,
    num_seeds=100,
    also=(Rule("ep", "thompson"), RELEVANT_RANKING, *MORE_OPTIONS),
    claims=(
        RELEVANCES[0],
        *BESIDE_PEERS,
        *(
            Claim(
                f"The exploring rule is better than {name}.",
                EXPLORING,
                Rule("ep", acquisition),
                leads=acquisition == "eiig",
            )
            for acquisition, name in (
                ("eiig", "EIIG with k = 0.2"),
                ("tailed-ei", "improvement under heavy tails alone"),
                ("eubo", "expected improvement on the incumbent"),
                ("hbei", "a believer's expected improvement"),
                ("ucb", "an upper bound"),
                ("muc", "the most uncertain challenger"),
                ("kg-of-space", "a knowledge gradient over the space"),
                ("maximum-information", "information about the maximum"),
            )
        ),
        Claim(
            "The stationary kernel is better than BoTorch's kernel.",
            EXPLORING,
            Rule("ep-default-prior", "exploring-eiig"),
            leads=True,
        ),
        Claim(
            "The stationary kernel is better than optuna-dashboard's kernel.",
            EXPLORING,
            Rule("ep-rival-prior", "exploring-eiig"),
        ),
        SHORTER,
        LEARNED_NOISE,
        LEARNED_EIIG,
        LAPSES,
        WIDE[0],
        Claim(
            "A believer's challenger should meet the best point of the draw.",
            Rule("ep", "hbei-own-best"),
            Rule("ep", "hbei"),
        ),
    ),
)

OPTIONS = replace(
    DEFAULTS,
    name="options",
    asks="How many options should a question have, and what should its answer name?",
    rules=(
        EXPLORING,
        *all_rules(("ep",), ("eubo", "hbei", "thompson", "eubo-pair", "random")),
        LAPSES.better,
        Rule("pairwise-gp", "qeubo"),
        Rule("optuna", "sampler"),
        *MORE_OPTIONS,
    ),
    also=(),
    claims=(
        Claim(
            "The best of three is better than duels, question by question.",
            Rule("ep", "exploring-eiig", 3),
            EXPLORING,
        ),
        Claim(
            "The best of four is better than duels, question by question.",
            Rule("ep", "exploring-eiig", 4),
            EXPLORING,
            leads=True,
        ),
        Claim(
            "The best of four is better than the best of three.",
            Rule("ep", "exploring-eiig", 4),
            Rule("ep", "exploring-eiig", 3),
        ),
        Claim(
            "To rank four is better than to name the best.",
            Rule("ep", "exploring-eiig", 4, "order"),
            Rule("ep", "exploring-eiig", 4),
        ),
        Claim(
            "Four to rank should be chosen jointly, not one by one.",
            Rule("ep", "joint-eubo", 4, "order"),
            Rule("ep", "exploring-eiig", 4, "order"),
        ),
        Claim(
            "Four to rank should be chosen by what the answer will show.",
            Rule("ep", "joint-kg", 4, "order"),
            Rule("ep", "joint-eubo", 4, "order"),
        ),
        Claim(
            "Four of which the best is named should be chosen by what the answer will "
            "show.",
            Rule("ep", "joint-kg", 4),
            Rule("ep", "joint-eubo", 4),
        ),
        Claim(
            "Rankings of four need shorter lengthscales than the stationary kernel's.",
            Rule("ep-short", "joint-kg", 4, "order"),
            Rule("ep", "joint-kg", 4, "order"),
        ),
        WIDE[1],
        Claim(
            "Four of which the best is named should be chosen jointly.",
            Rule("ep", "joint-eubo", 4),
            Rule("ep", "exploring-eiig", 4),
        ),
        Claim(
            "To rank four that are chosen jointly is better than to name the best.",
            Rule("ep", "joint-eubo", 4, "order"),
            Rule("ep", "joint-eubo", 4),
            leads=True,
        ),
        Claim(
            "The best of four, the incumbent among them, is better than qEUBO's four.",
            Rule("ep", "exploring-eiig", 4),
            Rule("ep", "qeubo", 4),
        ),
        Claim(
            "The best of four is better than optuna-dashboard's four, the worst named.",
            Rule("ep", "exploring-eiig", 4),
            Rule("optuna", "sampler", 4, "worst"),
            leads=True,
        ),
        Claim(
            "The best of four is better than `PairwiseGP` with qEUBO of four.",
            Rule("ep", "exploring-eiig", 4),
            Rule("pairwise-gp", "qeubo", 4),
            leads=True,
        ),
    ),
    runs_of="default",
)

PAIRS = replace(
    DEFAULTS,
    name="pairs",
    asks="Should a duel show two new points, or the incumbent and a challenger?",
    rules=(EXPLORING, *all_rules(("ep",), ("eubo-pair", "pair-or-challenger"))),
    also=(),
    claims=tuple(
        Claim(
            f"The exploring rule is better than {name}.",
            EXPLORING,
            Rule("ep", ask),
            leads=ask == "eubo-pair",
        )
        for ask, name in (
            ("eubo-pair", "the expected best of two new points"),
            ("pair-or-challenger", "a pair or a challenger by what each is worth"),
        )
    ),
)

INFERENCE = replace(
    DEFAULTS,
    also=(),
    name="inference",
    asks="What is better inference worth in regret, with the same rule?",
    rules=(
        *all_rules(("laplace", "ep", "skew"), ("exploring-eiig", "eiig")),
        Rule("laplace-little-noise", "eiig"),
        *PEERS,
    ),
    reference=Rule("laplace", "exploring-eiig"),
    claims=(
        *(
            Claim(
                f"{names} with {rule}.",
                Rule(better, ask),
                Rule(worse, ask),
                leads=ask == "exploring-eiig",
            )
            for ask, rule in (
                ("exploring-eiig", "the exploring rule"),
                ("eiig", "EIIG"),
            )
            for names, better, worse in (
                ("EP is better than Laplace", "ep", "laplace"),
                ("SkewGP is better than Laplace", "skew", "laplace"),
                ("SkewGP is better than EP", "skew", "ep"),
            )
        ),
        Claim(
            "Of exact answers Laplace is better with a noise of 1 than of 0.001.",
            Rule("laplace", "eiig"),
            Rule("laplace-little-noise", "eiig"),
        ),
    ),
    runs_of="default",
)

ERRORS = {
    # Deviations with which 10, 20 and 30 % of close pairs are misjudged, and the
    # difference up to which 20 % are the same: `calibration`.
    "hartmann6": (0.0815, 0.193, 0.378, 0.0877),
    "sixhumpcamel-narrow": (0.00693, 0.0157, 0.0294, 0.00756),
    "branin": (0.0508, 0.115, 0.216, 0.0555),
    "levy": (0.0321, 0.0738, 0.14, 0.0349),
}

PEOPLE = Study(
    "people",
    "What is lost with people who err, look away or see no difference?",
    settings=tuple(
        Setting(problem, judge, noise)
        for problem, (*deviations, threshold) in ERRORS.items()
        for judge, noise in (
            *(("probit", deviation) for deviation in deviations),
            ("lapses", 0.1),
            ("ties", threshold),
        )
    ),
    rules=(
        EXPLORING,
        *all_rules(("ep",), ("eiig", "eubo-pair", "hbei")),
        LEARNED_NOISE.better,
        LEARNED_EIIG.better,
        LAPSES.better,
        LAPSING_CHALLENGER.better,
        ADVISED,
        *(claim.better for claim in WIDE),
        *PEERS,
    ),
    without_ties=tuple(
        claim.better
        for claim in (
            LEARNED_NOISE,
            LEARNED_EIIG,
            LAPSES,
            LAPSING_CHALLENGER,
            WIDE[0],
        )
    ),
    reference=EXPLORING,
    num_seeds=50,
    claims=(
        *BESIDE_PEERS,
        *(
            Claim(
                f"The exploring rule is better than {name}.",
                EXPLORING,
                Rule("ep", acquisition),
            )
            for acquisition, name in (
                ("eiig", "EIIG with k = 0.2"),
                ("eubo-pair", "the expected best of two new points"),
                ("hbei", "a believer's expected improvement"),
            )
        ),
        LEARNED_NOISE,
        LEARNED_EIIG,
        LAPSES,
        LAPSING_CHALLENGER,
        Claim(
            "Two new points, with learned noise and lapses, are better than "
            "optuna-dashboard's sampler.",
            LAPSES.better,
            OPTUNA,
            leads=True,
        ),
        *WIDE,
        RANKED_FOUR,
        Claim(
            "To rank four is better than optuna-dashboard's duels, question by "
            "question.",
            ADVISED,
            OPTUNA,
            leads=True,
        ),
    ),
)

EIGHT_AND_TWELVE = Study(
    "eight-and-twelve",
    "Up to how many parameters should a duel show two new points?",
    # Deviations of a tenth of the range that 4,096 quasi-random points have.
    settings=(
        Setting("levy8", "probit", 27.0),
        Setting("rosenbrock8", "probit", 324_000.0),
        Setting("styblinskitang8", "probit", 65.0),
        Setting("levy12", "probit", 38.0),
        Setting("rosenbrock12", "probit", 487_000.0),
        Setting("styblinskitang12", "probit", 85.0),
    ),
    rules=(
        EXPLORING,
        Rule("ep", "eubo-pair"),
        LAPSES.better,
        LAPSING_CHALLENGER.better,
        ADVISED,
        CHANCE,
    ),
    reference=EXPLORING,
    num_seeds=50,
    num_random=10,
    num_chosen=40,
    claims=(
        BESIDE_CHANCE,
        RANKED_FOUR,
        LAPSES,
        LAPSING_CHALLENGER,
        Claim(
            "With learned noise and lapses, two new points are better than a "
            "challenger.",
            LAPSES.better,
            LAPSING_CHALLENGER.better,
        ),
    ),
)

MANY_DIMENSIONS = Study(
    "many-dimensions",
    "Which scales, rules and numbers of options suit many dimensions?",
    # Deviations of a tenth of the range that 4,096 quasi-random points have.
    settings=(
        Setting("levy20", "probit", 51.0),
        Setting("rosenbrock20", "probit", 690_000.0),
        Setting("styblinskitang20", "probit", 113.0),
        Setting("rosenbrock32", "probit", 860_000.0),
        Setting("levy64", "probit", 83.0),
        Setting("styblinskitang64", "probit", 175.0),
    ),
    rules=(
        EXPLORING,
        *all_rules(
            ("ep",),
            ("exploring-eiig-turbo", "exploring-eiig-local", "eubo-pair"),
        ),
        *all_rules(
            (
                "ep-short",
                "ep-long",
                "ep-wide",
                "ep-large-scale",
                PAIRWISE_KERNEL.better.model,
            ),
            ("exploring-eiig",),
        ),
        LAPSES.better,
        LAPSING_CHALLENGER.better,
        ADVISED,
        *PEERS,
    ),
    reference=EXPLORING,
    num_seeds=50,
    num_random=10,
    num_chosen=40,
    claims=(
        *BESIDE_PEERS,
        RANKED_FOUR,
        LAPSES,
        LAPSING_CHALLENGER,
        SHORTER,
        WIDE[0],
        Claim(
            "The output scale should fall with the dimension from six inputs on.",
            EXPLORING,
            Rule("ep-large-scale", "exploring-eiig"),
            leads=True,
        ),
        PAIRWISE_KERNEL,
        Claim(
            "The exploring rule is better than the expected best of two new points.",
            EXPLORING,
            Rule("ep", "eubo-pair"),
        ),
        Claim(
            "Lengthscales should not grow with the dimension from six inputs on.",
            EXPLORING,
            Rule("ep-long", "exploring-eiig"),
            leads=True,
        ),
        Claim(
            "The exploring rule is better in a trust region of TuRBO's constants.",
            Rule("ep", "exploring-eiig-turbo"),
            EXPLORING,
        ),
        Claim(
            "The exploring rule is better in a small trust region.",
            Rule("ep", "exploring-eiig-local"),
            EXPLORING,
            leads=True,
        ),
    ),
)
