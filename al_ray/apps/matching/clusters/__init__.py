"""Clusters of texts from matches: connected components or average linkage, their figures, and ids that stay."""
