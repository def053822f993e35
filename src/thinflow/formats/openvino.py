"""OpenVINO's models (.xml with a .bin beside it), told apart from other files. OpenVINO alone opens them."""

from __future__ import annotations

import os
import re
from pathlib import Path

from thinflow.formats.format import HEAD_BYTES, Format, Sample
from thinflow.ir.vocabulary import OPENVINO

_HEAD = re.compile(rb"(\xef\xbb\xbf)?\s*(<\?xml[^>]*\?>\s*)?(<!--[^>]*-->\s*)?<net[\s>]")


def begins_ir(head: bytes) -> bool:
    """Whether an OpenVINO model can begin so: XML with the root `net`."""
    return _HEAD.match(head) is not None


WEIGHTS_SUFFIX = ".bin"
"""Of the file of weights, which stands beside an .xml and has its stem."""


def weights_beside(path: str | os.PathLike[str]) -> list[Path]:
    """The file of weights of an OpenVINO model, if it is there; none for any other file."""
    target = Path(path)
    with open(target, "rb") as file:
        is_ir = begins_ir(file.read(HEAD_BYTES))
    weights = target.with_suffix(WEIGHTS_SUFFIX)
    return [weights] if is_ir and weights.is_file() else []


def _recognise(sample: Sample) -> bool:
    return begins_ir(sample.head)


FORMAT = Format(
    name=OPENVINO.name,
    title=OPENVINO.title,
    recognise=_recognise,
    hint="OpenVINO alone opens it: `thinflow run`, `benchmark` and `verify` take it; else give the model that"
    " it was made from",
    vocabulary=OPENVINO,
    rank=14,
)
