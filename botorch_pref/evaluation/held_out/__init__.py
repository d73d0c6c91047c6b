"""Held-out scores of models and baselines, by answers, raters, sets and items."""
