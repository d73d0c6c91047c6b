"""Studies of the sources: their problems and protocols, and what they claim."""

from __future__ import annotations

from benchmarks.suite.cell import OPTUNA, Rule, Setting
from benchmarks.suite.studies.claim import Claim
from benchmarks.suite.studies.rules import (
    BESIDE_PEERS,
    CHANCE,
    EXPLORING,
    PEERS,
    all_rules,
)
from benchmarks.suite.studies.study import Study


def _skew_against_laplace(
    suffix: str, *acquisitions: tuple[str, str]
) -> tuple[Claim, ...]:
    """Claims of Benavoli et al. for the exact posterior, with each rule."""
    return tuple(
        Claim(
            f"SkewGP is better than Laplace with {name}.",
            Rule(f"skew{suffix}", acquisition),
            Rule(f"laplace{suffix}", acquisition),
            "way",
        )
        for acquisition, name in acquisitions
    )


BENAVOLI = (
    ("ucb", "an upper bound"),
    ("thompson", "Thompson sampling"),
    ("eiig-0.1", "EIIG (k = 0.1)"),
)

ASKING = tuple(acquisition for acquisition, _ in BENAVOLI)

NEW_POINTS = Rule("ep", "eubo-pair")
"""Beside the exploring rule in long runs: two new points by their expected best."""

FIGURE_5 = Study(
    "skewgp-figure-5",
    "Benavoli et al. (2021), figure 5: is the exact posterior worth it in one "
    "dimension, with known hyper-parameters?",
    settings=(Setting("cosinebump"),),
    rules=(
        *all_rules(
            ("laplace-known", "ep-known", "skew-known"),
            ASKING,
        ),
        EXPLORING,
        NEW_POINTS,
        CHANCE,
        OPTUNA,
    ),
    reference=Rule("laplace-known", "eiig-0.1"),
    # optuna-dashboard had not returned after ten minutes from seeds 13 and 33.
    num_seeds=52,
    num_random=10,
    num_chosen=100,
    claims=(*_skew_against_laplace("-known", *BENAVOLI), BESIDE_PEERS[0]),
)

FIGURE_6 = Study(
    "skewgp-figure-6",
    "Benavoli et al. (2021), figure 6: is SkewGP better than Laplace, and EP than "
    "both, when hyper-parameters are learned?",
    settings=tuple(
        Setting(name)
        for name in (
            "forrester",
            "sixhumpcamel",
            "goldsteinprice",
            "levy",
            "rosenbrock5",
            "hartmann6",
        )
    ),
    rules=(
        *all_rules(("laplace", "ep", "skew"), ASKING),
        EXPLORING,
        NEW_POINTS,
        *PEERS,
    ),
    reference=Rule("laplace", "eiig-0.1"),
    num_seeds=20,
    num_random=10,
    num_chosen=100,
    claims=(
        *_skew_against_laplace("", *BENAVOLI),
        Claim(
            "SkewGP takes less time than Laplace with EIIG (k = 0.1).",
            Rule("skew", "eiig-0.1"),
            Rule("laplace", "eiig-0.1"),
            "seconds",
        ),
        Claim(
            "SkewGP is better than EP with EIIG (k = 0.1).",
            Rule("skew", "eiig-0.1"),
            Rule("ep", "eiig-0.1"),
            "way",
        ),
        BESIDE_PEERS[0],
    ),
)

