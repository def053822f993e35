"""Kinds of devices: `NAME.py` is the kind that addresses begin with, as in `NAME:where`.

Each has a function `device(where, settings)`, `KEYS`, the settings that it knows, and `ADDRESS`, how its
addresses are written. A file that is added here is found by being here.
"""
