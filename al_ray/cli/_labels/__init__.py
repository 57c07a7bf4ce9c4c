"""Parts of the command labels."""
