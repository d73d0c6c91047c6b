"""Likelihoods of the answers of a model, and which engines take them."""
