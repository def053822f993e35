"""Ops said as simpler TensorFlow ops, for targets that have no form of their own for them."""
