"""Parts of the command mine."""
