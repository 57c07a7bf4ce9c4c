"""Encoders: text to token ids to vectors (bi-encoders), and pairs of texts to scores (cross-encoders)."""
