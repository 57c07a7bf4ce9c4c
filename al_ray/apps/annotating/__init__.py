"""A page in the browser on which people label pairs: jobs.annotate, and jobs.run --oracle page."""
