"""Labels of a run: counts, corrections, closed rounds, and the page on which people label."""
