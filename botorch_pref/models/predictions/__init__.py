"""Predictions from models: answers, what they will leave open, function draws."""
