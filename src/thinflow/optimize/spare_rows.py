"""The rows of an object detector that LiteRT never writes: behind the last box they hold what memory held."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from thinflow.ir.graph import Node, Value
from thinflow.typing import Array

_DETECTION = "TFLite_Detection_PostProcess"
_COUNT = 3
"""The output with the number of boxes; those before it have a row for each, and rows to spare."""


def counts_of(outputs: Sequence[Value]) -> dict[Value, Value]:
    """The outputs with rows to spare, each with the value that counts its boxes."""
    spare = (v for v in outputs if v.node.op == _DETECTION and v.port < _COUNT)
    return {v: v.node.output(_COUNT) for v in spare}


def written(array: Array, value: Value, counts: Mapping[Value, Array]) -> Array:
    """The part of an output [1,m,...] that LiteRT writes, a view: all of it, but for rows to spare.

    Args:
        array: the output.
        value: whose it is.
        counts: number of boxes [1] by output, for those with rows to spare.
    """
    if value not in counts or array.ndim < 2:
        return array
    return array[:, : int(counts[value].reshape(-1)[0]) * _rows_per_box(value.node)]


def _rows_per_box(node: Node) -> int:
    """Where each class suppresses its own boxes, a box has one row; else one for each of its best classes."""
    if node.attrs.get("use_regular_nms", False):
        return 1
    best, classes = (node.attrs.get(key, 1) for key in ("max_classes_per_detection", "num_classes"))
    assert isinstance(best, int), "the interpreter has run it"
    assert isinstance(classes, int), "the interpreter has run it"
    return min(best, classes)
