"""Ranking of items by what a model knows of their utilities."""
