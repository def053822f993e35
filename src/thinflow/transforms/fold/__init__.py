"""Folding of batch norms, factors and constants into what they follow."""
