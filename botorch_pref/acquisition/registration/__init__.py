"""Names and input constructors of acquisition functions."""
