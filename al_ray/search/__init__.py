"""Vectors to candidates and counts: Faiss, exact join, merge. Knows nothing of training."""
