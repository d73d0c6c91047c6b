"""Held-out levels of bitterness, and held-out answers in (0, 1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from held_out_scores import (
    Predict,
    Prediction,
    answer_folds,
    fitted,
    rater_folds,
    score_rows,
)
from published_answers import load_car_task, load_reading_skills
from torch import Tensor
from torch.distributions import Beta

from botorch_pref import EPPreferenceGP, LaplacePreferenceGP, SkewPreferenceGP
from botorch_pref.datasets import (
    FeedbackData,
    load_wine,
)
from botorch_pref.datasets.data import distinct_items
from botorch_pref.evaluation import (
    level_probabilities,
    predictive_log_probability,
)
from botorch_pref.feedback import OrdinalRatings, Ratings
from botorch_pref.models import PreferenceGP, rater_covar_module

WINE_FOLDS = 9
CAR_TASK_FOLDS, READING_FOLDS = 5, 11
ALL = 10_000
RIDGE = 0.01
"""Precision of the Gaussian prior of each weight of a Beta regression."""

Levels = FeedbackData[OrdinalRatings]
Fractions = FeedbackData[Ratings]


def wine_rows() -> list[list[object]]:
    """Scores of levels of bottles, by raters who were met and by others."""
    data = with_rater_column(load_wine())
    without_raters = {
        "frequencies": frequencies,
        "frequencies of the wine": frequencies_of_item,
        "EP": without_rater(levels_by(EPPreferenceGP)),
    }
    with_raters = {
        "EP, raters": levels_by(EPPreferenceGP, raters=True),
        "SkewGP, raters": levels_by(SkewPreferenceGP, raters=True),
    }
    everybody = without_raters | with_raters
    bottles, raters = answer_folds(data, WINE_FOLDS), rater_folds(data, WINE_FOLDS)
    return score_rows("wine, raters met", data, bottles, everybody) + score_rows(
        "wine, new raters", data, raters, everybody
    )


def fraction_rows() -> list[list[object]]:
    """Ratings of the two data sets with answers in (0, 1)."""
    predictors = {
        "one Beta": one_beta,
        "Beta regression": beta_regression,
        "EP": fractions_by(EPPreferenceGP),
        "Laplace": fractions_by(LaplacePreferenceGP),
    }
    rows = []
    for title, data, num_folds in (
        ("CarTask", load_car_task(), CAR_TASK_FOLDS),
        ("ReadingSkills", load_reading_skills(), READING_FOLDS),
    ):
        rows += score_rows(title, data, answer_folds(data, num_folds), predictors)
    return rows


def with_rater_column(data: Levels) -> Levels:
    """The same answers about pairs of an item and its rater.

    Args:
        data: With raters.
    """
    items = data.datapoints[data.feedback.indices]
    raters = data.raters.to(items).unsqueeze(-1)
    datapoints, indices = distinct_items(torch.cat([items, raters], dim=-1))
    feedback = OrdinalRatings(indices, data.feedback.levels, data.feedback.num_levels)
    return FeedbackData(
        datapoints, feedback, (*data.feature_names, "rater"), data.raters
    )


def without_rater(predict: Predict) -> Predict:
    """Predictor that is not told the rater.

    Args:
        predict: Of items without the last column.
    """

    def cut(data: Levels) -> Levels:
        return FeedbackData(
            data.datapoints[:, :-1], data.feedback, data.feature_names[:-1], data.raters
        )

    return lambda train, test: predict(cut(train), cut(test))


def frequencies(train: Levels, test: Levels) -> Prediction:
    """Frequencies of levels in training, each counted once more."""
    return of_table(1.0 + counts(train.feedback.levels, train).expand(1, -1), test, 0)


def frequencies_of_item(train: Levels, test: Levels) -> Prediction:
    """The same for each of the four wines by itself."""
    kinds = [wine_of(data) for data in (train, test)]
    each = [counts(train.feedback.levels[kinds[0] == k], train) for k in range(4)]
    return of_table(1.0 + torch.stack(each), test, kinds[1])


def wine_of(data: Levels) -> Tensor:
    """Number of the wine of each answer."""
    warm, contact = data.datapoints[data.feedback.indices, :2].long().unbind(-1)
    return 2 * warm + contact


def counts(levels: Tensor, data: Levels) -> Tensor:
    """Number of times that each level was given."""
    return levels.bincount(minlength=data.feedback.num_levels).double()


def of_table(table: Tensor, test: Levels, row: Tensor | int) -> Prediction:
    """Predictions from rows of counts."""
    share = (table / table.sum(-1, keepdim=True))[row]
    return of_levels(share.expand(len(test), -1), test)


def of_levels(probabilities: Tensor, test: Levels) -> Prediction:
    """The likeliest level is the answer."""
    given = test.feedback.levels
    log_probability = probabilities.gather(-1, given[:, None]).squeeze(-1).log()
    return Prediction(log_probability, (probabilities.argmax(-1) == given).double())


def levels_by(model_class: type[PreferenceGP], raters: bool = False) -> Predict:
    """A model of levels.

    Args:
        model_class: The engine.
        raters: Whether the last column is the rater.
    """

    def predict(train: Levels, test: Levels) -> Prediction:
        options: dict[str, Any] = {}
        if raters:
            dim = train.datapoints.shape[-1] - 1
            options["covar_module"] = rater_covar_module(dim)
        model = fitted(model_class, train, ALL, scale=not raters, **options)
        with torch.no_grad():
            points = test.datapoints[test.feedback.indices]
            return of_levels(level_probabilities(model, points), test)

    return predict


def fractions_by(model_class: type[PreferenceGP]) -> Predict:
    """A model of answers in (0, 1).

    Args:
        model_class: The engine.
    """

    def predict(train: Fractions, test: Fractions) -> Prediction:
        model = fitted(model_class, train, ALL)
        answers = test.feedback
        with torch.no_grad():
            log_density = predictive_log_probability(answers, model, test.datapoints)
            posterior: Any = model.posterior(
                test.datapoints[answers.indices].unsqueeze(-2)
            )
            moments = posterior.mean[..., 0, 0], posterior.variance[..., 0, 0]
            expected = model.likelihood.expected_answer(*moments)
        return of_fractions(log_density, expected, answers)

    return predict


def of_fractions(log_density: Tensor, expected: Tensor, answers: Ratings) -> Prediction:
    """Density and squared error."""
    square = (answers.ratings - expected).square()
    return Prediction(log_density, squared_error=square)


def one_beta(train: Fractions, test: Fractions) -> Prediction:
    """The Beta distribution of largest likelihood, whatever the item."""
    return beta_fit(train, test, lambda data: torch.ones(len(data), 1).double())


def beta_regression(train: Fractions, test: Fractions) -> Prediction:
    """A mean logistic in the features and their product, and one precision."""

    def design(data: Fractions) -> Tensor:
        x = data.datapoints[data.feedback.indices]
        columns = [torch.ones_like(x[:, :1]), x, x.prod(-1, keepdim=True)]
        return torch.cat(columns, dim=-1)

    return beta_fit(train, test, design)


def beta_fit(
    train: Fractions, test: Fractions, design: Callable[[Fractions], Tensor]
) -> Prediction:
    """Maximum likelihood, but for a weak prior of weights, by L-BFGS.

    Args:
        train: The answers.
        test: Held out.
        design: Rows whose products with the weights are the logits of means.
    """
    rows, answers = design(train), train.feedback.ratings
    parameters = torch.zeros(rows.shape[-1] + 1).double().requires_grad_()

    def distribution(rows: Tensor) -> Beta:
        mean = (rows @ parameters[1:]).sigmoid()
        precision = 10 * parameters[0].exp()
        return Beta(precision * mean, precision * (1 - mean))

    optimizer = torch.optim.LBFGS(
        [parameters], max_iter=500, line_search_fn="strong_wolfe"
    )

    def loss() -> Tensor:
        optimizer.zero_grad()
        value = 0.5 * RIDGE * parameters[1:].square().sum()
        value = value - distribution(rows).log_prob(answers).sum()
        value.backward()
        return value

    optimizer.step(loss)
    with torch.no_grad():
        found = distribution(design(test))
    given = test.feedback
    return of_fractions(found.log_prob(given.ratings), found.mean, given)
