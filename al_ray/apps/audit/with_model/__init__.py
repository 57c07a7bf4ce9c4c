"""An audit that a language model and people label."""
