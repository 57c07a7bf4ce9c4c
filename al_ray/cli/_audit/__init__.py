"""Parts of the command audit."""
