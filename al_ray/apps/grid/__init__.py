"""Grids of runs on Ray Tune."""
