"""Learning from files, without a stream: one pass by one learner or several, and the measures of it."""
