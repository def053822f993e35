"""Ops and the axes of their inputs: what becomes of them when a transpose moves behind.

With y = transpose(x, p), axis i of y is axis p[i] of x. A plan makes op(y) out of op'(x): inputs and
attributes of op', and the permutation that its result needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from thinflow.ir.attrs import Attr
from thinflow.ir.graph import Node, Value
from thinflow.ops.traits import RuleTable, Trait, has
from thinflow.rewrite.pattern import constant_tensor
from thinflow.typing import Array

Perm = tuple[int, ...]
NewConstant = tuple[Array, Value, str]
"""A constant to make: its content, the constant it stands for, and a name."""


@dataclass
class Plan:
    """Inputs and attributes of a node that works on other axes.

    Attributes:
        perm: transposes what comes out into what came out before.
        inputs: values, or constants to make.
        attrs: those that change.
        ports: the outputs to transpose; none if the result is the same.
    """

    perm: Perm
    inputs: list[Value | NewConstant]
    attrs: dict[str, Attr] = field(default_factory=dict)
    ports: tuple[int, ...] = (0,)


Rule = Callable[[Node, Perm, Mapping[int, Value]], Plan | None]


def plan_for(node: Node, perm: Perm, raw: Mapping[int, Value]) -> Plan | None:
    """The plan by which a node works on the inputs before they were transposed; None if it cannot.

    Args:
        node: reads transposes.
        perm: theirs.
        raw: input number -> what that transpose reads.
    """
    return next((rule(node, perm, raw) for rule in _RULES.of(node.op)), None)


_RULES: RuleTable[Rule] = RuleTable()


def _ints(value: Value) -> tuple[int, ...] | None:
    tensor = constant_tensor(value)
    if tensor is None or not tensor.dtype.is_integer:
        return None
    return tuple(int(n) for n in tensor.numpy().reshape(-1))


@_RULES.rule("CheckNumerics", "CheckNumericsV2", Trait.ELEMENTWISE | Trait.IDENTITY)
def _elementwise(node: Node, perm: Perm, raw: Mapping[int, Value]) -> Plan | None:
    """Every input is transposed alike, constant, or has a single element."""
    # AccumulateNV2 states the shape of its result, in the order of axes that there was.
    if "shape" in node.attrs:
        return None
    inputs: list[Value | NewConstant] = []
    for index, value in enumerate(node.inputs):
        if index in raw:
            inputs.append(raw[index])
            continue
        tensor = constant_tensor(value)
        # One element is the same in every order.
        if value.spec.rank == 0 or (tensor is not None and tensor.size == 1 and len(tensor.shape) <= 1):
            inputs.append(value)
        elif tensor is None or len(tensor.shape) > len(perm):
            return None
        else:
            # Broadcasting aligns at the end, so missing axes are put in front before they are moved.
            array = tensor.numpy().reshape((1,) * (len(perm) - len(tensor.shape)) + tensor.shape)
            # Constants stand in y's order; back to that of x leads the inverse permutation, its argsort.
            moved = np.ascontiguousarray(np.transpose(array, np.argsort(perm)))
            inputs.append((moved, value, f"input{index}"))
    return Plan(perm, inputs)


def _data_only(node: Node, perm: Perm, raw: Mapping[int, Value]) -> list[Value | NewConstant] | None:
    """The inputs with the transpose in front of input 0 left out; None if there are others."""
    return [raw[0], *node.inputs[1:]] if set(raw) == {0} else None


@_RULES.rule("MirrorPad", "Tile", Trait.PAD)
def _per_axis(node: Node, perm: Perm, raw: Mapping[int, Value]) -> Plan | None:
    """Input 1 is a constant with one entry, or one row, per axis."""
    inputs = _data_only(node, perm, raw)
    rows = _moved_rows(node, 1, perm)
    if inputs is None or rows is None:
        return None
    inputs[1] = rows
    return Plan(perm, inputs)


def _moved_rows(node: Node, index: int, perm: Perm) -> NewConstant | None:
    tensor = constant_tensor(node.inputs[index]) if len(node.inputs) > index else None
    if tensor is None or not tensor.shape or tensor.shape[0] != len(perm):
        return None
    return np.ascontiguousarray(tensor.numpy()[np.argsort(perm)]), node.inputs[index], f"input{index}"


@_RULES.rule("Slice")
def _slice(node: Node, perm: Perm, raw: Mapping[int, Value]) -> Plan | None:
    inputs = _data_only(node, perm, raw)
    for index in range(1, len(node.inputs)):
        rows = _moved_rows(node, index, perm)
        if inputs is None or rows is None:
            return None
        inputs[index] = rows
    return None if inputs is None else Plan(perm, inputs)


@_RULES.rule("StridedSlice")
def _strided_slice(node: Node, perm: Perm, raw: Mapping[int, Value]) -> Plan | None:
    # These masks count entries, not axes, so bits could not just be moved.
    if any(node.get(mask, 0) for mask in ("new_axis_mask", "shrink_axis_mask", "ellipsis_mask")):
        return None
    plan = _slice(node, perm, raw)
    for mask in ("begin_mask", "end_mask") if plan is not None else ():
        bits = int(node.get(mask, 0))
        assert plan is not None
        # Bit i speaks of axis i of y, which is axis perm[i] of x.
        plan.attrs[mask] = sum(1 << perm[axis] for axis in range(len(perm)) if bits >> axis & 1)
    return plan


@_RULES.rule(Trait.CONCAT)
def _concat(node: Node, perm: Perm, raw: Mapping[int, Value]) -> Plan | None:
    """Every part is transposed alike; the axis is constant."""
    at = 0 if node.op == "Concat" else len(node.inputs) - 1
    axis = _ints(node.inputs[at])
    if set(raw) != set(range(len(node.inputs))) - {at} or axis is None or len(axis) != 1:
        return None
    inputs: list[Value | NewConstant] = [raw.get(i, v) for i, v in enumerate(node.inputs)]
    moved = _axis(axis[0], perm)
    if moved is None:
        return None
    inputs[at] = (_like(moved, node.inputs[at]), node.inputs[at], "axis")
    return Plan(perm, inputs)


def _axis(axis: int, perm: Perm) -> int | None:
    return perm[axis % len(perm)] if -len(perm) <= axis < len(perm) else None


def _like(content: Any, value: Value) -> Array:
    tensor = constant_tensor(value)
    assert tensor is not None
    return np.asarray(content, tensor.numpy().dtype).reshape(tensor.shape)


@_RULES.rule(Trait.SPLIT)
def _split(node: Node, perm: Perm, raw: Mapping[int, Value]) -> Plan | None:
    # Split has its axis first; SplitV has it last, behind the sizes.
    data, at = (1, 0) if node.op == "Split" else (0, 2)
    axis = _ints(node.inputs[at]) if len(node.inputs) > at else None
    moved = None if axis is None or len(axis) != 1 else _axis(axis[0], perm)
    if set(raw) != {data} or moved is None:
        return None
    inputs: list[Value | NewConstant] = [raw.get(i, v) for i, v in enumerate(node.inputs)]
    inputs[at] = (_like(moved, node.inputs[at]), node.inputs[at], "axis")
    return Plan(perm, inputs, ports=tuple(v.port for v in node.outputs))


@_RULES.rule(Trait.REDUCTION | Trait.ARG)
def _reduce(node: Node, perm: Perm, raw: Mapping[int, Value]) -> Plan | None:
    inputs = _data_only(node, perm, raw)
    axes = _ints(node.inputs[1]) if len(node.inputs) == 2 else None
    if inputs is None or axes is None:
        return None
    moved = [_axis(axis, perm) for axis in axes]
    gone = [axis for axis in moved if axis is not None]
    if len(gone) != len(moved):
        return None
    inputs[1] = (_like(gone, node.inputs[1]), node.inputs[1], "axes")
    # ArgMax has no keep_dims; its axis always goes.
    if node.get("keep_dims", node.get("keepdims", False)) and not has(node.op, Trait.ARG):
        return Plan(perm, inputs)
    return _without(perm, gone, inputs, {})


def _without(perm: Perm, gone: list[int], inputs: list[Value | NewConstant], attrs: dict[str, Attr]) -> Plan:
    """A plan for an op that drops axes of x."""
    left = [axis for axis in range(len(perm)) if axis not in gone]
    # Axes of y that are left, as places among the axes of x that are left.
    rest = tuple(left.index(axis) for axis in perm if axis not in gone)
    return Plan(rest, inputs, attrs, ports=() if rest == tuple(range(len(rest))) else (0,))


@_RULES.rule("Squeeze")
def _squeeze(node: Node, perm: Perm, raw: Mapping[int, Value]) -> Plan | None:
    dims = node.attrs.get("squeeze_dims", ())
    if set(raw) != {0} or not isinstance(dims, tuple) or not dims:
        return None
    moved = [_axis(d, perm) for d in dims if isinstance(d, int)]
    gone = [axis for axis in moved if axis is not None]
    if len(gone) != len(dims):
        return None
    return _without(perm, gone, [raw[0]], {"squeeze_dims": tuple(sorted(gone))})


@_RULES.rule("BiasAdd")
def _bias(node: Node, perm: Perm, raw: Mapping[int, Value]) -> Plan | None:
    """Its layouts are named as those of four axes, however many there are."""
    return _channels(node, perm, raw, ("NHWC", "NCHW"))


def _channels(node: Node, perm: Perm, raw: Mapping[int, Value], layouts: tuple[str, str]) -> Plan | None:
    """BiasAdd and norms: the channels must lie on the last axis of x. On axis 1 few processors take them."""
    inputs = _data_only(node, perm, raw)
    layout = node.get("data_format", layouts[0])
    if inputs is None or layout not in layouts or len(perm) < 3:
        return None
    # The axis of x on which the channels of y lie.
    axis = perm[1] if layout == layouts[1] else perm[-1]
    if axis != len(perm) - 1:
        return None
    return Plan(perm, inputs, {"data_format": layouts[0].encode()})


@_RULES.rule(Trait.FUSED_BATCH_NORM)
def _norm(node: Node, perm: Perm, raw: Mapping[int, Value]) -> Plan | None:
    """A batch norm: its layouts are those of four axes or of five."""
    if len(perm) not in (4, 5):
        return None
    return _channels(node, perm, raw, ("NHWC", "NCHW") if len(perm) == 4 else ("NDHWC", "NCDHW"))


@_RULES.rule(Trait.SOFTMAX)
def _last_axis(node: Node, perm: Perm, raw: Mapping[int, Value]) -> Plan | None:
    """Softmax: the last axis must stay the last."""
    inputs = _data_only(node, perm, raw)
    return None if inputs is None or perm[-1] != len(perm) - 1 else Plan(perm, inputs)


@_RULES.rule("Rank", "Size")
def _unmoved(node: Node, perm: Perm, raw: Mapping[int, Value]) -> Plan | None:
    """Rank and Size do not depend on the order of the axes."""
    inputs = _data_only(node, perm, raw)
    return None if inputs is None else Plan(perm, inputs, ports=())
