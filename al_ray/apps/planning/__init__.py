"""Cost model: memory, time and disk of a run before it starts."""
