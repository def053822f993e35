"""Pushes transposes downwards through everything that does not care, until they meet their opposite.

Rules write channels-last graphs as if each convolution stood alone, with a Transpose before and behind it.
Here

    op(transpose(x), transpose(y))  ->  transpose(op(x, y))

for every op that works element by element, or along axes that can be renamed. A Transpose that meets another
merges with it; after a few rounds only those at the borders are left: where images come in, and where
something depends on the order of elements, such as a flattening Reshape. Constants are transposed here.

A pushed Transpose may have to be matched by new ones on the operands that had none, and a Transpose whose
result others read as well is not saved by pushing. So operators are pushed past only if that takes more
transposes away above than it adds, and the whole is undone should there be more in the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from thinflow.lower.onnx.fuse import fuse
from thinflow.lower.onnx.transpose_passes import rest_transposes
from thinflow.lower.onnx.wiring import Wiring, new_constant, restore, snapshot
from thinflow.onnx.operators import Trait, has, operators_with
from thinflow.onnx.program import Operator, Program, Tensor
from thinflow.program.wiring import constant_of

Order = tuple[int, ...]

# A bound against ping-pong; chains end when nothing moves.
_MAX_ROUNDS = 200


def settle_layout(program: Program) -> None:
    """Push transposes down until nothing moves, unless cancelling neighbours alone leaves fewer of them."""
    if program.counts()["Transpose"]:
        _settle(program)
        # The passes look at what is left once transposes have come to rest.
        rest_transposes(program)


def _settle(program: Program) -> None:
    before = snapshot(program)
    fuse(program)
    # What merging neighbours alone leaves is the number to beat; the program itself starts anew.
    count = program.counts()["Transpose"]
    restore(program, before)
    pushed: set[tuple[str, Order]] = set()
    for _ in range(_MAX_ROUNDS):
        wiring = Wiring(program)
        for operator in list(program.operators):
            if not wiring.is_gone(operator):
                _push(wiring, operator, pushed)
        moved = wiring.changes
        wiring.finish()
        fuse(program)
        if not moved:
            break
    if program.counts()["Transpose"] > count:
        restore(program, before)


def _push(wiring: Wiring, operator: Operator, pushed: set[tuple[str, Order]]) -> None:
    code = operator.code
    if has(code, Trait.ELEMENTWISE):
        _push_elementwise(wiring, operator, pushed)
    elif code == "Concat":
        _push_concat(wiring, operator, pushed)
    elif code in _rules:
        source, order = _transposed(wiring, operator.inputs[0])
        if source is not None and order is not None:
            _rules[code](wiring, operator, source, order)


def _transposed(wiring: Wiring, tensor: Tensor | None) -> tuple[Tensor | None, Order | None]:
    """The tensor that this one is a transposition of, and the order; None if it is none."""
    found = wiring.producer(tensor, "Transpose")
    return (None, None) if found is None else (found.inputs[0], tuple(found.options["perm"]))


def inverse(order: Sequence[int]) -> Order:
    """The order that undoes an order."""
    return tuple(int(a) for a in np.argsort(order))


def _below(wiring: Wiring, operator: Operator, order: Order, number: int = 0) -> None:
    """Let an operator's output be written in the old layout, and transpose it for its readers."""
    output = operator.outputs[number]
    raw = Tensor(f"{output.name}/raw", _moved(output.shape, inverse(order)), output.dtype)
    wiring.set_output(operator, number, raw)
    wiring.add(operator, "Transpose", [raw], output, perm=tuple(order))


def _moved(shape: tuple[int | None, ...] | None, order: Sequence[int]) -> tuple[int | None, ...] | None:
    return None if shape is None or len(shape) != len(order) else tuple(shape[a] for a in order)


# --- several operands ---------------------------------------------------------------------------------------


