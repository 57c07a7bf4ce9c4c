"""Records are compared field by field, and a matcher learns from labelled pairs how likely a pair is a match."""
