"""Where things are kept: local paths and object stores (s3://, gs://) alike, and one writer at a time."""
