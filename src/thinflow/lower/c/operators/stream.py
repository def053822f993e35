"""Windows over time that are kept from run to run."""

from __future__ import annotations

from thinflow.lower.c.builder import LayerBuilder
from thinflow.lower.c.forms import form
from thinflow.lower.c.streaming import WINDOW
from thinflow.tflite.model import Operator


@form(WINDOW, types="float int8 uint8 int16 int32")
def stream_window(b: LayerBuilder, op: Operator) -> None:
    """New rows -> the window they are in."""
    left, kept, hop, right = (op.options[n] * op.options["row"] for n in ("left", "kept", "hop", "right"))
    state = b.state("window", "uint8_t", kept)
    b.call("stream_window", b.input(0), b.output(), state, left, kept, hop, right)
