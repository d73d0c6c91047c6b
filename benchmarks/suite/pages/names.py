"""Page with the meaning of the names in its tables."""

from __future__ import annotations

from benchmarks.suite.runs.judges import CLIQUE_SHIFT, DRIFT, EARLY_SHIFT
from benchmarks.suite.runs.maximum_rules import CANDIDATES, CHOICES
from benchmarks.suite.runs.registry import HUMAN_NOISE, IMPROVEMENT_WEIGHT, NOISE
from botorch_pref.acquisition.registration import registered_acquisitions

_NAMES = """# Names

A setting is a problem and a judge. Problems are utilities on the unit cube, of
`botorch_pref/simulation/problems.py`, which has the domain of each test function; those
of `people-tasks` are in `tasks.py` beside it. Where not every point of the cube is a
design, this package's rules search the designs. Other software, chance and points that
start a run take the cube, and the nearest design is shown.

The judge is `exact`, or has a number. A `probit` judge errs about each option by a
normal error of this deviation, a `logistic` one about each answer by a logistic error
of this scale. One with `lapses` answers this share of duels by a coin, a `coin` all of
them. One with `ties` calls options the same whose utilities differ by no more than
this. Three err as a `probit` judge does and have a habit besides. The taste of
`drift` is another one at first, the utility of points that are {EARLY_SHIFT:g}
further in each input, and comes to be that of the problem in {DRIFT} answers. To
`first` the option that is shown first seems better by the deviation, in a layout that
is drawn. A `panel` is six raters who answer in turn: three of the problem's taste, two
who share that of points {CLIQUE_SHIFT:g} further, and one who prefers what is worse.

A rule is a model and an acquisition function, and how many options its questions have:
two, or as many as `best of`, `order of` and `worst of` say. All models learn their
hyper-parameters anew after each answer.

- `ep`, `laplace`, `skew`: this package's engines with the stationary kernel of
  `benchmarks/suite/runs/kernels.py`, which was the kernel of duels before `DuelKernel`
  was one of relevances; `ep-relevance` and `ep-relevance-lapses` have that. The
  likelihood's noise is {HUMAN_NOISE:g} before a judge who errs. Before one who does
  not `ep` learns it from {NOISE:g} on and `skew` has {NOISE:g}; that of `laplace` is
  always {HUMAN_NOISE:g}, of `laplace-little-noise` {NOISE:g}. The recorded runs
  of `takeno` from seed 0, of `skewgp-figure-5` those from seeds 0 to 19 but for
  `exploring-eiig` and `eubo-pair`, SkewGP's of `-6` from seeds 0 and 1, and of `-8`
  those of `ep-apart`, and of `eiig` from seeds 0 to 3, are older:
  `ep` had {NOISE:g} in them too, and options were kept a hundredth apart. In all
  recorded runs the penalty on near options is the spread over observed points alone,
  a few percent less than that of `DistinctOptions` today.
- `ep-learned-noise`: `ep` that learns the noise of a judge who errs too, from
  {HUMAN_NOISE:g} on under a log-normal prior whose logarithm has the deviation 1.
- `ep-lapses`: as `ep-learned-noise`, and one answer in twenty of a judge who errs may
  be a lapse (`LapsingProbitLikelihood`).
- `-known`: keep the hyper-parameters of Benavoli et al. (2021) instead of learning.
- `ep-short`: `ep` whose prior of lengthscales has its mode at 0.145 times the square
  root of the number of inputs, and from six inputs on at 0.36. `ep-long`: as `ep` up to
  six inputs; from there on the mode grows with the square root, as BoTorch's does.
- `ep-wide`: `ep` whose prior of the logarithm of the output scale has the deviation 1.2
  instead of 0.7. `ep-large-scale`: as `ep` up to six inputs; from there on the output
  scale has its mode at ten all the same.
- `ep-pairwise-kernel`: `ep` with the kernel of BoTorch's `PairwiseGP` and its priors.
- `ep-default-prior`, `ep-rival-prior`: the model's own kernel and noise; those of
  optuna-dashboard.
- `-mixed`: hear which trials are valid, as one utility that is above zero there.
  `ep-apart` has a model of validity of its own. Others hear only of a very low utility.
- `pairwise-gp` is BoTorch's, and `optuna` optuna-dashboard's model with its `sampler`,
  which is asked again where it fails or proposes the recommended point itself. In two
  runs of `skewgp-figure-5`, from seeds 13 and 33, it did not return in ten minutes.
- `library` with `next-question`: `default_model` and `next_question`, as the first page
  of this documentation calls them, whoever the judge is: what the library asks. With
  `question-to-understand` it is `next_question(goal="understand")`,
  with `understand-then-find` so up to the 17th answer alone, and with `without-rivals`
  it never shows an [unbeaten option](unbeaten.md) again.
- `glis` with `glisp`: GLISp (Bemporad and Piga 2021) with its defaults. It asks about
  one new point and its best so far, and recommends the latter.

Acquisition functions choose challengers of the recommended point one after the other
(`muc` of the point with the largest mean; `joint-eubo` and `joint-kg` all at once), or
all points at once (`-pair`, and `qeubo`, which is BoTorch's):
{classes}.
`random` challengers come from the whole cube. `eiig` has `k` of
{IMPROVEMENT_WEIGHT:g}, `eiig-0.1` one of 0.1; `eiig-weighted` weighs
it with the probability of a valid trial, `eiig-constrained` asks only where that is
0.9; `hbei-own-best` lets a believer's challenger meet the best point of the draw.
The final choice of `joint-kg` may be one of up to 32 points besides the options, which
`likely_best` finds among {CANDIDATES}. That of `kg-of-space` is one of {CHOICES} points
anywhere that may be the maximum, `maximum-information` what an answer tells about the
maximum and its place (joint entropy search), `pair-or-challenger` asks the question of
`eubo-pair` or of `exploring-eiig`, whichever has the larger knowledge gradient.
`exploring-eiig-turbo` and `exploring-eiig-local` choose challengers in a box around the
incumbent, a trust region. Its side starts at 0.8 (`-turbo`) or 0.4 of the cube, doubles
after three duels in a row that a new point won, and is halved after `d` (`-turbo`) or
four in a row that a point won that was shown before.
[Acquisition functions](../acquisition.md) has what each does.
"""


def names_page() -> str:
    """The page."""
    classes = ", ".join(
        f"`{entry.name}` (`{entry.cls.__name__}`)"
        for entry in registered_acquisitions()
    )
    return _NAMES.format(
        classes=classes,
        HUMAN_NOISE=HUMAN_NOISE,
        NOISE=NOISE,
        IMPROVEMENT_WEIGHT=IMPROVEMENT_WEIGHT,
        CANDIDATES=CANDIDATES,
        CHOICES=CHOICES,
        DRIFT=DRIFT,
        EARLY_SHIFT=EARLY_SHIFT,
        CLIQUE_SHIFT=CLIQUE_SHIFT,
    )
