"""From a record or a row to an example, whatever its format; and the product's own message, in `message`."""
