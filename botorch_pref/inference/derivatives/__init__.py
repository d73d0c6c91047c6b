"""Implicit derivatives of solutions in the prior that they were found for."""
