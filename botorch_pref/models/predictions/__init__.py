"""Predictions from models: probabilities of answers, and function draws."""
