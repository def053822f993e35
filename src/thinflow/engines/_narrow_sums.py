"""Whether eight-bit sums of an .onnx file may overflow in the kernels that ONNX Runtime takes by itself.

What cannot overflow is run as applications run it: kernels that cannot take longer.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thinflow.errors import ThinflowError
from thinflow.ir.types import INT8

if TYPE_CHECKING:
    from thinflow.ir.graph import Graph
    from thinflow.ir.node import Node, Value

_DEQUANTIZE = "DequantizeLinear"
_WORDS = (b"QLinear", b"antize", b"Integer", b"QGemm", b"QAttention")
"""One of them at least is in a file that multiplies integers."""
_LARGE_BYTES = 32_000_000
"""From here on a look for words takes longer than to import what reads the file."""


def sums_may_overflow(content: bytes | str) -> bool:
    """True unless no pair of products of a model can be more than 16 bits hold.

    Args:
        content: the bytes of the .onnx file, or its path.
    """
    try:
        return _has_words(content) and _has_large_pairs(content)
    except (ThinflowError, OSError):
        return True  # the runtime says what is wrong with it


def _has_words(content: bytes | str) -> bool:
    size = len(content) if isinstance(content, bytes) else Path(content).stat().st_size
    if size > _LARGE_BYTES:
        return True
    data = content if isinstance(content, bytes) else Path(content).read_bytes()
    return any(word in data for word in _WORDS)


def _has_large_pairs(content: bytes | str) -> bool:
    from thinflow.formats.files import map_file
    from thinflow.formats.onnx import from_bytes

    path = None if isinstance(content, bytes) else Path(content)
    data = memoryview(content) if isinstance(content, bytes) else map_file(content)
    graph = from_bytes(data, path=path)
    # Bodies of loops are not looked into.
    return bool(graph.functions) or any(_may_overflow(*use) for use in _signed(graph))


def _signed(graph: Graph) -> Iterator[tuple[Value, Node, int]]:
    """int8 values, who computes with them, and where among its inputs they stand."""
    for node in graph:
        for value in node.outputs:
            if value.dtype is not INT8:
                continue
            for reader, index in value.uses:
                if _DEQUANTIZE not in reader.op:
                    yield value, reader, index
                elif index == 0:
                    yield from ((value, user, place) for user, place in reader.output().uses)


def _may_overflow(codes: Value, node: Node, index: int) -> bool:
    from thinflow.onnx.program import Operator
    from thinflow.quantize.narrow_sums import overflow
    from thinflow.rewrite.pattern import constant_tensor

    tensor = constant_tensor(codes)
    if tensor is None:
        return index > 0  # of the first operand codes may be any: the others are what matters
    array = tensor.numpy()
    if array.ndim < 2:
        return False  # zero points
    is_convolution = "Conv" in node.op and "Transpose" not in node.op
    if array.ndim > 2 and not is_convolution:
        return True
    options: dict[str, Any] = {key: node.attrs[key] for key in ("group", "transB") if key in node.attrs}
    return overflow(Operator("Conv" if is_convolution else "MatMul", [], [], options), array)
