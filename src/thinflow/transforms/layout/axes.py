"""Ops and the axes of their inputs: what becomes of them when a transpose moves behind.

Ops whose results have the axes of their inputs, or fewer; those that give axes are in `views`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from thinflow.ir.attrs import Attr
from thinflow.ir.graph import Node, Value
from thinflow.ops.traits import RuleTable, Trait, has
from thinflow.rewrite.pattern import constant_tensor
from thinflow.transforms.layout.plans import (
    Input,
    InShape,
    NewConstant,
    Perm,
    Plan,
    Rule,
    all_moved,
    as_constant,
    constant_ints,
    data_only,
    inverse,
    moved_axis,
    moved_constant,
    without,
)

RULES: RuleTable[Rule] = RuleTable()


@RULES.rule("CheckNumerics", "CheckNumericsV2", Trait.ELEMENTWISE | Trait.IDENTITY)
def _elementwise(node: Node, perm: Perm, raw: Mapping[int, Value]) -> Plan | None:
    """Every input is transposed alike, constant, or has elements along a single axis."""
    # AccumulateNV2 states the shape of its result, in the order of axes that there was.
    if "shape" in node.attrs:
        return None
    inputs = [raw[i] if i in raw else _beside(v, perm, f"input{i}") for i, v in enumerate(node.inputs)]
    known = [value for value in inputs if value is not None]
    return Plan(perm, known) if len(known) == len(inputs) else None


def _beside(value: Value, perm: Perm, name: str) -> Value | NewConstant | InShape | None:
    """An operand that broadcasts against transpose(x, perm), as it broadcasts against x; None if only a
    transpose makes it fit.
    """
    tensor = constant_tensor(value)
    # One element is the same in every order.
    if value.spec.rank == 0 or (tensor is not None and tensor.size == 1 and len(tensor.shape) <= 1):
        return value
    if tensor is not None:
        return (moved_constant(tensor.numpy(), perm), value, name) if len(tensor.shape) <= len(perm) else None
    shape = value.spec.shape
    if shape is None or len(shape) >= len(perm):
        return None
    whole = (*(1,) * (len(perm) - len(shape)), *shape)
    order = inverse(perm)
    larger = [axis for axis in order if whole[axis] != 1]
    if larger != sorted(larger) or shape.count(None) > 1:
        return None
    return InShape(value, tuple(-1 if (size := whole[axis]) is None else size for axis in order))


@RULES.rule("BroadcastTo", "MirrorPad", "Tile", Trait.PAD)
def _per_axis(node: Node, perm: Perm, raw: Mapping[int, Value]) -> Plan | None:
    """Input 1 is a constant with one entry, or one row, per axis; BroadcastTo's may be of fewer."""
    inputs = data_only(node, perm, raw)
    rows = _moved_rows(node, 1, perm)
    if inputs is None or rows is None:
        return None
    inputs[1] = rows
    return Plan(perm, inputs)


def _moved_rows(node: Node, index: int, perm: Perm) -> NewConstant | None:
    tensor = constant_tensor(node.inputs[index]) if len(node.inputs) > index else None
    if tensor is None or not tensor.shape or tensor.shape[0] != len(perm):
        return None
    return np.ascontiguousarray(tensor.numpy()[list(inverse(perm))]), node.inputs[index], f"input{index}"


@RULES.rule("Slice")
def _slice(node: Node, perm: Perm, raw: Mapping[int, Value]) -> Plan | None:
    inputs = data_only(node, perm, raw)
    for index in range(1, len(node.inputs)):
        rows = _moved_rows(node, index, perm)
        if inputs is None or rows is None:
            return None
        inputs[index] = rows
    return None if inputs is None else Plan(perm, inputs)


