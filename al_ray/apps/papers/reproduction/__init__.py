"""Reproduction of the paper's tables and figures."""
