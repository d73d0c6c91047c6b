"""Evaluation of models and experiments: scores, progress and explanations."""

from botorch_pref.evaluation.explanation import (
    EvidenceProfile,
    FeatureEffect,
    evidence_profile,
    feature_effect,
)
from botorch_pref.evaluation.held_out import (
    HeldOut,
    RankingFold,
    bradley_terry,
    clustered_mean,
    coin,
    cross_validate,
    cross_validate_model,
    fit_bradley_terry,
    fit_pairwise_gp,
    fit_preference_gp,
    folds_by_sets,
    predict_with,
)
from botorch_pref.evaluation.leaderboard import leaderboard
from botorch_pref.evaluation.progress import (
    AnswerAgreement,
    RemainingGain,
    StoppingAdvice,
    answer_agreement,
    best_probability,
    connected_components,
    remaining_gain,
    stopping_advice,
    stopping_candidates,
)
from botorch_pref.evaluation.scores import (
    level_probabilities,
    predictive_log_probability,
)

__all__ = [
    "AnswerAgreement",
    "EvidenceProfile",
    "FeatureEffect",
    "HeldOut",
    "RankingFold",
    "RemainingGain",
    "StoppingAdvice",
    "answer_agreement",
    "best_probability",
    "bradley_terry",
    "clustered_mean",
    "coin",
    "connected_components",
    "cross_validate",
    "cross_validate_model",
    "evidence_profile",
    "feature_effect",
    "fit_bradley_terry",
    "fit_pairwise_gp",
    "fit_preference_gp",
    "folds_by_sets",
    "leaderboard",
    "level_probabilities",
    "predict_with",
    "predictive_log_probability",
    "remaining_gain",
    "stopping_advice",
    "stopping_candidates",
]
