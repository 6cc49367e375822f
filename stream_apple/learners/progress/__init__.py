"""How well scores have been so far: progressive losses, and the quality of each predictor."""
