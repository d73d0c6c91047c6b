"""The ways to answer a question, one a file: said, kept by Ax, taken by models."""
