"""A small encoder before a large one, as one more certified dimension, on the same trace machinery."""
