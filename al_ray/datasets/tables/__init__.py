"""A user's own CSV, TSV, JSONL or Parquet to a task."""
