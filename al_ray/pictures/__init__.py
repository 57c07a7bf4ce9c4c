"""Pictures of figures: bytes of files, which others write. matplotlib has its home here; no display is needed."""
