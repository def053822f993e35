"""A file for each family of metrics."""
