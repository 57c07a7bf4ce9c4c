"""The parts of benchmarks/gpu.py. Each module has a function `measure`, which adds its figures to a dictionary."""
