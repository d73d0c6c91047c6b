"""The search for the question that is worth most."""
