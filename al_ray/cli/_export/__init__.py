"""Parts of the command export."""
