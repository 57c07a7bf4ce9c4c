"""Who labels: people by files, and any program by a function. The simulated oracle is core/loop.py's."""
