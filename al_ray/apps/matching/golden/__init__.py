"""Golden records: one record of each cluster, each of whose values is chosen by a rule or given by a person."""
