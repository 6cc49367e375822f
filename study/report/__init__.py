"""The report of a study: derived numbers, tables, figures."""
