"""Recommendations, reports and cross-validation of experiments."""
