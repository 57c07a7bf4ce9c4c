"""Searches over all pairs of two sets of texts: the pairs of least cost, and the best partner of every text."""
