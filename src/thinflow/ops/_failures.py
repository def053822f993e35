"""Python's errors from a rule or kernel that meets a node it was not written for, in words for its user."""

from __future__ import annotations

import re

_UNPACKED = re.compile(r"(?:too many|not enough) values to unpack \(expected (?:at least )?(\d+)")
_MISSING = re.compile(r"missing \d+ required (positional|keyword-only) arguments?: (.*)")
_SURPLUS = re.compile(r"takes (?:from \d+ to )?(\d+) positional arguments? but (\d+)")


def in_words(error: Exception) -> str:
    """The node's fault. Messages of numpy about shapes and types are kept."""
    text = str(error)
    # Their texts name things of the source, not of the model.
    if isinstance(error, KeyError | AttributeError | AssertionError) or not text:
        return "its inputs or attributes are not as its op demands"
    if unpacked := _UNPACKED.search(text):
        return f"an input does not have {unpacked[1]} dimensions"
    if missing := _MISSING.search(text):
        what = "input" if missing[1] == "positional" else "attribute"
        return f"it lacks the {what} {missing[2]}"
    if surplus := _SURPLUS.search(text):
        return f"it has {surplus[2]} inputs, and its op takes {surplus[1]}"
    # Rules index shapes, so an index out of range is nearly always a missing dimension.
    if re.fullmatch(r"(tuple|list|string) index out of range", text):
        return "an input has too few dimensions"
    return text
