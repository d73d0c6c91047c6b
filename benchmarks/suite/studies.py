"""The studies: settings, rules, starts and the rule of reference."""

from __future__ import annotations

from benchmarks.suite.cell import Rule, Setting, Study
from benchmarks.suite.players import OPTUNA

PEERS = (Rule("ep", "random"), Rule("pairwise-gp", "qeubo"), OPTUNA)
"""What every table has: chance, BoTorch and optuna-dashboard."""

_DEFAULT = Rule("skew", "eiig")

DEFAULTS = Study(
    "default",
    "Which rule should ask by default, of people who never err and of those who do?",
    settings=(
        Setting("hartmann6"),
        Setting("sixhumpcamel-narrow"),
        Setting("sixhumpcamel"),
        Setting("hartmann6", "probit", 0.3),
        Setting("sixhumpcamel-narrow", "probit", 0.2),
    ),
    rules=(
        _DEFAULT,
        Rule("skew", "exploring-eiig"),
        Rule("ep", "eiig"),
        Rule("ep", "exploring-eiig"),
        Rule("ep", "tailed-ei"),
        Rule("ep", "eubo"),
        Rule("ep", "eubo-pair"),
        Rule("ep", "hbei"),
        Rule("ep", "ucb"),
        Rule("ep-human", "eiig"),
        Rule("ep-human", "exploring-eiig"),
        Rule("ep-human", "tailed-ei"),
        Rule("ep-human", "eubo"),
        Rule("ep-human", "eubo-pair"),
        Rule("ep-human", "hbei"),
        Rule("ep-human", "ucb"),
        Rule("ep-rival-prior", "eubo"),
        Rule("ep-rival-prior", "hbei"),
        *PEERS,
        Rule("ep-human", "random"),
    ),
    reference=_DEFAULT,
)


def _all(models: tuple[str, ...], acquisitions: tuple[str, ...]) -> tuple[Rule, ...]:
    return tuple(Rule(model, name) for model in models for name in acquisitions)


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
        *_all(("ep-human",), ("eiig", "eubo", "eubo-pair", "hbei", "random", "ucb")),
        *PEERS[1:],
    ),
    reference=Rule("ep-human", "eiig"),
    num_seeds=20,
)

INFERENCE = Study(
    "inference",
    "What is better inference worth in regret, with the same rule and the same noise?",
    settings=(
        Setting("hartmann6"),
        Setting("sixhumpcamel-narrow"),
        Setting("hartmann6", "probit", 0.3),
        Setting("sixhumpcamel-narrow", "probit", 0.2),
    ),
    rules=(
        *_all(
            ("laplace", "ep", "skew", "laplace-human", "ep-human", "skew-human"),
            ("eiig", "eubo"),
        ),
        *PEERS,
    ),
    reference=Rule("laplace", "eiig"),
    num_seeds=20,
)

FIGURE_5 = Study(
    "skewgp-figure-5",
    "Benavoli et al. (2021), figure 5: is the exact posterior worth it in one "
    "dimension, with known hyper-parameters?",
    settings=(Setting("cosinebump"),),
    rules=(
        *_all(
            ("laplace-known", "ep-known", "skew-known"),
            ("ucb", "thompson", "eiig-0.1"),
        ),
        *PEERS,
    ),
    reference=Rule("laplace-known", "eiig-0.1"),
    num_seeds=20,
    num_random=10,
    num_chosen=100,
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
        *_all(("laplace", "ep", "skew"), ("ucb", "thompson", "eiig-0.1", "eiig-0.5")),
        *PEERS,
    ),
    reference=Rule("laplace", "eiig-0.1"),
    num_seeds=20,
    num_random=10,
    num_chosen=100,
)

BELIEVERS = Study(
    "believers",
    "Should a believer's challengers meet the best point of the draw?",
    settings=(Setting("hartmann6"), Setting("sixhumpcamel-narrow")),
    rules=(
        *_all(("ep", "skew"), ("hbei", "hbei-own-best")),
        *PEERS,
    ),
    reference=Rule("ep", "hbei"),
    num_seeds=20,
)

FIGURE_8 = Study(
    "skewgp-figure-8",
    "Benavoli et al. (2021), figure 8: where trials fail, is a penalty, one utility or "
    "a model of validity best, and how many trials fail under each?",
    settings=(Setting("sasena"),),
    rules=(
        *_all(("ep", "skew"), ("ucb", "thompson", "eiig-0.1", "eiig-0.5")),
        *_all(("ep-mixed", "skew-mixed"), ("ucb", "thompson", "eiig-0.1", "eiig-0.5")),
        *_all(("ep-apart",), ("eiig-weighted", "eiig-constrained")),
        *PEERS,
    ),
    reference=Rule("skew", "eiig-0.1"),
    num_seeds=20,
    num_random=10,
    num_chosen=90,
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
        *_all(
            ("skew",),
            ("eubo", "hbei", "hbucb", "muc", "eiig", "thompson", "eubo-pair"),
        ),
        # Expected improvement of a challenger is EUBO with a reference.
        Rule("laplace", "eubo"),
        *PEERS,
    ),
    reference=Rule("skew", "hbei"),
    num_seeds=20,
    num_chosen=45,
)


def _qeubo_protocol(problem: str, dim: int, scale: float) -> Study:
    """Protocol of the paper at its second noise, an error in 20 % of close pairs."""
    return Study(
        f"qeubo-{problem}",
        "Astudillo et al. (2023): their protocol, with logistic answers.",
        settings=(Setting(problem, "logistic", scale),),
        rules=(
            *_all(("ep-human",), ("eiig", "eubo", "eubo-pair", "hbei", "random")),
            *PEERS[1:],
        ),
        reference=Rule("ep-human", "eubo-pair"),
        num_seeds=20,
        num_random=4 * dim,
        num_chosen=150,
    )


QEUBO = (
    _qeubo_protocol("ackley6", 6, 0.1416),
    _qeubo_protocol("alpine7", 7, 0.5726),
    _qeubo_protocol("hartmann6", 6, 0.1619),
)

STUDIES = {
    study.name: study
    for study in (
        DEFAULTS,
        PEOPLE,
        INFERENCE,
        FIGURE_5,
        FIGURE_6,
        FIGURE_8,
        TAKENO,
        *QEUBO,
        BELIEVERS,
    )
}
"""All studies, by name."""
