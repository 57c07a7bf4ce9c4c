"""Active learning (paper, section 4): options, strategies, the loop, its ports. Pure."""
