"""Copies of files whose own runtime refuses them for a slip in them."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from thinflow.api.files import runtime_format
from thinflow.errors import FormatError, VerificationError
from thinflow.formats.files import write_file
from thinflow.ir.graph import Graph
from thinflow.load.graphs import Source, load
from thinflow.optimize.conversion import Conversion

_TOLERANCE = 0.05
"""Of the largest code: XNNPACK rounds once where the interpreter rounds twice, a few codes of 255."""


def mended_copy(source: Source, target: str, *, verify: bool = True) -> Conversion | None:
    """A .tflite file, written so that LiteRT takes it; None where there is nothing to mend, where that would
    not be enough, and where the file is damaged, which whoever opens it tells.

    Args:
        target: a .tflite file, too.
        verify: whether LiteRT's answers are compared with those of the file as it is, in the interpreter.

    Raises:
        VerificationError: the answers differ; nothing is written.
    """
    if isinstance(source, Graph) or runtime_format(source) != "tflite":
        return None
    from thinflow.api.comparing import verify as compare
    from thinflow.engines._mended import mended_file

    path = os.fspath(source)
    try:
        found = mended_file(path)
    except FormatError:
        return None
    if found is None:
        return None
    content, what = found
    proof = f"a copy in which this is mended: {what}"
    if verify:
        with tempfile.TemporaryDirectory(prefix="thinflow-") as folder:
            aside = Path(folder, "mended.tflite")
            aside.write_bytes(content)
            compared = compare(load(path), aside, tolerance=_TOLERANCE)
        if not compared.ok:
            raise VerificationError(
                f"with '{what}' mended LiteRT answers otherwise than the interpreter with the file itself:"
                f" {compared.worst:.2g} of the largest value off",
                path,
                hint="please report this with the model",
            )
        proof += f"; LiteRT answers as the interpreter does with the file itself, on {compared.runs} inputs"
    return Conversion(target, write_file(target, [content]), proof)
