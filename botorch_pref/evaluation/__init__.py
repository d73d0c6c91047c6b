"""Evaluation of models and experiments: scores, progress and explanations."""

from botorch_pref.evaluation.evidence_profile import EvidenceProfile, evidence_profile
from botorch_pref.evaluation.explanation import (
    FeatureEffect,
    feature_effect,
    inclusion_probabilities,
)
from botorch_pref.evaluation.item_ranking import ItemRanking, rank_items
from botorch_pref.evaluation.leaderboard import leaderboard
from botorch_pref.evaluation.many_ranking import ManyItemRanking
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
from botorch_pref.evaluation.rater_tables import rater_agreement, rater_reliability
from botorch_pref.evaluation.rating_board import RatingRanking, rank_ratings
from botorch_pref.evaluation.scores import (
    cross_validate_model,
    level_probabilities,
    predictive_log_probability,
)

__all__ = [
    "AnswerAgreement",
    "EvidenceProfile",
    "FeatureEffect",
    "ItemRanking",
    "ManyItemRanking",
    "RatingRanking",
    "RemainingGain",
    "StoppingAdvice",
    "answer_agreement",
    "best_probability",
    "connected_components",
    "cross_validate_model",
    "evidence_profile",
    "feature_effect",
    "inclusion_probabilities",
    "leaderboard",
    "level_probabilities",
    "predictive_log_probability",
    "rank_items",
    "rank_ratings",
    "rater_agreement",
    "rater_reliability",
    "remaining_gain",
    "stopping_advice",
    "stopping_candidates",
]
