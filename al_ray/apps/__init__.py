"""Applications built on the spine; each feature is one folder."""
