"""Parts of the command annotate."""
