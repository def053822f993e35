"""The linter: what an expert would notice in a trained network, with its evidence, cost and remedy.

A rule is a function under `@rule`, in a file of its own in `lint/rules`, named as the rule is. It is given a
`Context`, which works out what rules ask for once and only when one asks, and yields findings. A rule that
cannot be sure says nothing: an untrue finding costs more trust than ten true ones earn.
"""
