"""Statements of each tutorial's text, held to what its cells leave behind.

Each function has the name of a notebook, and gets the names that it leaves. Tolerances
have room for the rounding of other processors.
"""

import math
from types import SimpleNamespace

import torch

from botorch_pref import incumbent
from botorch_pref.ax.findings import has_effect


def a_person_in_the_loop(notebook: SimpleNamespace) -> None:
    values = list(notebook.again.report().summary["value"].items())
    assert dict(values)["answers"] == 15
    assert notebook.undone["question"] != notebook.question["question"]
    assert notebook.question["options"][0] == notebook.mine
    assert notebook.liking(notebook.best) > -0.6


def ax_experiment(notebook: SimpleNamespace) -> None:
    value = notebook.report.summary["value"]
    assert notebook.killed.returncode == -notebook.signal.SIGKILL
    assert notebook.pending.index == 7
    events = notebook.experiment.log.questions[2].events
    kinds = ["asked", "told", "withdrawn", "told"]
    assert [event.kind for event in events] == kinds
    assert value["questions"] == value["answers"] == 12
    assert value["pending"] == 0
    assert value["stop"]
    assert notebook.same.trials == notebook.experiment.experiment.trials
    assert notebook.same._properties == notebook.experiment.experiment._properties
    for cup in (notebook.best, notebook.experiment.recommend()):
        assert cup["dose"] + cup["pressure"] <= 28
        # Of the way from her worst cup, near -20, to her best, 1.5.
        assert notebook.utility(cup) > 1
    effects = notebook.report.effects.groupby("parameter")
    named = {parameter for parameter, effect in effects if has_effect(effect)}
    assert named >= {"bean", "dose", "grind"}, "the print names three parameters"
    assert notebook.scores.loc["rankings", "log_loss"] < math.log(24)
    assert notebook.scores.loc["validity", "log_loss"] < math.log(2)


def preferences_over_outcomes(notebook: SimpleNamespace) -> None:
    assert notebook.best > notebook.best_of_twenty
    assert (notebook.utility(notebook.many) < notebook.best).double().mean() > 0.99
    assert notebook.shares[-1] > 0.75
    best = incumbent(notebook.model)
    missing = best.clone()
    missing[..., 3] = notebook.ranges[1, 3]
    assert notebook.model.duel_probability(missing, best) < 0.1


def rankings_and_choices(notebook: SimpleNamespace) -> None:
    assert notebook.taken > 0.75
    hold = {
        key: coverage[17].item()
        for key, (coverage, _, _) in notebook.calibration.items()
    }
    assert all(abs(hold[k, "choices"] - 0.9) < 0.03 for k in (2, 4, 6))
    assert abs(hold[2, "duels"] - hold[2, "choices"]) < 0.002
    assert 0.68 < hold[6, "duels"] < 0.78 < hold[4, "duels"] < 0.86
    for k in (4, 6):
        assert (
            notebook.calibration[k, "duels"][1] < notebook.calibration[k, "choices"][1]
        )
        assert (
            notebook.calibration[k, "duels"][2] > notebook.calibration[k, "choices"][2]
        )
    assert (
        notebook.weights[notebook.sport].abs() < 1.96 * notebook.stated[notebook.sport]
    )
    assert (
        notebook.blind.weights_mean[notebook.sport]
        > 1.96 * notebook.deviations(notebook.blind)[notebook.sport]
    )
    assert all(
        notebook.weights[notebook.names.index(name)] < 0
        for name in ("price", "acc", "cost")
    )
    best, worst = (
        notebook.losses["4,354 people: logit"],
        notebook.losses["own type, nothing else"],
    )
    assert (
        best
        < notebook.losses["4,354 people: logit without own_type"]
        < worst
        < math.log(6)
    )
    assert all(
        (best < loss < worst for name, loss in notebook.losses.items() if "150" in name)
    )
    gps = [loss for name, loss in notebook.losses.items() if "process" in name]
    assert max(gps) - notebook.losses["150 people: logit"] < 0.02
    assert 5 < notebook.worth[0] < notebook.worth[1] < 15 < notebook.worth[2]
    assert (
        notebook.trip_losses["process"]
        < 0.7
        < 1.1
        < notebook.trip_losses["logit"]
        < math.log(4)
    )
    for name, (_, loss) in notebook.curves.items():
        place = (notebook.learned[name].eta.log() - notebook.etas.log()).abs().argmin()
        assert loss[place] - loss.min() < (0.002 if name == "laplace" else 0.005)
    assert (
        125
        < notebook.curves["laplace"][0].max() - notebook.curves["variational"][0].max()
        < 145
    )
    for length in (5, 10):
        assert 1.3 < notebook.bias[length, "variational"][5] < 1.5
        assert notebook.bias[length, "variational"][2] == 0
    for length in (2, 5, 10):
        assert abs(notebook.bias[length, "laplace"][5] - 1) < 0.1
        assert notebook.bias[length, "laplace"][2] > 0.8
    direct, staged = (
        notebook.recovered["whole ranking"],
        notebook.recovered["its stages"],
    )
    assert all(torch.allclose(*fits) for fits in zip(direct, staged, strict=True))
    errors = {
        kind: (mean - notebook.weights)[:, notebook.shown].square().mean().sqrt().item()
        for kind, (mean, _) in notebook.recovered.items()
    }
    assert errors["whole ranking"] < errors["first two"] < errors["first place"]
    assert 0.5 < errors["whole ranking"] / errors["first place"] < 0.7


