"""Parts of the command train."""
