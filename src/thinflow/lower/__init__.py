"""Translating one op vocabulary into another."""
