"""Exports of a trained model: a folder of sentence-transformers or an ONNX graph, with scorer and model card."""
