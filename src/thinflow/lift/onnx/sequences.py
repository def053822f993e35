"""ONNX's sequences and optionals, resolved while lifting: which tensors are in them is mostly known.

A node of an op of ours stands for one while the graph grows; its inputs are the items. None is left behind.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.order import execution_order
from thinflow.ir.types import INT32
from thinflow.lift.inline import inlined
from thinflow.lift.lifter import Call
from thinflow.lift.onnx.values import bounded, integers, rank
from thinflow.lift.rules import lifts

_SEQUENCE, _OPTIONAL = "onnx.sequence_of", "onnx.optional_of"
"""Ops that stand for a sequence and for what may be there."""
MOST_ITEMS = 4096
"""Items of a sequence; each is nodes of its own."""


# --- what stands for them -----------------------------------------------------------------------------------


def _behind(value: Value) -> Node:
    """The node that a value comes from, through those that hand it on."""
    node = value.node
    while node.op == "Identity":
        node = node.inputs[0].node
    return node


def is_sequence(value: Value) -> bool:
    """True if a value stands for a sequence."""
    return _behind(value).op == _SEQUENCE


def sequence(c: Call, items: Sequence[Value]) -> Value:
    """What stands for a sequence of these."""
    if len(items) > MOST_ITEMS:
        raise UnsupportedOp(f"it makes a sequence of {len(items)} tensors")
    return c.lifter.graph.add(_SEQUENCE, list(items), f"{c.name}/sequence").output()


def items_of(c: Call, place: int) -> list[Value]:
    """The items of an operand that is a sequence.

    Raises:
        UnsupportedOp: which they are is known only while the model runs.
    """
    value = c[place]
    if not is_sequence(value):
        raise UnsupportedOp("what its sequence holds is known only while the model runs")
    return list(_behind(value).inputs)


def without_sequences(graph: Graph, given: Sequence[Value]) -> None:
    """Take out what stood for sequences and optionals.

    Args:
        given: the results of the graph.

    Raises:
        UnsupportedOp: something else reads one, or the graph gives one.
    """
    kinds = {_SEQUENCE: "sequence", _OPTIONAL: "optional"}
    if not any(node.op in kinds for node in graph):
        return
    stand_ins = [n for n in execution_order(graph) if n.op in kinds or _hands_on(n, kinds)]
    for node in stand_ins:
        kind = kinds[_behind(node.output()).op]
        if node.output() in given:
            raise UnsupportedOp(f"'{node.name}' is {_article(kind)}, which TensorFlow's models do not give")
        for use in node.output().uses:
            if use.node not in stand_ins:
                raise UnsupportedOp(f"{use.node.op} reads {_article(kind)} here", use.node.where)
    # Sequences of sequences: readers first.
    for node in reversed(stand_ins):
        graph.remove(node)


def _hands_on(node: Node, kinds: Collection[str]) -> bool:
    return node.op == "Identity" and _behind(node.output()).op in kinds


def _article(kind: str) -> str:
    return f"an {kind}" if kind == "optional" else f"a {kind}"


# --- sequences ----------------------------------------------------------------------------------------------


@lifts("onnx.SequenceEmpty", ignores=("dtype",))
def _empty(c: Call) -> Value:
    return sequence(c, [])


@lifts("onnx.SequenceConstruct")
def _construct(c: Call) -> Value:
    return sequence(c, [c[n] for n in range(len(c.xs))])


def _place(c: Call, operand: int, count: int, *, may_be_behind: bool = False) -> int:
    """A position that is an operand, among so many items; negative ones count from the end."""
    place = int(c.known(operand).reshape(-1)[0])
    if not -count <= place < count + may_be_behind:
        raise UnsupportedOp(f"its position {place} is not among {count}")
    return place + count if place < 0 else place


@lifts("onnx.SequenceAt")
def _at(c: Call) -> Value:
    items = items_of(c, 0)
    if c.content(c[1]) is not None:
        return items[_place(c, 1, len(items))]
    shapes = {item.spec.shape for item in items}
    shape = next(iter(shapes), None)
    if len(shapes) != 1 or shape is None or None in shape:
        raise UnsupportedOp("its position is computed, and its items differ in size")
    together = c.emit("Pack", *items, N=len(items), axis=0)
    index = c.emit("Reshape", c[1], integers(c, ()))
    # Positions may be counted from the end.
    index = c.emit("FloorMod", index, c.emit("Cast", c.constant(len(items)), DstT=index.dtype))
    return c.emit("GatherV2", together, index, c.constant(0))


@lifts("onnx.SequenceInsert")
def _insert(c: Call) -> Value:
    items = items_of(c, 0)
    place = _place(c, 2, len(items), may_be_behind=True) if c.has(2) else len(items)
    return sequence(c, [*items[:place], c[1], *items[place:]])


@lifts("onnx.SequenceErase")
def _erase(c: Call) -> Value:
    items = items_of(c, 0)
    if not items:
        raise UnsupportedOp("its sequence has no items")
    place = _place(c, 1, len(items)) if c.has(1) else len(items) - 1
    return sequence(c, [*items[:place], *items[place + 1 :]])


@lifts("onnx.SequenceLength")
def _length(c: Call) -> Value:
    return integers(c, len(items_of(c, 0)))


@lifts("onnx.ConcatFromSequence")
def _concat(c: Call) -> Value:
    items, axis = items_of(c, 0), int(c.get("axis", 0))
    if not items:
        raise UnsupportedOp("its sequence has no items")
    if c.flag("new_axis"):
        return c.emit("Pack", *items, N=len(items), axis=axis)
    if len(items) == 1:
        return c.emit("Identity", items[0])
    return c.emit("ConcatV2", *items, c.constant(axis), N=len(items), Tidx=INT32)


@lifts("onnx.SplitToSequence")
def _split(c: Call) -> Value:
    """SplitToSequence: slices of one, pieces of a size, or pieces of sizes of their own."""
    axis, count = int(c.get("axis", 0)), rank(c)
    size = (c[0].spec.shape or ())[axis % count]
    keeps = c.flag("keepdims", default=True)
    if not c.has(1):
        if size is None:
            raise UnsupportedOp("the number of its slices is not known")
        return sequence(c, _slices(c, axis, bounded(size), keeps=keeps))
    sizes = c.known(1)
    if sizes.ndim == 0:
        if size is None or sizes < 1:
            raise UnsupportedOp("the number of its pieces is not known")
        step = int(sizes)
        whole, rest = divmod(size, step)
        sizes = np.array([step] * whole + ([rest] if rest else []))
    if len(sizes) > MOST_ITEMS:
        raise UnsupportedOp(f"it makes a sequence of {len(sizes)} tensors")
    if len(sizes) < 2:
        return sequence(c, [c.emit("Identity", c[0])] * len(sizes))
    node = c.many("SplitV", c[0], integers(c, sizes.tolist()), c.constant(axis), num_split=len(sizes))
    return sequence(c, [node.output(n) for n in range(len(sizes))])


def _slices(c: Call, axis: int, size: int, *, keeps: bool) -> list[Value]:
    if size > MOST_ITEMS:
        raise UnsupportedOp(f"it makes a sequence of {size} tensors")
    if size == 0:
        return []
    node: Node
    if keeps:
        node = c.many("Split", c.constant(axis), c[0], num_split=size, T=c[0].dtype)
    else:
        node = c.many("Unpack", c[0], num=size, axis=axis)
    return [node.output(n) for n in range(size)]


@lifts("onnx.SequenceMap")
def _map(c: Call) -> list[Value]:
    """SequenceMap: a body for the items of a sequence, and for those of others, or tensors, beside it."""
    function = c.body("body")
    captured = int(c.get("captures", 0))
    own = len(c.xs) - captured
    counts = {len(items_of(c, n)) for n in range(own) if is_sequence(c[n])}
    first = len(items_of(c, 0))
    if counts != {first}:
        raise UnsupportedOp("its sequences differ in length")
    outside = [c[n] for n in range(own, len(c.xs))]
    rows = []
    for number in range(first):
        operands = [items_of(c, n)[number] if is_sequence(c[n]) else c[n] for n in range(own)]
        rows.append(inlined(c, function, [*operands, *outside], name=f"{c.name}/{number}"))
    return [sequence(c, [row[n] for row in rows]) for n in range(len(function.outputs))]


# --- optionals ----------------------------------------------------------------------------------------------


@lifts("onnx.Optional", ignores=("type",))
def _optional(c: Call) -> Value:
    items = [c[0]] if c.has(0) else []
    return c.lifter.graph.add(_OPTIONAL, items, f"{c.name}/optional").output()


@lifts("onnx.OptionalHasElement")
def _has_element(c: Call) -> Value:
    """OptionalHasElement: of a tensor or a sequence as well, which are always there."""
    node = _behind(c[0]) if c.has(0) else None
    return c.constant(np.array(node is not None and (node.op != _OPTIONAL or bool(node.inputs))))


@lifts("onnx.OptionalGetElement")
def _get_element(c: Call) -> Value:
    node = _behind(c[0])
    if node.op != _OPTIONAL:
        return c[0]
    if not node.inputs:
        raise UnsupportedOp("there is nothing in its optional")
    return node.inputs[0]
