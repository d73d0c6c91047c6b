"""Variational lower bounds of logistic and softmax answers."""
