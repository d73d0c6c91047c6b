"""Factors of rows of utilities: what engines see of answers."""
