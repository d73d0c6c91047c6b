"""Engines over the weights of linear utilities."""
