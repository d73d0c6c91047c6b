"""The designs of an experiment, and how they are told apart."""
