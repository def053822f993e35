"""Kernels, shape rules and costs of all known ops, one file per family. See `registry`."""
