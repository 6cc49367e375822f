"""How a record of any shape becomes an example: the mapping that topics and files share."""
