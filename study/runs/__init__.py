"""How the runs of a study are done: planned, in processes, kept in a journal."""
