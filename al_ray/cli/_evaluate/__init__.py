"""Parts of the command evaluate."""
