"""Parts of the command prepare."""
