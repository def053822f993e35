"""tf.image.non_max_suppression_padded by the runtime's own op: a function that says what it implements.

TensorFlow's function compares all boxes with all, tile by tile: 512 at a time however few there are. The
runtimes have an op that does the same thing in other arithmetic: the function counts an overlap that equals
the limit, adds 1e-8 to every union, and passes over boxes without a positive coordinate. So the op proposes,
and what it proposes is checked in the function's own arithmetic: of the boxes above the least score, are
those that nothing of the proposal overlaps before them just the proposal? By induction that is what the
function chooses, too. Where the answer is no, the function itself runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from thinflow.ir.function import ARGUMENT, Function
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.types import BOOL, FLOAT, INT32, TensorSpec
from thinflow.typing import Array

_EPSILON = np.float32(1e-8)
_NEAR = np.float32(1 + 2**-10)
"""The function's loop ends early where all that a turn removes adds up to the limit: that is left to it."""
_MOST = 1 << 24  # overlaps that are checked
_FIXED = 6  # arguments behind the boxes and the scores, all constants


@dataclass(frozen=True)
class _Call:
    """The arguments of a call.

    Attributes:
        count: boxes there are; size: places asked for.
        is_sorted: whether the scores fall already.
    """

    count: int
    size: int
    limit: np.float32
    least: np.float32
    is_sorted: bool

    @property
    def most(self) -> int:
        """Boxes that may be chosen."""
        return min(self.size, self.count)


def proposal(name: str, specs: Sequence[TensorSpec], constants: Mapping[int, Array]) -> Function | None:
    """boxes and scores -> places int32 [1,size], how many there are, and whether both are right [].

    Args:
        name: of the function.
        specs: types and shapes of its arguments.
        constants: number of an argument -> its elements, for those that are constant.

    Returns:
        None if the function has to run.
    """
    call = _read(specs, constants)
    batch = (specs[0].shape or ())[:-2] if specs else ()
    # One image: the runtimes' op knows no batch here.
    return None if call is None or batch not in ((), (1,)) else _proposal(name, call, [1] * len(batch))


def _read(specs: Sequence[TensorSpec], constants: Mapping[int, Array]) -> _Call | None:
    """None for what is not known, or not one image's boxes as floats."""
    if len(specs) != 2 + _FIXED or not all(n in constants for n in range(2, len(specs))):
        return None
    size, limit, least, is_sorted = (constants[n] for n in range(2, 6))
    shape = specs[0].shape
    if any(s.dtype is not FLOAT for s in specs[:2]) or shape is None or len(shape) not in (2, 3):
        return None
    call = _Call(shape[-2] or 0, int(size), np.float32(limit), np.float32(least), bool(is_sorted))
    fits = 0 < call.count * call.most <= _MOST and call.limit > 0 and not np.isnan(call.least)
    return call if fits else None


def _proposal(name: str, call: _Call, batch: Sequence[int]) -> Function:
    """boxes and scores -> places [1,size], how many [batch], and whether it is right []."""
    steps = _Steps()
    arguments = [steps.argument(n) for n in range(2)]
    boxes = steps.reshaped(arguments[0], (call.count, 4))
    scores = steps.reshaped(arguments[1], (call.count,))
    order = None
    if not call.is_sorted:
        scores, order = steps.best(scores, call.count)
        boxes = steps.gathered(boxes, order)
    valid = steps.op("Greater", scores, steps.const(call.least)) if call.least > -np.inf else None
    # Numbers that fall and differ in place of scores: the op keeps the function's order, however it sorts
    # equal scores.
    falling = steps.const(np.arange(call.count, 0, -1, dtype=np.float32))
    ranks = falling if valid is None else steps.where(valid, falling, np.float32(-1))
    chosen = steps.graph.add(
        "NonMaxSuppressionV4",
        [
            boxes,
            ranks,
            *map(
                steps.const,
                # More than the number before it: at least the limit.
                (np.int32(call.size), np.nextafter(call.limit, np.float32(-1)), np.float32(0)),
            ),
        ],
        attrs={"T": FLOAT, "T_threshold": FLOAT, "pad_to_max_output_size": True, "_is_sorted": True},
    )
    places, count = chosen.output(0), chosen.output(1)
    is_kept = steps.op("Less", steps.const(np.arange(call.size, dtype=np.int32)), count)
    sure = _is_right(steps, call, boxes, valid, falling, places, is_kept)
    if order is not None:
        places = steps.where(is_kept, steps.gathered(order, places), np.int32(0))
    results = [steps.reshaped(places, (1, call.size)), steps.reshaped(count, batch), sure]
    return Function(f"{name}/proposal", steps.graph, arguments, results)


