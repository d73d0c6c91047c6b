"""Stores of experiments: SQL, JSON and the log of events."""
