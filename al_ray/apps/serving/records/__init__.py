"""Matches of records by a matcher: the p that `match` gives a record that is added to the known left texts."""