def _push_elementwise(wiring: Wiring, operator: Operator, pushed: set[tuple[str, Order]]) -> None:
    operands = operator.inputs[:1] if has(operator.code, Trait.FIRST_ONLY) else operator.inputs
    is_scaling = operator.code in ("DequantizeLinear", "QuantizeLinear")
    if is_scaling and any(t is None or t.shape != () for t in operator.inputs[1:]):
        return  # along an axis
    if any(t is None for t in operands):
        return
    order = _common_order(wiring, operands)
    if order is None:
        return
    moved = _operands(wiring, operator, operands, order, pushed)
    if moved is None:
        return
    wiring.set_inputs(operator, [*moved, *operator.inputs[len(operands) :]])
    for number in range(len(operator.outputs)):
        _below(wiring, operator, order, number)


def _push_concat(wiring: Wiring, operator: Operator, pushed: set[tuple[str, Order]]) -> None:
    order = _common_order(wiring, operator.inputs)
    if order is None or any(
        t is None or t.shape is None or len(t.shape) != len(order) for t in operator.inputs
    ):
        return
    moved = _operands(wiring, operator, operator.inputs, order, pushed)
    if moved is not None:
        operator.options["axis"] = order[operator.options["axis"] % len(order)]
        wiring.set_inputs(operator, moved)
        _below(wiring, operator, order)


def _common_order(wiring: Wiring, operands: Sequence[Tensor | None]) -> Order | None:
    """The order most operands are transposed by."""
    orders = Counter(order for t in operands if (order := _transposed(wiring, t)[1]) is not None)
    return orders.most_common(1)[0][0] if orders else None


def _operands(
    wiring: Wiring,
    operator: Operator,
    operands: Sequence[Tensor | None],
    order: Order,
    pushed: set[tuple[str, Order]],
) -> list[Tensor] | None:
    """The operands in the layout before the Transpose; None if pushing does not pay or cannot be done."""
    back = inverse(order)
    gone = {t for t in operands if _transposed(wiring, t)[1] == order}
    plain = {t for t in operands if t is not None and t not in gone}
    if any(not _can_move(t, order) for t in plain):
        return None
    computed = {t for t in plain if not t.is_constant and not _is_free(t.shape or (), back)}
    new = {t for t in computed if _existing(wiring, t, back) is None}
    # Only a Transpose that nobody else reads goes away by being pushed.
    saved = sum(
        1 for t in gone if t is not None and set(wiring.readers(t)) == {operator} and not wiring.is_wanted(t)
    )
    if len(gone) <= len(new) or (computed and saved <= len(new)):
        return None
    key = (operator.outputs[0].name, order)
    if computed and key in pushed:  # there and back again
        return None
    pushed.add(key)
    moved: list[Tensor] = []
    for tensor in operands:
        assert tensor is not None
        source, own = _transposed(wiring, tensor)
        moved.append(
            source if own == order and source is not None else _in_layout(wiring, operator, tensor, back)
        )
    return moved


def _is_free(shape: Sequence[int | None], order: Order) -> bool:
    """True if a new order moves axes of size 1 only, so that a Reshape can do it."""
    full = (1,) * (len(order) - len(shape)) + tuple(shape)
    moved = [a for a in order if full[a] != 1]
    return moved == sorted(moved) and full.count(None) <= 1


def _can_move(tensor: Tensor, order: Order) -> bool:
    """True if a tensor can be put into another layout: its rank is known, and so are sizes to be spread."""
    if tensor.shape is None or len(tensor.shape) > len(order):
        return False
    return tensor.is_constant or len(tensor.shape) in (0, len(order)) or tensor.shape.count(None) <= 1


def _existing(wiring: Wiring, tensor: Tensor, order: Order) -> Tensor | None:
    """A transposition of a tensor that is there already."""
    for reader in wiring.readers(tensor):
        if reader.code == "Transpose" and tuple(reader.options["perm"]) == order:
            return reader.outputs[0]
    source, own = _transposed(wiring, tensor)
    return source if own is not None and inverse(own) == order else None


