"""Soft suppression: a loop that takes the best box again and again, and lowers the scores of its neighbours.

LiteRT's own operator drops boxes beyond the limit of overlap, where TensorFlow knows no limit then.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from thinflow.ir.function import ARGUMENT, Function
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.types import BOOL, FLOAT, INT32, VARIANT
from thinflow.lower import rules
from thinflow.lower.control import FlowLowering
from thinflow.lower.tflite.builder import Builder, ints, require, shape_of
from thinflow.lower.tflite.listed import Listed, Slot, items_of
from thinflow.lower.tflite.program import Tensor
from thinflow.ops._shapes import broadcast

_MOST_UNROLLED = 32  # turns, each of four operators
_MOST = 1 << 22  # overlaps of boxes, all of which are computed first


@rules.calls("NonMaxSuppressionV5", to="tflite")
def suppression(run: FlowLowering, node: Node, slots: list[Slot]) -> list[Slot]:
    """NonMaxSuppressionV5: places [k], scores [k], and how many are valid []."""
    b = run.builder
    tensors = [slot for slot in slots if isinstance(slot, Tensor)]
    # A sigma of 0 is hard suppression, which LiteRT's operator does right.
    if len(tensors) == 6 and (sigma := _number(tensors[5])) != 0:
        require(sigma is not None and sigma > 0, "its sigma is computed while the model runs, or below 0")
        return _soft(run, node, tensors, sigma or 0.0)
    rule = rules.find(node.op, "tflite")
    assert rule is not None
    b.begin(node)
    return list(rules.apply(rule, b, node, tensors))


def combined(b: Builder, code: str, x: Tensor, y: Tensor) -> Tensor:
    """Two tensors of real numbers element by element, spread over each other."""
    return b.step(code, x, y, shape=broadcast(x.shape, y.shape))


def _number(x: Tensor) -> float | None:
    return float(np.asarray(x.array()).reshape(())) if x.is_constant else None


def _soft(run: FlowLowering, node: Node, tensors: Sequence[Tensor], sigma: float) -> list[Slot]:
    b = run.builder
    boxes, scores, count, _, least, _ = tensors
    (n, _), (limit,) = shape_of(boxes, "the boxes", 2), ints(count, "max_output_size")
    threshold = _number(least)
    require(n is not None and 0 < n * n <= _MOST, "soft suppression needs a fixed number of boxes")
    # From 0 on a score that was multiplied by 0 counts as none: chosen boxes never come back.
    require(threshold is not None and threshold >= 0, "soft suppression needs a fixed score_threshold from 0")
    size = min(limit, n or 0)
    require(size > 0, "there is nothing to choose")
    # All overlaps at once: one EXP for all pairs instead of one in each turn.
    factors = _factors(b, boxes, n or 0, sigma)
    if size <= _MOST_UNROLLED:
        return _unrolled(b, node, scores, factors, (size, limit), threshold or 0.0)
    lists: list[Slot] = [Listed(size, kind, ()) for kind in (INT32, FLOAT)]
    first: list[Slot] = [b.const(np.int32(0), "turn"), scores, *lists, factors]
    condition = _condition(node, size, threshold or 0.0)
    turns, _, places, kept, _ = run.turned(condition, _body(node), first)
    assert isinstance(turns, Tensor)
    found = [items_of(b, slot) for slot in (places, kept) if isinstance(slot, Listed)]
    b.begin(node)
    if not node.get("pad_to_max_output_size", False):
        begin, ends = b.ints([0], "begin"), b.reshaped(turns, (1,))
        return [*(b.emit("SLICE", t, begin, ends, port=p) for p, t in enumerate(found)), turns]
    pads = b.const(np.array([[0, limit - size]], np.int32), "pads")
    return [*(b.step("PAD", t, pads, shape=(limit,)) if limit > size else t for t in found), turns]


def _unrolled(
    b: Builder, node: Node, scores: Tensor, factors: Tensor, sizes: tuple[int, int], least: float
) -> list[Slot]:
    """Turn by turn without a loop, which costs more than what is in it.

    Scores above a limit from 0 only fall, so those that are chosen in vain stand behind all others.

    Args:
        sizes: how many boxes may be chosen, and how many places there are.
    """
    size, limit = sizes
    places, kept = [], []
    for _ in range(size):
        axis = b.const(np.int32(0), "axis")
        place = b.step("ARG_MAX", scores, axis, shape=(), element=INT32, output_type=INT32)
        places.append(place)
        kept.append(b.step("GATHER", scores, place, shape=(), axis=0))
        # The chosen box itself is multiplied by 0, and by that taken out.
        row = b.step("GATHER", factors, place, shape=scores.shape, axis=0)
        scores = b.step("MUL", scores, row, shape=scores.shape)
    found = [b.step("PACK", *items, shape=(size,), axis=0, values_count=size) for items in (places, kept)]
    above = b.step("GREATER", found[1], b.const(np.float32(least), "least"), shape=(size,), element=BOOL)
    count = b.step("SUM", b.cast(above, INT32), b.ints([0], "axis"), shape=(), keep_dims=False)
    if not node.get("pad_to_max_output_size", False):
        begin, ends = b.ints([0], "begin"), b.reshaped(count, (1,))
        return [*(b.emit("SLICE", t, begin, ends, port=p) for p, t in enumerate(found)), count]
    filled = [
        b.step("SELECT_V2", above, t, b.scalar(0, t, "none"), shape=(size,), element=t.dtype) for t in found
    ]
    pads = b.const(np.array([[0, limit - size]], np.int32), "pads")
    return [*(b.step("PAD", t, pads, shape=(limit,)) if limit > size else t for t in filled), count]


def _factors(b: Builder, boxes: Tensor, n: int, sigma: float) -> Tensor:
    """Factors of the score of each box once one is chosen, [chosen, of which]; 0 for itself."""
    columns = b.step_ports(
        "SPLIT", b.const(np.int32(1), "axis"), boxes, shapes=[(n, 1)] * 4, elements=[FLOAT] * 4, num_splits=4
    )
    shared = area = None
    for first, second in zip(columns[:2], columns[2:], strict=True):
        # Corners come in any order.
        low, high = combined(b, "MINIMUM", first, second), combined(b, "MAXIMUM", first, second)
        side = combined(b, "SUB", high, low)
        across = [b.reshaped(t, (1, n)) for t in (low, high)]
        inner = combined(
            b, "SUB", combined(b, "MINIMUM", high, across[1]), combined(b, "MAXIMUM", low, across[0])
        )
        inner = combined(b, "MAXIMUM", inner, b.const(np.float32(0), "zero"))
        shared = inner if shared is None else combined(b, "MUL", shared, inner)
        area = side if area is None else combined(b, "MUL", area, side)
    assert shared is not None
    assert area is not None
    # Without area nothing is shared: no more is needed than a union that can be divided by.
    union = combined(b, "SUB", combined(b, "ADD", area, b.reshaped(area, (1, n))), shared)
    divisor = combined(b, "MAXIMUM", union, b.const(np.finfo(np.float32).tiny, "tiny"))
    overlap = combined(b, "DIV", shared, divisor)
    # TensorFlow's weight: exp(-0.5 / sigma * overlap^2).
    scale = b.const(np.float32(-0.5) / np.float32(sigma), "scale")
    power = combined(b, "MUL", combined(b, "MUL", overlap, overlap), scale)
    others = b.const(1 - np.eye(n, dtype=np.float32), "others")
    return combined(b, "MUL", b.step("EXP", power, shape=(n, n)), others)


def _started() -> tuple[Graph, list[Value]]:
    """A graph with the arguments turn, scores, places, kept scores, factors."""
    graph = Graph()
    kinds = (INT32, FLOAT, VARIANT, VARIANT, FLOAT)
    return graph, [
        graph.add(ARGUMENT, name=f"argument{n}", attrs={"T": kind}).output() for n, kind in enumerate(kinds)
    ]


def _best(graph: Graph, scores: Value) -> Value:
    axis = graph.constant(np.array([0], np.int32), "axes")
    return graph.add("Max", [scores, axis], "best", attrs={"T": FLOAT}).output()


def _condition(node: Node, size: int, least: float) -> Function:
    graph, arguments = _started()
    limit = graph.constant(np.array(size, np.int32), "size")
    below = graph.add("Less", [arguments[0], limit], "below", attrs={"T": INT32}).output()
    lowest = graph.constant(np.array(least, np.float32), "least")
    above = graph.add("Greater", [_best(graph, arguments[1]), lowest], "above", attrs={"T": FLOAT}).output()
    going_on = graph.add("LogicalAnd", [below, above], "going_on").output()
    return Function(f"{node.name}/condition", graph, arguments, [going_on])


def _body(node: Node) -> Function:
    graph, arguments = _started()
    turn, scores, places, kept, factors = arguments
    zero, one = (graph.constant(np.array(k, np.int32), f"number{k}") for k in (0, 1))
    place = graph.add("ArgMax", [scores, zero], "place", attrs={"T": FLOAT, "output_type": INT32}).output()
    row = graph.add("GatherV2", [factors, place, zero], "row", attrs={"Tparams": FLOAT}).output()
    after = graph.add("Mul", [scores, row], "after", attrs={"T": FLOAT}).output()
    following = graph.add("AddV2", [turn, one], "following", attrs={"T": INT32}).output()
    lists = [
        graph.add("TensorListSetItem", [values, turn, item], f"kept{n}").output()
        for n, (values, item) in enumerate(((places, place), (kept, _best(graph, scores))))
    ]
    return Function(f"{node.name}/body", graph, arguments, [following, after, *lists, factors])
