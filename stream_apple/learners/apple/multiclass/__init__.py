"""Labels that are one of k classes: scores, update and mixture for the softmax loss."""
