"""Methods and tables of further papers: augmentation, mining, paraphrase retrieval, and the paper's own tables."""
