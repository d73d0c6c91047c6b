"""Implicit derivatives of solutions in their prior."""
