"""Parts of the command serve."""
