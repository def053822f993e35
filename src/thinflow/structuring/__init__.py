"""Finds the loops and branches of TF1 graphs, and says them as functions."""
