"""Latency and memory, measured so that the numbers can be compared."""
