"""Groups of options that several commands have, each with the class that it becomes."""
