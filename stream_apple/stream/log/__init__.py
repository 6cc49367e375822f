"""The log as the rest sees it: records, offsets, and the port of a broker."""
