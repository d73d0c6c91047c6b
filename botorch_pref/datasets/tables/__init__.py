"""Tables as columns of features and answers."""
