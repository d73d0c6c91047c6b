"""Questions and answers of several raters."""
