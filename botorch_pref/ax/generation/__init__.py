"""Questions: which designs to show next."""
