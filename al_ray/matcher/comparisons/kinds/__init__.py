"""The comparisons, one file for each kind of value."""
