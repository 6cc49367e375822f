"""Selected tuples of higher order: sALR and hsALR of Zaidi et al., many passes over data in memory, and baselines."""
