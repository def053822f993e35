"""Helpers of several transforms: constants behind values, effects of nodes, nodes that compute nothing or a
constant."""
