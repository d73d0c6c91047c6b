"""Functions and models around others."""
