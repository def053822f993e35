"""The version, for files and reports that name what made them."""

__version__ = "0.1.0"
