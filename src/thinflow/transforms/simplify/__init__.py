"""Arithmetic that does nothing, and two steps that one can do."""
