"""Labels against the quality of a matcher over all pairs of a task, beside rankings without labels."""