def _in_layout(wiring: Wiring, operator: Operator, tensor: Tensor, back: Order) -> Tensor:
    """A tensor, of this rank or less, transposed."""
    rank = len(back)
    shape = tensor.shape or ()
    name = f"{operator.outputs[0].name}/{tensor.name.rpartition('/')[2]}"
    array = constant_of(tensor)
    if array is not None:
        if array.size == 1 and array.ndim == 0:
            return tensor
        full = array.reshape((1,) * (rank - array.ndim) + array.shape).transpose(back)
        # Leading axes of 1 broadcast without being there.
        kept = next((a for a, n in enumerate(full.shape) if n != 1), rank)
        small = full.reshape(full.shape[kept:]) if array.ndim < rank else full
        return new_constant(name, small, tensor.dtype)
    if not shape:
        return tensor
    if len(shape) < rank:  # one axis that is not 1 or several: spread over the places they move to
        full_shape = (1,) * (rank - len(shape)) + shape
        sizes = np.array([-1 if n is None else n for n in full_shape], np.int64)
        spread = Tensor(f"{name}/spread", full_shape, tensor.dtype)
        tensor = wiring.add(operator, "Reshape", [tensor, new_constant(f"{name}/sizes", sizes)], spread)
    found = _existing(wiring, tensor, back)
    if found is not None:
        return found
    output = Tensor(f"{name}/moved", _moved(tensor.shape, back), tensor.dtype)
    return wiring.add(operator, "Transpose", [tensor], output, perm=back)


# --- one operand --------------------------------------------------------------------------------------------

_Push = Callable[[Wiring, Operator, Tensor, Order], None]
_rules: dict[str, _Push] = {}


def _pushes(*codes: str) -> Callable[[_Push], _Push]:
    """Function decorator: it pushes a Transpose of their first operand past these operators, if it can."""

    def register(push: _Push) -> _Push:
        _rules.update(dict.fromkeys(codes, push))
        return push

    return register


@_pushes(*operators_with(Trait.REDUCTION))
def _push_reduction(wiring: Wiring, operator: Operator, source: Tensor, order: Order) -> None:
    """Over the axes under their old numbers; those that are left keep their order among each other."""
    axes = operator.options.get("axes")
    is_input = len(operator.inputs) > 1 and operator.inputs[1] is not None
    if is_input:
        listed = constant_of(operator.inputs[1])
        axes = None if listed is None else listed.tolist()
    if axes is None:
        return
    rank = len(order)
    axes = [int(a) % rank for a in axes]
    old = sorted(order[a] for a in axes)
    if is_input:
        places = new_constant(f"{operator.outputs[0].name}/axes", np.array(old, np.int64))
        wiring.set_inputs(operator, [source, places])
    else:
        operator.options["axes"] = tuple(old)
        wiring.set_input(operator, 0, source)
    if operator.options.get("keepdims", 1):
        _below(wiring, operator, order)
    else:
        _below(wiring, operator, _left(order, axes))


def _left(order: Order, axes: Sequence[int]) -> Order:
    """The order of the axes that stay when some (of the transposed tensor) go."""
    kept = [order[a] for a in range(len(order)) if a not in axes]
    ranks = {old: n for n, old in enumerate(sorted(kept))}
    return tuple(ranks[old] for old in kept)


@_pushes("Softmax", "LogSoftmax", "Split", "CumSum", "TopK")
def _push_axis(wiring: Wiring, operator: Operator, source: Tensor, order: Order) -> None:
    """Softmax, Split, CumSum and TopK: along one axis, under its old number."""
    if operator.code == "CumSum":
        axis = constant_of(operator.inputs[1])
        if axis is None:
            return
        place = new_constant(
            f"{operator.outputs[0].name}/axis", np.array(order[int(axis.reshape(())) % len(order)], np.int64)
        )
        wiring.set_inputs(operator, [source, place])
    else:
        default = 0 if operator.code == "Split" else -1
        operator.options["axis"] = order[operator.options.get("axis", default) % len(order)]
        wiring.set_input(operator, 0, source)
    for number in range(len(operator.outputs)):
        _below(wiring, operator, order, number)


@_pushes("ArgMax", "ArgMin")
def _push_arg(wiring: Wiring, operator: Operator, source: Tensor, order: Order) -> None:
    axis = operator.options["axis"] % len(order)
    operator.options["axis"] = order[axis]
    wiring.set_input(operator, 0, source)
    _below(wiring, operator, order if operator.options.get("keepdims", 1) else _left(order, [axis]))


