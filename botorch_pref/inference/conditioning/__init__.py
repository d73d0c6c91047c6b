"""Gaussian conditioning on sites, in the space of rows or of points."""
