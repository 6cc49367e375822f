"""Has models learn, several at the same time: which thread works on which model, and when."""
