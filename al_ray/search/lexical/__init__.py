"""Character 3-grams of texts on disk, and for each text the others that share most of them, weighted by TF-IDF."""
