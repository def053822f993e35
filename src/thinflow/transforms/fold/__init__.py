"""Folding of batch norms and other factors and addends per channel into the layers beside them.

chains -> pieces -> steps -> producers: a chain has pieces, most of them steps, and a producer at its end.
forward: a norm goes into the layer behind it.
"""
