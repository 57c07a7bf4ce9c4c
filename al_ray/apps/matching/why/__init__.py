"""Why the pairs of a match folder match: what each comparison adds to the p of a matcher."""
