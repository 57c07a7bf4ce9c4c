"""Matches of a trained model: assignment, clusters and their quality."""
