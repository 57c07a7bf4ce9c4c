"""Option blocks that several packages share: fields, defaults, bounds and help."""
