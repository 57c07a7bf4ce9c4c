"""Oracles: known positives, people, a Python function, a language model, or a cross-encoder."""
