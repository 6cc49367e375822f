"""Groups of options that several commands have, each with the class that holds them."""
