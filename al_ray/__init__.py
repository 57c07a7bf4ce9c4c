"""Active learning of rare pairs on Ray: which pairs to label, a bi-encoder from them, and average precision over all pairs."""

__version__ = "0.1.0"
