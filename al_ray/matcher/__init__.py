"""The matcher: from the comparisons of a candidate pair to the probability that it is a match."""
