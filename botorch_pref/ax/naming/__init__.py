"""Classes and objects by the names that experiments store."""
