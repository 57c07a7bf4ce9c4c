"""Benchmarks: python -m benchmarks search|memory|evaluate|encode. Not part of the wheel."""
