"""Question paraphrase retrieval by deep metric learning."""