@RULES.rule("StridedSlice")
def _strided_slice(node: Node, perm: Perm, raw: Mapping[int, Value]) -> Plan | None:
    """Entries may be fewer than axes; a new axis is told apart as a Reshape of its own."""
    inputs = data_only(node, perm, raw)
    rows = [constant_ints(v) for v in node.inputs[1:]]
    known = [row for row in rows if row is not None]
    if inputs is None or len(known) != 3 or len({len(row) for row in rows if row is not None}) != 1:
        return None
    entries = _entries(node, len(known[0]), len(perm))
    if entries is None:
        return None
    # Axis k of x is axis inverse(perm)[k] of y.
    moved = [entries[axis] for axis in inverse(perm)]
    for index, (row, whole) in enumerate(zip(known, (0, 0, 1), strict=True), 1):
        like, values = node.inputs[index], [whole if entry is None else row[entry] for entry in moved]
        kind = constant_tensor(like)
        assert kind is not None
        inputs[index] = (np.asarray(values, kind.numpy().dtype), like, f"input{index}")
    whole = sum(1 << axis for axis, entry in enumerate(moved) if entry is None)
    bits = {
        mask: sum((int(node.get(mask, 0)) >> e & 1) << a for a, e in enumerate(moved) if e is not None)
        for mask in ("begin_mask", "end_mask", "shrink_axis_mask")
    }
    attrs: dict[str, Attr] = {
        mask: b | (0 if mask == "shrink_axis_mask" else whole) for mask, b in bits.items()
    }
    if node.get("ellipsis_mask", 0):
        attrs["ellipsis_mask"] = 0
    gone = [axis for axis in range(len(perm)) if bits["shrink_axis_mask"] >> axis & 1]
    return without(perm, gone, inputs, attrs) if gone else Plan(perm, inputs, attrs)


def _entries(node: Node, count: int, rank: int) -> list[int | None] | None:
    """The entry of a slice that speaks of each axis of what is read, None for one that is taken whole."""
    ellipsis = int(node.get("ellipsis_mask", 0)) & (1 << count) - 1
    if node.get("new_axis_mask", 0) or ellipsis.bit_count() > 1:
        return None
    # Without an ellipsis the axes that nothing speaks of are the last ones.
    at = ellipsis.bit_length() - 1 if ellipsis else count
    behind = range(at + 1, count)
    rest = rank - at - len(behind)
    return [*range(at), *[None] * rest, *behind] if rest >= 0 else None


@RULES.rule(Trait.CONCAT)
def _concat(node: Node, perm: Perm, raw: Mapping[int, Value]) -> Plan | None:
    """Every part is transposed alike, or constant; the axis is constant."""
    at = 0 if node.op == "Concat" else len(node.inputs) - 1
    axis = constant_ints(node.inputs[at])
    moved = moved_axis(axis[0], perm) if axis is not None and len(axis) == 1 else None
    if moved is None or not raw or at in raw:
        return None
    inputs = all_moved(node, perm, raw, {at: as_constant(moved, node.inputs[at], "axis")})
    return None if inputs is None else Plan(perm, inputs)


@RULES.rule(Trait.SPLIT)
def _split(node: Node, perm: Perm, raw: Mapping[int, Value]) -> Plan | None:
    # Split has its axis first; SplitV has it last, behind the sizes.
    data, at = (1, 0) if node.op == "Split" else (0, 2)
    axis = constant_ints(node.inputs[at]) if len(node.inputs) > at else None
    moved = None if axis is None or len(axis) != 1 else moved_axis(axis[0], perm)
    if set(raw) != {data} or moved is None:
        return None
    inputs: list[Input] = [raw.get(i, v) for i, v in enumerate(node.inputs)]
    inputs[at] = as_constant(moved, node.inputs[at], "axis")
    return Plan(perm, inputs, ports=tuple(v.port for v in node.outputs))


@RULES.rule(Trait.REDUCTION | Trait.ARG)
def _reduce(node: Node, perm: Perm, raw: Mapping[int, Value]) -> Plan | None:
    inputs = data_only(node, perm, raw)
    gone = _moved_axes(node, perm) if len(node.inputs) == 2 else None
    if inputs is None or gone is None:
        return None
    inputs[1] = as_constant(gone, node.inputs[1], "axes")
    # ArgMax has no keep_dims; its axis always goes.
    if node.get("keep_dims", node.get("keepdims", False)) and not has(node.op, Trait.ARG):
        return Plan(perm, inputs)
    return without(perm, gone, inputs, {})


