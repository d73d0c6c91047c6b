"""Answers of people as Ax keeps them and as models take them."""
