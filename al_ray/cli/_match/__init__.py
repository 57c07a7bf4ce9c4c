"""Parts of the command match."""
