"""Labels that are one of k classes: scores, update and mixture of the softmax loss, beside those of one score."""
