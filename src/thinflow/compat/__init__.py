"""Imitations of TensorFlow's old tools, with their flags, formulas and output."""
