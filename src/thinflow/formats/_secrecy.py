"""Record of whether this process has read an encrypted model.

From then on no copy of any model goes to a temporary file, not even of one that was made from it: what was
decrypted stays in memory. It holds for the whole process, since a graph may have been changed, cut up or
converted on its way to an engine.
"""

from __future__ import annotations

_met = False


def note_secret() -> None:
    """An encrypted model is in memory now."""
    global _met
    _met = True


def may_write_copies() -> bool:
    """True if a temporary file may hold a model."""
    return not _met
