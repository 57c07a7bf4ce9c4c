"""Cross-encoders (called concatenation models in the paper) over a pool."""
