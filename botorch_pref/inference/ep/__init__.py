"""Expectation propagation with one-dimensional sites."""
