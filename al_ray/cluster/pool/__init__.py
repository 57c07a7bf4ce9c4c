"""The pool of a run over shard actors: what a shard does in a stage, and what the driver asks of all shards."""
