"""A source to a task folder; one file a data set."""
