"""Ops whose results have other axes than their inputs, and the order of these: reshapes, stacks, products."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from thinflow.ir.attrs import Attr
from thinflow.ir.graph import Node, Value
from thinflow.ir.types import FLOAT, INT32
from thinflow.ops.traits import RuleTable
from thinflow.rewrite.pattern import constant_tensor
from thinflow.transforms.layout.folding import folds_before, folds_behind
from thinflow.transforms.layout.plans import (
    Fold,
    Input,
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
    transposed_back,
    with_axis,
    without,
)
from thinflow.transforms.layout.reshapes import behind

RULES: RuleTable[Rule] = RuleTable()


@RULES.rule("Reshape")
def _reshape(node: Node, perm: Perm, raw: Mapping[int, Value]) -> Plan | None:
    """Another shape for the elements as they lie, or another order of those that weights meet."""
    inputs = data_only(node, perm, raw)
    after = node.output().shape
    rest = None if inputs is None else behind(node.inputs[0].shape, after, perm)
    if inputs is None or after is None:
        return None
    if rest is not None:
        return _reshaped(node, inputs, rest, after, ())
    folds = folds_behind(node, perm)
    return None if folds is None else _reshaped(node, inputs, tuple(range(len(after))), after, folds)


def reshape_before(node: Node, perm: Perm) -> tuple[Perm, Plan] | None:
    """The order of axes in which a reshape, or weights before it, give a result that only lacks a transpose,
    and the plan for it.
    """
    before, after = node.inputs[0].shape, node.output().shape
    order = behind(after, before, perm)
    if order is not None and after is not None:
        return order, _reshaped(node, [node.inputs[0]], perm, after, ())
    folds = folds_before(node, perm)
    if folds is None or before is None or after is None:
        return None
    return tuple(range(len(before))), _reshaped(node, [node.inputs[0]], perm, after, folds)


def _reshaped(
    node: Node,
    inputs: Sequence[Input],
    perm: Perm,
    after: tuple[int | None, ...],
    folds: Sequence[Fold],
) -> Plan:
    sizes = [-1 if (size := after[axis]) is None else size for axis in inverse(perm)]
    like = node.inputs[1]
    tensor = constant_tensor(like)
    kind = np.dtype(np.int32) if tensor is None else tensor.numpy().dtype
    attrs: dict[str, Attr] = {} if tensor is not None else {"Tshape": INT32}
    shape = (np.asarray(sizes, kind), like, "shape")
    return replace(transposed_back(perm, [inputs[0], shape], attrs), folds=tuple(folds))


@RULES.rule("ExpandDims")
def _expand_dims(node: Node, perm: Perm, raw: Mapping[int, Value]) -> Plan | None:
    inputs = data_only(node, perm, raw)
    axis = constant_ints(node.inputs[1])
    if inputs is None or axis is None or len(axis) != 1 or not -len(perm) <= axis[0] + 1 <= len(perm) + 1:
        return None
    order = _with_new_axis(perm, axis[0] % (len(perm) + 1))
    inputs[1] = as_constant(order.index(axis[0] % (len(perm) + 1)), node.inputs[1], "axis")
    return transposed_back(inverse(tuple(order)), inputs)


def _with_new_axis(perm: Perm, axis: int) -> list[int]:
    """The axes of x, transposed by perm later, in the order of memory with a new one by that number."""
    return with_axis((a + (a >= axis) for a in inverse(perm)), axis)


@RULES.rule("Pack")
def _pack(node: Node, perm: Perm, raw: Mapping[int, Value]) -> Plan | None:
    """Every part is transposed alike, or constant."""
    axis = node.get("axis", 0)
    if not raw or not -len(perm) <= axis + 1 <= len(perm) + 1:
        return None
    inputs = all_moved(node, perm, raw, {})
    if inputs is None:
        return None
    order = _with_new_axis(perm, axis % (len(perm) + 1))
    return transposed_back(inverse(tuple(order)), inputs, {"axis": order.index(axis % (len(perm) + 1))})


@RULES.rule("Unpack")
def _unpack(node: Node, perm: Perm, raw: Mapping[int, Value]) -> Plan | None:
    inputs = data_only(node, perm, raw)
    axis = moved_axis(node.get("axis", 0), perm)
    if inputs is None or axis is None:
        return None
    return without(perm, [axis], inputs, {"axis": axis}, tuple(v.port for v in node.outputs))


@RULES.rule("GatherV2")
def _gather(node: Node, perm: Perm, raw: Mapping[int, Value]) -> Plan | None:
    """The axes of the indices come in place of one."""
    inputs = data_only(node, perm, raw)
    axis = constant_ints(node.inputs[2]) if len(node.inputs) == 3 else None
    count = node.inputs[1].spec.rank
    if inputs is None or axis is None or len(axis) != 1 or count is None or node.get("batch_dims", 0):
        return None
    moved = moved_axis(axis[0], perm)
    if moved is None:
        return None
    inputs[2] = as_constant(moved, node.inputs[2], "axis")
    at = axis[0] % len(perm)
    order: list[int] = []
    for old in inverse(perm):
        order += range(at, at + count) if old == at else [old + (count - 1) * (old > at)]
    return transposed_back(inverse(tuple(order)), inputs)


@RULES.rule("BatchMatMulV2", "BatchMatMulV3")
def _products(node: Node, perm: Perm, raw: Mapping[int, Value]) -> Plan | None:
    plan = product(node, dict.fromkeys(raw, perm)) if raw else None
    for index, value in raw.items() if plan is not None else ():
        assert plan is not None
        plan.inputs[index] = value
    return plan


def product(node: Node, perms: Mapping[int, Perm]) -> Plan | None:
    """The plan for products of matrices whose operands were transposed, each by its own permutation.

    Matrices that are transposed say so; all operands have the same axes in front, in the same order.

    Args:
        perms: input number -> permutation; all of the same rank.
    """
    fronts = {perm[:-2] for perm in perms.values()}
    count = len(next(iter(perms.values())))
    if len(fronts) != 1 or count < 2 or sorted(front := fronts.pop()) != list(range(count - 2)):
        return None
    natural = (*front, count - 2, count - 1)
    attrs: dict[str, Attr] = {}
    for index, perm in perms.items():
        key = ("adj_x", "adj_y")[index]
        # Of complex numbers it takes the conjugate, too.
        if perm != natural and node.inputs[index].dtype is not FLOAT:
            return None
        if perm != natural:
            attrs[key] = not node.get(key, False)
    inputs: list[Input] = list(node.inputs)
    for index, value in enumerate(node.inputs):
        rank = value.spec.rank
        if index in perms and rank == count:
            continue
        tensor = constant_tensor(value)
        # An operand of matrices alone goes with all of the other.
        if rank == 2 or natural == tuple(range(count)):
            continue
        if tensor is None or index in perms or len(tensor.shape) > count:
            return None
        inputs[index] = (moved_constant(tensor.numpy(), natural), value, f"input{index}")
    return transposed_back(natural, inputs, attrs)
