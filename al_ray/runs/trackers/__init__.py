"""Trackers of runs: where the metrics of each round are also written."""
