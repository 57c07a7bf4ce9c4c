"""Parts of the command reproduce."""
