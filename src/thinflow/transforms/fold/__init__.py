"""Folding of batch norms and other factors and addends per channel into the layers beside them.

chains -> pieces -> steps -> producers: a chain consists of pieces, most of them steps, and ends at a producer.
forward: a norm goes into the layer behind it.
"""
