"""Read a user's own CSV, TSV, JSON lines and Parquet tables."""
