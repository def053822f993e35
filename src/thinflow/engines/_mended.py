"""Files that LiteRT refuses for a slip in them, as it takes them."""

from __future__ import annotations

from thinflow.engines.litert import Model
from thinflow.errors import EngineUnavailable
from thinflow.formats.packed_bytes import bytes_of
from thinflow.tflite.mending import mended


def mended_file(path: str) -> tuple[bytes, str] | None:
    """The bytes of a .tflite file without its slips, and what was wrong; None if nothing was, or if LiteRT
    refuses it all the same.

    Raises:
        FormatError: the file is damaged.
    """
    found = mended(bytes_of(path))
    if found is None:
        return None
    try:
        Model.as_it_says(found[0])
    except EngineUnavailable:
        return None
    return found
