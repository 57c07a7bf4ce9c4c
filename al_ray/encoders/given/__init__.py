"""Encoders that compute no vector: their vectors are given."""
