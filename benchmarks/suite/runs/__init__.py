"""One run, many of them, and the files that keep them."""
