"""Joins impressions with the outcomes that come later, to examples."""
