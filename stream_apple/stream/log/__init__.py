"""The log as the rest of `stream` sees it: records, offsets, and the port of a broker."""
