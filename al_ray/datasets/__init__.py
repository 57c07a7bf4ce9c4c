"""Read data sets and write task folders; one module for each data set."""
