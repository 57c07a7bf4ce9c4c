"""Parts of the command plan."""
