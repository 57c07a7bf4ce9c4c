"""Tables of databases, and data frames: their addresses, reading them as Arrow record batches, writing them whole."""
