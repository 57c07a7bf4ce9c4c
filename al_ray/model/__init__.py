"""One process: encoder, training, neighbours and the shard of a pool, as plain classes over torch and Faiss."""
