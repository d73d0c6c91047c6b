"""Explanations of a fitted model: drivers and identified hyper-parameters."""
