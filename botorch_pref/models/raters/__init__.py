"""Models of several raters."""
