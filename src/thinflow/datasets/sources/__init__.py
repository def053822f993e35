"""A file for each kind of source."""
