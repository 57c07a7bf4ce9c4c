"""Augmented SBERT."""
