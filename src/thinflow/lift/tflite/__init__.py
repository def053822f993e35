"""Lifting rules for LiteRT's operators."""
