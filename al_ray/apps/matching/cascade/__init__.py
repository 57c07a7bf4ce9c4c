"""Sure matches by the model, uncertain pairs by an oracle: a language model, a function or a cross-encoder."""
