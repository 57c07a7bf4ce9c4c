"""Text to token ids to vectors; cross-encoders beside bi-encoders."""
