"""A language model behind an OpenAI-compatible endpoint as the oracle."""
