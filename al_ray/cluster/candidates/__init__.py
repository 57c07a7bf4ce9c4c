"""Two stages on Ray: shards find and compare candidates, a matcher ranks them, and all else is as with cosines."""
