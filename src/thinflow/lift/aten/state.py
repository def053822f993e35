"""Buffers of PyTorch modules that each run changes, as variables."""

from __future__ import annotations

from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.lift.lifter import Call
from thinflow.lift.onnx.values import text
from thinflow.lift.rules import lifts


@lifts("aten.buffer")
def _buffer(c: Call) -> Value:
    """What a buffer holds when a run begins."""
    first = c[0]
    if first.node.tensor is None:
        raise UnsupportedOp("the first value of its buffer is computed")
    name = f"resource {text(c, 'name', '')}"
    handle = c.emit("LiteRTVariable", first, dtype=first.dtype, shared_name=name)
    return c.variable_read(handle)


@lifts("aten.buffer_write")
def _buffer_write(c: Call) -> list[Value]:
    """What a buffer holds when the next run begins. No results."""
    c.variable_written(c[0].node.inputs[0], c[1])
    return []
