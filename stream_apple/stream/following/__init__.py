"""Models that follow those of a group, as readers: the walk of `verification`, without an end."""
