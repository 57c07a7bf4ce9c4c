"""Estimates from a few labels of drawn pairs: of putative false positives, and of bands of score."""
