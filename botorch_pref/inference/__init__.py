"""Engines: posteriors and evidences of utilities, on tensors and never on models."""
