"""Training data of models, and what makes them of data sets."""
