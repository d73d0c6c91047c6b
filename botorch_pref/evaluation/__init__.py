"""Evaluation of models and experiments: scores, progress and explanations."""

from botorch_pref.evaluation.explanation.drivers import FeatureEffect, feature_effect
from botorch_pref.evaluation.explanation.evidence_profile import (
    EvidenceProfile,
    evidence_profile,
)
from botorch_pref.evaluation.held_out.bradley_terry import (
    bradley_terry,
    fit_bradley_terry,
)
from botorch_pref.evaluation.held_out.choice_model import (
    fit_pairwise_gp,
    fit_preference_gp,
    predict_with,
)
from botorch_pref.evaluation.held_out.held_out import (
    HeldOut,
    clustered_mean,
    coin,
    cross_validate,
)
from botorch_pref.evaluation.held_out.model_cross_validation import (
    cross_validate_model,
)
from botorch_pref.evaluation.held_out.predictive_log_probability import (
    level_probabilities,
    member_log_probability,
    predictive_log_probability,
)
from botorch_pref.evaluation.held_out.ranking_folds import (
    RankingFold,
    folds_by_samples,
    folds_by_sets,
)
from botorch_pref.evaluation.held_out.ranking_metrics import (
    PositiveRatio,
    comparison_auc,
    item_values,
    ordered_pairs,
    positive_ratio,
    top_k_value,
)
from botorch_pref.evaluation.progress.answer_agreement import (
    AnswerAgreement,
    answer_agreement,
)
from botorch_pref.evaluation.progress.best_probability import best_probability
from botorch_pref.evaluation.progress.comparison_graph import connected_components
from botorch_pref.evaluation.progress.remaining_gain import (
    RemainingGain,
    remaining_gain,
)
from botorch_pref.evaluation.progress.stopping import StoppingAdvice, stopping_advice
from botorch_pref.evaluation.progress.stopping_candidates import stopping_candidates
from botorch_pref.evaluation.ranking.leaderboard import leaderboard

__all__ = [
    "AnswerAgreement",
    "EvidenceProfile",
    "FeatureEffect",
    "HeldOut",
    "PositiveRatio",
    "RankingFold",
    "RemainingGain",
    "StoppingAdvice",
    "answer_agreement",
    "best_probability",
    "bradley_terry",
    "clustered_mean",
    "coin",
    "comparison_auc",
    "connected_components",
    "cross_validate",
    "cross_validate_model",
    "evidence_profile",
    "feature_effect",
    "fit_bradley_terry",
    "fit_pairwise_gp",
    "fit_preference_gp",
    "folds_by_samples",
    "folds_by_sets",
    "item_values",
    "leaderboard",
    "level_probabilities",
    "member_log_probability",
    "ordered_pairs",
    "positive_ratio",
    "predict_with",
    "predictive_log_probability",
    "remaining_gain",
    "stopping_advice",
    "stopping_candidates",
    "top_k_value",
]
