"""Labels to weights and a scorer."""
