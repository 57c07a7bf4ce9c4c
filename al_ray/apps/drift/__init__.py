"""How the texts to match differ from those of training, and which of their pairs to label next."""
