"""Files of runs: ledger, metrics, evaluation sets and seed sets."""
