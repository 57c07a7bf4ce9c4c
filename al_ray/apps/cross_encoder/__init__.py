"""Train cross-encoders and evaluate them over all pairs."""
