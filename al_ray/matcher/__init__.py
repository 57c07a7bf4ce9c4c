"""Match records by comparisons of their fields."""