@_pushes("Pad")
def _push_pad(wiring: Wiring, operator: Operator, source: Tensor, order: Order) -> None:
    pads = constant_of(operator.inputs[1])
    if pads is None or len(operator.inputs) > 3:
        return
    back = inverse(order)
    # Begins of all axes, then ends: each row is put in the old order.
    both = pads.reshape(2, -1)[:, list(back)]
    border = new_constant(f"{operator.outputs[0].name}/pads", np.ascontiguousarray(both).reshape(-1))
    wiring.set_inputs(operator, [source, border, *operator.inputs[2:]])
    _below(wiring, operator, order)


@_pushes("Slice")
def _push_slice(wiring: Wiring, operator: Operator, source: Tensor, order: Order) -> None:
    axes = constant_of(operator.inputs[3]) if len(operator.inputs) > 3 else None
    if axes is None:
        return
    old = np.array([order[int(a) % len(order)] for a in axes], np.int64)
    places = new_constant(f"{operator.outputs[0].name}/axes", old)
    wiring.set_inputs(operator, [source, *operator.inputs[1:3], places, *operator.inputs[4:]])
    _below(wiring, operator, order)


@_pushes("Tile")
def _push_tile(wiring: Wiring, operator: Operator, source: Tensor, order: Order) -> None:
    repeats = constant_of(operator.inputs[1])
    if repeats is None:
        return
    moved = np.ascontiguousarray(repeats[list(inverse(order))])
    wiring.set_inputs(operator, [source, new_constant(f"{operator.outputs[0].name}/repeats", moved)])
    _below(wiring, operator, order)


@_pushes("Squeeze")
def _push_squeeze(wiring: Wiring, operator: Operator, source: Tensor, order: Order) -> None:
    axes = constant_of(operator.inputs[1]) if len(operator.inputs) > 1 else None
    if axes is None:
        return
    gone = [int(a) % len(order) for a in axes]
    old = np.array(sorted(order[a] for a in gone), np.int64)
    wiring.set_inputs(operator, [source, new_constant(f"{operator.outputs[0].name}/axes", old)])
    _below(wiring, operator, _left(order, gone))


@_pushes("Unsqueeze")
def _push_unsqueeze(wiring: Wiring, operator: Operator, source: Tensor, order: Order) -> None:
    """The new axes stay where they are; the others find their places among them."""
    axes = constant_of(operator.inputs[1])
    if axes is None:
        return
    rank = len(order) + len(axes)
    added = {int(a) % rank for a in axes}
    free = [a for a in range(rank) if a not in added]
    after = {a: a for a in added} | {place: free[order[n]] for n, place in enumerate(free)}
    wiring.set_input(operator, 0, source)
    _below(wiring, operator, tuple(after[a] for a in range(rank)))


@_pushes("Gather")
def _push_gather(wiring: Wiring, operator: Operator, source: Tensor, order: Order) -> None:
    """By one index or a vector of them, which keeps the number of axes or takes one away."""
    indices = operator.inputs[1]
    if indices is None or indices.shape is None or len(indices.shape) > 1:
        return
    axis = operator.options.get("axis", 0) % len(order)
    operator.options["axis"] = order[axis]
    wiring.set_input(operator, 0, source)
    _below(wiring, operator, order if indices.shape else _left(order, [axis]))


@_pushes("DynamicQuantizeLinear")
def _push_quantizing(wiring: Wiring, operator: Operator, source: Tensor, order: Order) -> None:
    """DynamicQuantizeLinear, whose other outputs are numbers for all elements."""
    wiring.set_input(operator, 0, source)
    _below(wiring, operator, order)


@_pushes("Shape")
def _push_shape(wiring: Wiring, operator: Operator, source: Tensor, order: Order) -> None:
    """The sizes of x, taken in the other order."""
    if operator.options:
        return
    output = operator.outputs[0]
    raw = Tensor(f"{output.name}/raw", output.shape, output.dtype)
    wiring.set_input(operator, 0, source)
    wiring.set_output(operator, 0, raw)
    places = new_constant(f"{output.name}/order", np.array(order, np.int64))
    wiring.add(operator, "Gather", [raw, places], output, axis=0)
