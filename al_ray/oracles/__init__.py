"""Who labels: people by files, and any program by a function. The simulated oracle is active_learning/loop.py's."""
