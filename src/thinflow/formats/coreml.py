"""Core ML models are recognised, since they look like ONNX ones, and not read."""

from __future__ import annotations

from thinflow.errors import FormatError
from thinflow.formats.format import Format, Sample
from thinflow.wire.fields import read_varint

_NEWEST = 32
"""Specification versions are small numbers; 9 is the newest known."""


def is_core_ml(sample: Sample) -> bool:
    """True if a file begins with a version and a description that begins with a feature or metadata.

    Where Core ML has a message in field 2, ONNX has the name of the producer, a printable text.
    """
    head = sample.head
    # 0x08: field 1, a varint (the version); 0x12: field 2, with a length. ONNX
    # models begin with the same two.
    if len(head) < 8 or head[0] != 0x08 or not 0 < head[1] < _NEWEST or head[2] != 0x12:
        return False
    try:
        size, at = read_varint(head, 3)
        tag, at = read_varint(head, at)
        length, _ = read_varint(head, at)
    except FormatError:
        return False
    # Fields 1 (an input) and 10 (an output) of the description, which must fit into it.
    return tag in (0x0A, 0x52) and length <= size


FORMAT = Format(
    "coreml",
    "a Core ML model",
    is_core_ml,
    rank=18,
    hint="give the TensorFlow model that it was made from; thinflow does not read Core ML",
)
