"""Parts of the command demo."""
