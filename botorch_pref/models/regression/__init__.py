"""Utilities that are linear in features, in weight space."""
