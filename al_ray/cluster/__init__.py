"""Many processes: actors of the plain classes of model/, on Ray. The only place that imports it."""
