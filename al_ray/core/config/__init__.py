"""Option blocks that several rooms share: fields, defaults, bounds and help."""