def ratings_and_strengths(notebook: SimpleNamespace) -> None:
    assert abs(notebook.worth[8.0] - 9.1) < 0.1
    assert all((ratio > 1 + nu for nu, ratio in notebook.worth.items()))
    assert abs(notebook.lost.mean() - 0.012) < 0.004
    assert notebook.lost.mean() > 2 * notebook.lost.std() / 30**0.5
    assert (notebook.learned - notebook.shift - notebook.UNEVEN).abs().max() < 0.5
    for name, count in (("strengths", 45), ("ratings", 29), ("levels", 12)):
        assert abs(notebook.as_comparisons[f"8 {name}"] / count - 1) < 0.15
    assert abs(notebook.as_comparisons["all 32"] / 115 - 1) < 0.15
    assert all(profile.identified for profile in notebook.profiles.values())
    for name, profile in notebook.profiles.items():
        assert profile.interval[0] < notebook.TRUE[name] < profile.interval[1]
    assert notebook.apart < 0.1
    assert (
        abs(notebook.as_nine.log_evidence() - notebook.as_one.log_evidence() - 4.7)
        < 0.1
    )
    assert abs(notebook.agreement - 0.72) < 0.01
    assert bool((notebook.shared.mean.flatten().diff() > 0).all())
    assert bool((notebook.own.diff(dim=0) > 0).double().mean() > 0.9)
    sweep = "sour to sweet"
    assert (
        notebook.drifted[sweep][2]
        > notebook.flat["comparisons"]
        > notebook.drifted[sweep][1]
    )
    assert notebook.flat["strengths"] < min(
        min(row) for row in notebook.drifted.values()
    )
    assert abs(notebook.coverage[sweep, 3.0] - 0.4) < 0.05
    assert abs(notebook.coverage[sweep, 0.0] - 0.95) < 0.03
    assert abs(notebook.precisions[sweep, 3.0] - 8.0) < 0.8
    assert abs(notebook.precisions["random order", 3.0] - 2.4) < 0.3
    assert abs(notebook.coverage["random order", 3.0] - 0.88) < 0.03
    assert (
        abs(notebook.duel_score(notebook.misled, notebook.utility).mean() + 0.64) < 0.01
    )
    assert (
        abs(
            notebook.duel_score(notebook.steady["comparisons"], notebook.utility).mean()
            + 0.55
        )
        < 0.01
    )
    assert max(notebook.drifted["random order,\ntime in the model"]) < 0.35
    every = [
        notebook.model,
        notebook.ep,
        notebook.as_one,
        notebook.as_nine,
        notebook.misled,
        *notebook.models.values(),
        *notebook.steady.values(),
    ]
    assert all(m.diagnostics()["converged"] for m in every)


def trials_that_fail(notebook: SimpleNamespace) -> None:
    assert len(notebook.crossing) == 1
    assert abs(notebook.crossing.item() + 0.28) < 0.03
    assert (notebook.mean_1d[notebook.grid < -0.3] < 0).all()
    assert (notebook.mean_1d[notebook.grid > -0.25] > 0).all()
    assert notebook.model.diagnostics()["converged"]
    for X, best in notebook.runs.values():
        assert notebook.works(X[8:]).double().mean() > 0.8
        assert 2 - notebook.g(best) < 0.6
    assert abs(math.sin(2.745 - 2.3523 - math.pi / 8)) < 5e-05
    assert notebook.near[0] < 0.3
    assert notebook.near[1] == 1.0
    for machine, name, value in (
        ("too bad", "shared", 0.94),
        ("too bad", "of its own", 0.7),
        ("band", "shared", 0.56),
        ("band", "of its own", 0.93),
    ):
        assert abs(notebook.agreement[machine, name] - value) < 0.03
    lengthscales = [
        m.covar_module.base_kernel.lengthscale for m in notebook.models.values()
    ]
    assert (lengthscales[0] < lengthscales[1]).all()
    assert all(
        (ok[best] for starts in notebook.ends.values() for _, ok, best in starts)
    )
    for machine in notebook.MACHINES:
        assert notebook.table[machine, "left out"][0] > 10
    for approach in notebook.WAYS[1:]:
        failures, _, mean_regret, _ = notebook.table["too bad", approach]
        assert failures < 6
        assert mean_regret < 0.2
    _lost, shared, own_column = (
        notebook.table["band", approach] for approach in notebook.WAYS[1:]
    )
    assert own_column[2] < shared[2]
    assert own_column[2] < 0.15
    assert own_column[0] < 8


