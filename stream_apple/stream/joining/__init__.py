"""How impressions and the outcomes that come later become examples."""
