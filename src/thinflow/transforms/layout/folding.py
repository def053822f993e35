"""Orders of elements along an axis that weights take over, so that nothing has to be moved.

matmul(reshape(transpose(x)), w)  ->  matmul(reshape(x), w with its rows in another order)
transpose(reshape(matmul(x, w)))  ->  reshape(matmul(x, w with its columns in another order))
"""

from __future__ import annotations

from collections.abc import Sequence

from thinflow.ir.graph import Node, Value
from thinflow.ops.traits import Trait, has
from thinflow.rewrite.pattern import constant_tensor
from thinflow.transforms.layout.plans import Fold, Perm
from thinflow.transforms.layout.reshapes import inner_order


def folds_behind(node: Node, perm: Perm) -> tuple[Fold, ...] | None:
    """The constants that have to change where a reshape reads what a transpose reads, if constants do.

    Args:
        node: the Reshape.
        perm: of the transpose in front of it.
    """
    shape = node.output().shape
    orders = inner_order(node.inputs[0].shape, shape, perm)
    if not orders or len(orders) != 1 or shape is None:
        return None
    (axis, order), *_ = orders.items()
    return _readers(node.output(), axis - len(shape), order)


def folds_before(node: Node, perm: Perm) -> tuple[Fold, ...] | None:
    """The constants that have to change for a reshape to give what a transpose would move to its result.

    Args:
        node: the Reshape.
        perm: transposes what is to come out into what the node gives.
    """
    shape = node.inputs[0].shape
    # Back from the result: as if what goes in were made of it.
    orders = inner_order(node.output().shape, shape, perm)
    if not orders or len(orders) != 1 or shape is None:
        return None
    (axis, order), *_ = orders.items()
    return _makers(node.inputs[0], axis - len(shape), order)


def _readers(value: Value, axis: int, order: Sequence[int]) -> tuple[Fold, ...] | None:
    """Constants that everything meets which reads a value, until an axis (from the end) is summed over."""
    folds: list[Fold] = []
    pending, seen = [value], {value}
    while pending:
        found = pending.pop()
        if found.node.is_protected or not found.uses:
            return None
        for use in found.uses:
            product = _rows(use.node, use.index, axis, order)
            if product is not None:
                folds.append(product)
                continue
            beside = _operands(use.node, found, axis, order)
            if beside is None or use.node.is_protected:
                return None
            folds += beside
            if (result := use.node.output()) not in seen:
                seen.add(result)
                pending.append(result)
    # A node that reads a value twice would be met twice.
    return tuple({(fold.node, fold.input): fold for fold in folds}.values())


def _rows(node: Node, index: int, axis: int, order: Sequence[int]) -> Fold | None:
    """The weights of a product that sums over the last axis of what it reads."""
    if axis != -1 or index != 0 or not has(node.op, Trait.MATMUL) or len(node.inputs) != 2:
        return None
    transposed = node.get("transpose_a", node.get("adj_x", False))
    if transposed or constant_tensor(node.inputs[1]) is None:
        return None
    return Fold(node, 1, -1 if node.get("transpose_b", node.get("adj_y", False)) else -2, order)


def _operands(node: Node, value: Value, axis: int, order: Sequence[int]) -> list[Fold] | None:
    """The constants beside a value in an op on elements; None for another op, and beside what is computed."""
    if has(node.op, Trait.BIAS_ADD):
        is_last = axis == -1 and node.get("data_format", "NHWC") == "NHWC"
        return [Fold(node, 1, -1, order)] if is_last and constant_tensor(node.inputs[1]) is not None else None
    if not has(node.op, Trait.ELEMENTWISE | Trait.IDENTITY) or "shape" in node.attrs or node.control_inputs:
        return None
    folds: list[Fold] = []
    for index, other in enumerate(node.inputs):
        tensor = constant_tensor(other)
        if other is value or other.spec.rank == 0:
            continue
        if tensor is None or len(tensor.shape) > (value.spec.rank or 0):
            return None
        if len(tensor.shape) >= -axis and tensor.shape[axis] != 1:
            folds.append(Fold(node, index, axis, order))
    return folds


def _makers(value: Value, axis: int, order: Sequence[int]) -> tuple[Fold, ...] | None:
    """Constants that give a value, read by a single node, its elements along an axis in another order."""
    folds: list[Fold] = []
    while True:
        node = value.node
        # Other readers would get another order, too.
        if node.is_protected or len(value.uses) != 1 or len(node.inputs) == 0 or node.control_inputs:
            return None
        if has(node.op, Trait.MATMUL):
            columns = _columns(node, axis, order)
            return None if columns is None else (*folds, columns)
        made = next((v for v in node.inputs if constant_tensor(v) is None and v.spec.rank != 0), None)
        beside = None if made is None or made.shape != value.shape else _operands(node, made, axis, order)
        if made is None or beside is None:
            return None
        folds += beside
        value = made


def _columns(node: Node, axis: int, order: Sequence[int]) -> Fold | None:
    """The weights of a product whose columns are the last axis of its result."""
    if axis != -1 or len(node.inputs) != 2 or constant_tensor(node.inputs[1]) is None:
        return None
    return Fold(node, 1, -2 if node.get("transpose_b", node.get("adj_y", False)) else -1, order)
