"""Audits of clusters: what match delivers, from a few of its records with their clusters and candidates."""
