"""Preferential optimisation of known functions with a simulated judge."""
