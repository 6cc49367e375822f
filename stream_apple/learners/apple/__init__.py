"""Apple, the learner: arrays in, arrays out."""
