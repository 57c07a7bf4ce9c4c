"""The page of jobs.match: scores, matches by score band, clusters, conflicts, changes and drift."""
