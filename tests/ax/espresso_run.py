"""The interrupted experiments of `test_resume`, as a script.

A process creates one experiment for each model, answers most questions, asks one more,
and is killed. Another one, which shares nothing with it but the imported modules,
resumes them, answers the rest and prints what it recommends.
"""

import json
import os
import signal
import sys
import warnings

# Ax warns of its own old names and of old pandas.
warnings.simplefilter("ignore")

import torch  # noqa: E402
from espresso import QUICK_FIT, better, create  # noqa: E402

from botorch_pref.ax import PreferenceExperiment, log_store  # noqa: E402

# As the tests have it: sums of several threads are rounded otherwise, and what follows
# from them differs by more than rounding in the end.
torch.set_num_threads(1)

QUESTIONS, SPREAD, HALF = 6, 4, 4
OPTIONS = {
    "SkewPreferenceGP": {"num_draws": 64},
    "SparsePreferenceGP": {"num_inducing": 4},
}
FEW_DRAWS = {"warmup_steps": 2, "num_samples": 2, "thinning": 1, "max_tree_depth": 1}
ACQUISITION = {"LaplacePreferenceGP": "DuelingEUBO"}
# Sampling takes its time: one question of one model is enough.
INITIAL = {"FullyBayesianEPPreferenceGP": QUESTIONS - 1}
# Others keep and draw as these do.
MODELS = [
    *("EPPreferenceGP", "LaplacePreferenceGP", "SkewPreferenceGP"),
    "SparsePreferenceGP",
    *("PlackettLuceRegression", "FullyBayesianEPPreferenceGP"),
]
INTERRUPTED = "interrupted while writing"


def samples(model: str) -> bool:
    return model.startswith("FullyBayesian")


def settings(model: str) -> dict:
    return {
        "model": model,
        "acquisition": ACQUISITION.get(model, "DuelingEIIG"),
        "initial": INITIAL.get(model, SPREAD),
        "seed": 3,
        "model_options": OPTIONS.get(model, {}),
        "fit_options": FEW_DRAWS if samples(model) else QUICK_FIT,
    }


def play(experiment: PreferenceExperiment, until: int) -> None:
    while len(experiment.experiment.trials) < until:
        question = experiment.ask(2)
        experiment.tell(question, winner=better(question))


def killed(*_args: object, **_kwargs: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def first(storage: str) -> None:
    for model in MODELS:
        experiment = create(storage, model, **settings(model))
        play(experiment, HALF)
        experiment.ask(2)
    experiment = create(storage, INTERRUPTED)
    play(experiment, 2)
    question = experiment.ask(2)
    # After the head of the log is written and before the event is.
    log_store._insert = killed
    experiment.tell(question, winner=better(question))


def second(storage: str) -> None:
    import jax

    # Compiling the sampler takes longer than so few draws.
    jax.config.update("jax_disable_jit", True)
    found = {}
    for model in MODELS:
        experiment = PreferenceExperiment.resume(model, storage=storage)
        (question,) = experiment.pending
        experiment.tell(question, winner=better(question))
        play(experiment, QUESTIONS)
        found[model] = outcome(experiment)
    sys.stdout.write(json.dumps(found))


def outcome(experiment: PreferenceExperiment) -> list:
    trials = experiment.experiment.trials.values()
    shown = [[*map(dict, experiment.question(trial.index).options)] for trial in trials]
    best = experiment.recommend()
    if samples(experiment.settings.model):
        return [shown, best, best]
    return [shown, best, experiment.recommend(anywhere=True)]


if __name__ == "__main__":
    process = os.fork()
    if process == 0:
        first(sys.argv[1])
        sys.exit("The first process goes on.")
    _, status = os.waitpid(process, 0)
    if os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
        sys.exit("The first process was not killed.")
    second(sys.argv[1])
