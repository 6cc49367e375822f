"""The learner without a stream: on files, for choosing settings and for checking what a worker published."""
