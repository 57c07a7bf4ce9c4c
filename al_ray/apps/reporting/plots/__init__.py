"""Matplotlib figures of runs."""
