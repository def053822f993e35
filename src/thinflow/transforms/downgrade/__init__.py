"""Newer ops in the words of older releases."""
