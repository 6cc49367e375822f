"""Logistic regression by stochastic gradient descent, as a lecture has it: lazily regularised, hashed, personalised."""
