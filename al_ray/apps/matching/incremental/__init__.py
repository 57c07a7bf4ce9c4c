"""Matching new texts with known ones: what is kept from one command to the next, and what is searched again."""
