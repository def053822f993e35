"""Labelled samples of any size: sources cut into shards, each of which can be read by itself, again and
again.

A source yields records: named fields as they are stored, nothing of a model in them. `fields` makes of a
record what a model is fed.
"""
