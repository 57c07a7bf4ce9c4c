"""Oracles: known positives, people, a Python function, or a cross-encoder."""