def _moved_axes(node: Node, perm: Perm) -> list[int] | None:
    """The axes of x that the constant input 1 lists as axes of transpose(x, perm)."""
    axes = constant_ints(node.inputs[1])
    moved = [] if axes is None else [moved_axis(axis, perm) for axis in axes]
    known = [axis for axis in moved if axis is not None]
    return known if axes is not None and len(known) == len(moved) else None


@RULES.rule("Cumsum", "Cumprod", "CumulativeLogsumexp", "ReverseV2")
def _along(node: Node, perm: Perm, raw: Mapping[int, Value]) -> Plan | None:
    """Input 1 is the axis, or lists axes, which all stay."""
    inputs = data_only(node, perm, raw)
    axes = _moved_axes(node, perm)
    if inputs is None or axes is None:
        return None
    inputs[1] = as_constant(axes, node.inputs[1], "axes")
    return Plan(perm, inputs)


@RULES.rule("Squeeze")
def _squeeze(node: Node, perm: Perm, raw: Mapping[int, Value]) -> Plan | None:
    shape = node.inputs[0].shape
    given = node.attrs.get("squeeze_dims", ())
    dims = given if isinstance(given, tuple) else ()
    # Without a list every axis of size 1 goes.
    if not dims and shape is not None and None not in shape:
        dims = tuple(axis for axis, size in enumerate(shape) if size == 1)
    moved = [moved_axis(d, perm) for d in dims if isinstance(d, int)]
    gone = [axis for axis in moved if axis is not None]
    if set(raw) != {0} or not dims or len(gone) != len(dims):
        return None
    return without(perm, gone, [raw[0]], {"squeeze_dims": tuple(sorted(gone))})


@RULES.rule("BiasAdd")
def _bias(node: Node, perm: Perm, raw: Mapping[int, Value]) -> Plan | None:
    """Its layouts are named as those of four axes, however many there are."""
    return _channels(node, perm, raw, ("NHWC", "NCHW"))


def _channels(node: Node, perm: Perm, raw: Mapping[int, Value], layouts: tuple[str, str]) -> Plan | None:
    """BiasAdd and norms: the channels must lie on the last axis of x. On axis 1 few processors take them."""
    inputs = data_only(node, perm, raw)
    layout = node.get("data_format", layouts[0])
    if inputs is None or layout not in layouts or len(perm) < 3:
        return None
    # The axis of x on which the channels of y lie.
    axis = perm[1] if layout == layouts[1] else perm[-1]
    if axis != len(perm) - 1:
        return None
    return Plan(perm, inputs, {"data_format": layouts[0].encode()})


@RULES.rule(Trait.FUSED_BATCH_NORM)
def _norm(node: Node, perm: Perm, raw: Mapping[int, Value]) -> Plan | None:
    """A batch norm: its layouts are those of four axes or of five."""
    if len(perm) not in (4, 5):
        return None
    return _channels(node, perm, raw, ("NHWC", "NCHW") if len(perm) == 4 else ("NDHWC", "NCDHW"))


@RULES.rule("FakeQuantWithMinMaxVarsPerChannel", Trait.SOFTMAX | Trait.TOP_K)
def _last_axis(node: Node, perm: Perm, raw: Mapping[int, Value]) -> Plan | None:
    """Softmax and such: the last axis must stay the last."""
    inputs = data_only(node, perm, raw)
    if inputs is None or perm[-1] != len(perm) - 1:
        return None
    return Plan(perm, inputs, ports=tuple(v.port for v in node.outputs))


@RULES.rule("Rank", "Size")
def _unmoved(node: Node, perm: Perm, raw: Mapping[int, Value]) -> Plan | None:
    """Rank and Size do not depend on the order of the axes."""
    inputs = data_only(node, perm, raw)
    return None if inputs is None else Plan(perm, inputs, ports=())


@RULES.rule("Shape")
def _shape(node: Node, perm: Perm, raw: Mapping[int, Value]) -> Plan | None:
    """The same sizes in another order."""
    inputs = data_only(node, perm, raw)
    return None if inputs is None else Plan(perm, inputs, lists_sizes=True)
