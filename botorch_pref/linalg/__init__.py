"""Linear maps and matrices that every layer above works with."""
