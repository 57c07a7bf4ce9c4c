"""Parts of the command augment."""
