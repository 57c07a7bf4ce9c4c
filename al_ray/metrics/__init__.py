"""Statistics over all pairs. numpy and the standard library only."""
