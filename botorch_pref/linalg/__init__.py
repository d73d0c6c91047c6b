"""Linear maps and semi-definite matrices."""
