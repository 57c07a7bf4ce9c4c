"""Active learning of rare pairs on Ray: pairs to label, a bi-encoder from them, average precision over all pairs."""

__version__ = "0.1.0"
