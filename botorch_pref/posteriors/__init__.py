"""Posteriors of preference models, and what is read off any posterior."""
