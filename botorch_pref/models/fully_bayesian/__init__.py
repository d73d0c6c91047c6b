"""Models that average over their hyper-parameters."""
