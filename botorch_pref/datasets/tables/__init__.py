"""Readers of tables as columns of features and answers."""