def _is_right(
    steps: _Steps,
    call: _Call,
    boxes: Value,
    valid: Value | None,
    falling: Value,
    places: Value,
    is_kept: Value,
) -> Value:
    """True [] if the places [size] in sorted boxes [n,4] are those that the function would choose."""
    most, count = call.most, np.float32(call.count)
    if call.size > most:
        places, is_kept = (steps.begun(t, most) for t in (places, is_kept))
    overlaps = _overlaps(steps, steps.gathered(boxes, places), boxes)
    hits = steps.op("GreaterEqual", overlaps, steps.const(call.limit))
    near = steps.op("GreaterEqual", overlaps, steps.const(call.limit * _NEAR))
    # `count` stands for "not kept": no box comes so late.
    # Whole numbers are exact in float32 up to 2**24, and `_MOST` allows no more boxes.
    numbers = steps.where(is_kept, steps.op("Cast", places, SrcT=INT32, DstT=FLOAT), count)
    first = steps.where(hits, steps.reshaped(numbers, (most, 1)), count)
    first = steps.reduced("Min", first, 0)  # the chosen box that overlaps each [n], or n
    # A chosen box overlaps itself, and those behind it: only one before it takes it out.
    free = steps.op("GreaterEqual", first, steps.const(np.arange(call.count, dtype=np.float32)))
    free = free if valid is None else steps.op("LogicalAnd", free, valid)
    # The best of falling numbers are the first free boxes; each number is count - place, as in `wanted`.
    left, _ = steps.best(steps.where(free, falling, np.float32(0)), most)
    wanted = steps.where(is_kept, steps.op("Sub", steps.const(count), numbers), np.float32(0))
    low, high = (steps.sliced(boxes, (0, at), (call.count, 2)) for at in (0, 2))
    sides = steps.reduced("Min", steps.op("Sub", high, low), 1)
    largest = steps.reduced("Max", boxes, 1)
    # Corners out of order give negative areas, and boxes without a positive coordinate are passed over: the
    # function decides.
    plain = steps.op(
        "LogicalAnd",
        steps.op("GreaterEqual", sides, steps.const(np.float32(0))),
        steps.op("Greater", largest, steps.const(np.float32(0))),
    )
    if valid is not None:
        # Boxes below the least score are never chosen, whatever their corners.
        plain = steps.op("LogicalOr", plain, steps.op("LogicalNot", valid))
    # These differ where an overlap is between the limit and _NEAR times that: the function's loop may end
    # early there.
    clear = steps.op("Equal", *(steps.op("Cast", t, SrcT=BOOL, DstT=FLOAT) for t in (hits, near)))
    agreed = [
        steps.all(steps.op("Equal", left, wanted), 1),
        steps.all(plain, 1),
        steps.all(clear, 2),
    ]
    return steps.op("LogicalAnd", steps.op("LogicalAnd", *agreed[:2]), agreed[2])


def _overlaps(steps: _Steps, chosen: Value, boxes: Value) -> Value:
    """Of each chosen box [k,4] with each of all [n,4], in the arithmetic of the function: [k,n]."""
    one = steps.split(chosen, 1)
    every = steps.split(
        steps.graph.add("Transpose", [boxes, steps.const(np.array([1, 0], np.int32))]).output(), 0
    )
    zero = steps.const(np.float32(0))

    def side(low: int, high: int) -> Value:
        begin = steps.op("Maximum", one[low], every[low])
        end = steps.op("Minimum", one[high], every[high])
        return steps.op("Maximum", steps.op("Sub", end, begin), zero)

    def area(corners: Sequence[Value]) -> Value:
        y, x = (steps.op("Sub", corners[n + 2], corners[n]) for n in (0, 1))
        return steps.op("Mul", y, x)

    shared = steps.op("Mul", side(1, 3), side(0, 2))
    union = steps.op("Sub", steps.op("AddV2", area(one), area(every)), shared)
    return steps.op("RealDiv", shared, steps.op("AddV2", union, steps.const(_EPSILON)))


class _Steps:
    """A graph under construction."""

    def __init__(self) -> None:
        self.graph = Graph()

    def argument(self, number: int) -> Value:
        return self.graph.add(ARGUMENT, name=f"argument{number}", attrs={"T": FLOAT}).output()

    def const(self, array: Any) -> Value:
        return self.graph.constant(np.asarray(array), "const")

    def op(self, op: str, *inputs: Value, **attrs: Any) -> Value:
        attrs = attrs or ({} if op.startswith("Logical") else {"T": inputs[0].dtype or FLOAT})
        node: Node = self.graph.add(op, list(inputs), attrs=attrs)
        return node.output()

    def where(self, condition: Value, x: Value, other: Any) -> Value:
        return self.graph.add("SelectV2", [condition, x, self.const(other)]).output()

    def reshaped(self, x: Value, shape: Sequence[int]) -> Value:
        return self.graph.add("Reshape", [x, self.const(np.array(shape, np.int32))]).output()

    def gathered(self, x: Value, places: Value) -> Value:
        return self.graph.add("GatherV2", [x, places, self.const(np.int32(0))]).output()

    def begun(self, x: Value, size: int) -> Value:
        return self.sliced(x, (0,), (size,))

    def sliced(self, x: Value, begin: Sequence[int], size: Sequence[int]) -> Value:
        ends = [self.const(np.array(n, np.int32)) for n in (begin, size)]
        return self.graph.add("Slice", [x, *ends]).output()

    def split(self, x: Value, axis: int) -> list[Value]:
        node = self.graph.add("Split", [self.const(np.int32(axis)), x], attrs={"num_split": 4})
        return [node.output(n) for n in range(4)]

    def best(self, x: Value, k: int) -> tuple[Value, Value]:
        node = self.graph.add("TopKV2", [x, self.const(np.int32(k))], attrs={"sorted": True})
        return node.output(0), node.output(1)

    def reduced(self, op: str, x: Value, axis: int) -> Value:
        return self.graph.add(op, [x, self.const(np.array([axis], np.int32))]).output()

    def all(self, x: Value, rank: int) -> Value:
        return self.graph.add("All", [x, self.const(np.arange(rank, dtype=np.int32))]).output()
