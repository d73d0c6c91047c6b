"""Posteriors of preference models, and differences and duels under any posterior."""
