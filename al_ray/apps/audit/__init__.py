"""Human audit of a model's false positives and recall."""
