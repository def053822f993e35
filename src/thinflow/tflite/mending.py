"""Files that LiteRT refuses for a slip of their converter, though only one thing can be meant."""

from __future__ import annotations

import struct
from collections.abc import Sized

from thinflow.tflite.reader import read_program


def mended(data: memoryview | bytes) -> tuple[bytes, str] | None:
    """The bytes of a .tflite file that LiteRT takes, and what was wrong; None if nothing was.

    All else stays byte for byte, files in an archive behind the model included.

    Raises:
        FormatError: the file is damaged.
    """
    places = read_program(data, losses=[]).wrong_axes
    if not places:
        return None
    content = bytearray(data)
    for place in places:
        struct.pack_into("<i", content, place, 0)
    return bytes(content), slip_text(places)


def slip_text(places: Sized) -> str:
    """The slip in words, of so many vectors."""
    what = "1 vector names" if len(places) == 1 else f"{len(places)} vectors name"
    return f"{what} an axis of scales that a vector lacks, which LiteRT refuses"