FIGURE_8 = Study(
    "skewgp-figure-8",
    "Benavoli et al. (2021), figure 8: where trials fail, is a penalty, one utility or "
    "a model of validity best, and how many trials fail under each?",
    settings=(Setting("sasena"),),
    rules=(
        *all_rules(("ep", "skew", "ep-mixed", "skew-mixed"), ("eiig-0.1",)),
        *all_rules(("ep-apart",), ("eiig-weighted", "eiig-constrained")),
        Rule("ep", "eiig"),
        CHANCE,
    ),
    reference=Rule("skew", "eiig-0.1"),
    num_seeds=20,
    num_random=10,
    num_chosen=90,
    # At the end: a recommended point that is not valid costs 1e8 early in some runs,
    # which no mean of all duels forgets.
    claims=(
        *(
            Claim(
                f"{engine}: a mixed model is better than a penalty.",
                Rule(f"{model}-mixed", "eiig-0.1"),
                Rule(model, "eiig-0.1"),
            )
            for model, engine in (("skew", "SkewGP"), ("ep", "EP"))
        ),
        Claim(
            "A model of validity is better than a penalty.",
            Rule("ep-apart", "eiig-weighted"),
            Rule("ep", "eiig"),
        ),
        Claim(
            "A model of validity shows fewer invalid trials than a penalty.",
            Rule("ep-apart", "eiig-weighted"),
            Rule("ep", "eiig"),
            "invalid",
        ),
        Claim(
            "A chance constraint shows fewer invalid trials than a weight.",
            Rule("ep-apart", "eiig-constrained"),
            Rule("ep-apart", "eiig-weighted"),
            "invalid",
        ),
    ),
)

TAKENO = Study(
    "takeno",
    "Takeno et al. (2023): which acquisition function on many functions?",
    settings=tuple(
        Setting(name)
        for name in (
            "ackley",
            "beale",
            "branin",
            "dropwave",
            "griewank",
            "hartmann3",
            "hartmann6",
            "levy",
            "rosenbrock",
            "shekel",
            "sixhumpcamel",
            "styblinskitang",
        )
    ),
    rules=(
        EXPLORING,
        *all_rules(
            ("ep",), ("eubo", "hbei", "hbucb", "muc", "eiig", "thompson", "eubo-pair")
        ),
        # Expected improvement of a challenger is EUBO with a reference.
        *all_rules(("laplace", "laplace-little-noise"), ("eubo",)),
        *PEERS,
    ),
    reference=Rule("ep", "hbei"),
    num_seeds=50,
    num_chosen=45,
    claims=(
        Claim(
            "A believer's improvement is better than improvement under Laplace.",
            Rule("ep", "hbei"),
            Rule("laplace", "eubo"),
            "way",
        ),
        Claim(
            "A believer's improvement is better than improvement under Laplace with as "
            "little noise.",
            Rule("ep", "hbei"),
            Rule("laplace-little-noise", "eubo"),
            "way",
        ),
        *(
            Claim(
                f"A believer's improvement is better than {name}.",
                Rule("ep", "hbei"),
                Rule("ep", acquisition),
                "way",
            )
            for acquisition, name in (
                ("eubo", "improvement under the mean posterior"),
                ("muc", "the most uncertain challenger"),
                ("eiig", "EIIG"),
                ("thompson", "Thompson sampling"),
            )
        ),
    ),
)


def _qeubo_protocol(problem: str, dim: int, scale: float) -> Study:
    """Protocol of the paper at its second noise, an error in 20 % of close pairs."""
    return Study(
        f"qeubo-{problem}",
        "Astudillo et al. (2023): their protocol, with logistic answers.",
        settings=(Setting(problem, "logistic", scale),),
        rules=(
            EXPLORING,
            *all_rules(("ep",), ("eubo", "eubo-pair")),
            CHANCE,
        ),
        reference=Rule("ep", "eubo-pair"),
        num_seeds=80,
        num_random=4 * dim,
        num_chosen=150,
        claims=(
            Claim(
                "qEUBO's pair is better than random challengers.",
                Rule("ep", "eubo-pair"),
                Rule("ep", "random"),
                "way",
            ),
            Claim(
                "qEUBO's pair is better than improvement on the incumbent.",
                Rule("ep", "eubo-pair"),
                Rule("ep", "eubo"),
                "way",
            ),
            Claim(
                "The exploring rule is better than qEUBO's pair.",
                EXPLORING,
                Rule("ep", "eubo-pair"),
                "way",
            ),
        ),
    )


QEUBO = (
    _qeubo_protocol("ackley6", 6, 0.1416),
    _qeubo_protocol("alpine7", 7, 0.5726),
    _qeubo_protocol("hartmann6", 6, 0.1619),
)
