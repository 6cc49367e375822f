"""A schema registry, and what records that are framed by its schemas hold."""
