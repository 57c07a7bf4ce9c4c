"""Parts of the command paraphrase."""
