"""Ray: plain classes of search/ and training/ as actors on many processes."""
