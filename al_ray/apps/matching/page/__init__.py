"""The page of matches: scores, matches by score band, clusters, conflicts, changes and drift."""
