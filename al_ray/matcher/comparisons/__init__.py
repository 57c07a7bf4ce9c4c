"""Comparisons of two records: columns of values and pairs of rows -> numbers (n, F)."""
