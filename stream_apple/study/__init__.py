"""Methods are compared on sets of data, as papers compare them."""