def why_laplace_misleads(notebook: SimpleNamespace) -> None:
    mean_19, mean_51 = (notebook.truth[0.19][0], notebook.truth[-0.51][0])
    assert abs(mean_19 - 8.11) < 0.03
    assert abs(mean_51 + 4.98) < 0.03
    for name, tolerance in (("EP", 0.05), ("exact", 0.1)):
        assert abs(notebook.summary[name, 0.19][0] - mean_19) < tolerance
        assert abs(notebook.summary[name, -0.51][0] - mean_51) < tolerance
    for place, ratio_mean, ratio_deviation in ((0.19, 0.44, 0.87), (-0.51, 0.51, 0.83)):
        mean, deviation, skew = notebook.truth[place]
        assert abs(notebook.summary["Laplace", place][0] / mean - ratio_mean) < 0.01
        assert (
            abs(notebook.summary["Laplace", place][1] / deviation - ratio_deviation)
            < 0.01
        )
        assert abs(notebook.summary["exact", place][2] - skew) < 0.05
    assert abs(notebook.summary["Laplace", 0.19][0] - 3.6) < 0.05
    assert abs(notebook.closed_skewness + 1.07) < 0.01
    assert abs(notebook.skewness.min() - notebook.closed_skewness) < 0.06
    assert abs(notebook.readings[0.02]) < 0.01
    assert abs(notebook.readings[50.0] - notebook.readings[1.0]) < 0.001
    assert abs(notebook.upper_ends["exact"] - 1.41) < 0.1
    assert abs(notebook.upper_ends["EP"] - 2.77) < 0.02
    assert abs(notebook.upper_ends["Laplace"] - 2.54) < 0.02
    assert abs(max(notebook.errors["Laplace"]) - 0.235) < 0.003
    assert abs(max(notebook.errors["EP"]) - 0.05) < 0.003
    assert max(notebook.errors["EP"][len(notebook.asked) :]) < 0.03
    assert max(notebook.errors["exact"]) < 0.006
    gap = notebook.log_evidence["closed form"] - notebook.log_evidence["Laplace"]
    assert abs(gap - 1.24) < 0.01
    assert (
        abs(notebook.log_evidence["closed form"] - notebook.log_evidence["EP"]) < 0.01
    )
    assert notebook.diagnostics["converged"]


def quick_start(notebook: SimpleNamespace) -> None:
    assert len(notebook.orders) == 10
    assert abs(notebook.dose - 18.5) < 1.0
    assert abs(notebook.pressure - 6) < 0.7
    assert notebook.model.diagnostics()["converged"]


def raters_who_disagree(notebook: SimpleNamespace) -> None:
    board, means = notebook.board, notebook.means
    assert board["rank"].idxmin() == "B fresh"
    assert board["rank"].idxmax() == "B old"
    assert (means.loc[[16, 86], "old"] > 2 * means.loc[[16, 86], "fresh"]).all()
    assert (means.loc[[3, 51], "old"] < means.loc[[3, 51], "fresh"]).all()
    assert 24 < len(notebook.answers) / 12 < 28


def tune_a_picture(notebook: SimpleNamespace) -> None:
    assert len(notebook.orders) == 10
    # Within 15 % of the range of each knob.
    hidden = torch.tensor([0.2, 0.5, 0.7], dtype=torch.double)
    assert (notebook.found - hidden).abs().max() < 0.3
    assert notebook.model.diagnostics()["converged"]


def bring_your_ax_experiment(notebook: SimpleNamespace) -> None:
    best, experiment = notebook.best, notebook.experiment
    assert abs(best["dose"] - 18.5) < 1.0
    assert abs(best["pressure"] - 6.5) < 1.0
    assert best["dose"] + best["pressure"] <= 28
    assert experiment.num_answers == 12
    assert len(notebook.client._experiment.trials) == 4  # as it was


def tune_by_a_slider(notebook: SimpleNamespace) -> None:
    assert notebook.experiment.num_answers == 10
    # A hand that misses by 0.02 of a line, which is 2 long, and by what a digit hides.
    for knob, value in notebook.hidden.items():
        assert abs(notebook.best[knob] - value) < 0.15
