"""Golden records on the page on which people label: they look at a cluster, and override values of its record."""
