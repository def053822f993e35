"""Files that LiteRT refuses for a slip in them, as it takes them."""

from __future__ import annotations

from thinflow.formats.packed_bytes import bytes_of
from thinflow.tflite.mending import mended
from thinflow.tflite.runtime import allocate, interpreter


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
        made = interpreter(model_content=found[0], allocated=False)
        # What is left open is settled by who feeds it.
        if all((d["shape_signature"] >= 0).all() for d in made.get_input_details()):
            allocate(made)
    except (ValueError, RuntimeError):
        return None
    return found
