"""Trained networks of our own, to compare quantizers on: drawn data, training scripts, and the files."""
