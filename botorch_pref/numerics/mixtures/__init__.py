"""Mixtures of Gaussians with one variance: moments, quantiles and intervals."""
