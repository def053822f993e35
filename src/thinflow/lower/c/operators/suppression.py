"""Boxes that are left of those that overlap."""

from __future__ import annotations

from thinflow.errors import UnsupportedOp
from thinflow.lower.c.builder import LayerBuilder
from thinflow.lower.c.forms import form
from thinflow.lower.c.layer import NOTHING, Argument
from thinflow.tflite.model import Operator


@form("NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5", types="float")
def non_max_suppression(b: LayerBuilder, op: Operator) -> None:
    """boxes [n,4], scores [n], how many, thresholds -> numbers of boxes, perhaps their scores, a count."""
    boxes, scores = b.input(0), b.input(1)
    is_soft = op.code == "NON_MAX_SUPPRESSION_V5"
    count, most = b.shape(scores)[0], b.shape(b.output())[0]
    # The sizes of the outputs are fixed by it, and nothing says what is meant beyond them.
    if int(b.array(2).reshape(-1)[0]) != most:
        raise UnsupportedOp("the most boxes there may be are not the size of its output")
    sigma: Argument = b.input(5) if is_soft else NOTHING
    chosen_scores: Argument = b.output(1) if is_soft else NOTHING
    ends = (b.output(0), chosen_scores, b.output(2 if is_soft else 1))
    memory = (b.scratch(4 * count), b.scratch(4 * count))
    b.call("non_max_suppression", boxes, scores, b.input(3), b.input(4), sigma, *ends, *memory, count, most)
