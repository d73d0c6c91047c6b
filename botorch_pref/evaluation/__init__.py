"""Held-out scores of models and baselines, and what drives a preference."""
