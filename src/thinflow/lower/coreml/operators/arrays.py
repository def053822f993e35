"""Movement of data: shapes, slices, gathers, pads."""

from __future__ import annotations

from typing import Any

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.lower.coreml.builder import Builder, Var, mil_type, whole
from thinflow.lower.coreml.operators.layers import pairs
from thinflow.lower.coreml.rules import says
from thinflow.onnx.program import Operator

_FAR = 2**31 - 1


@says("Transpose")
def transpose(b: Builder, o: Operator) -> Var:
    x = b.read(o, 0)
    perm = o.options.get("perm") or range(len(x.shape))[::-1]
    return b.mb.transpose(x=x, perm=whole(perm))


@says("Reshape")
def reshape(b: Builder, o: Operator) -> Var:
    """A size of 0 is that of the input at its place."""
    x, sizes = b.read(o, 0), b.maybe_known(o, 1)
    if sizes is None:
        return b.mb.reshape(x=x, shape=b.read(o, 1))
    wanted: list[Any] = whole(sizes)
    if not o.options.get("allowzero", 0):
        shape = b.shape(x)
        for axis, n in enumerate(wanted):
            if n == 0:
                # An open size can be spelled -1 once; more of them are read while it runs.
                wanted[axis] = shape[axis] if shape[axis] is not None else x.shape[axis]
    if 0 in wanted:
        raise UnsupportedOp("it makes a tensor without elements, which Core ML does not have")
    if all(isinstance(n, int) for n in wanted):
        return b.mb.reshape(x=x, shape=np.array(wanted, np.int32))
    return _symbolic_reshape(b, x, wanted)


def _symbolic_reshape(b: Builder, x: Var, wanted: list[Any]) -> Var:
    """A reshape some of whose sizes are read from the input: -1 where one is, else they are gathered."""
    is_open = [not isinstance(n, int) for n in wanted]
    if sum(is_open) == 1 and -1 not in [n for n in wanted if isinstance(n, int)]:
        return b.mb.reshape(
            x=x, shape=np.array([-1 if o else n for o, n in zip(is_open, wanted, strict=True)])
        )
    sizes = b.mb.shape(x=x)
    parts = [
        b.mb.gather(x=sizes, indices=np.array([axis], np.int32), axis=0) if o else np.array([n], np.int32)
        for axis, (o, n) in enumerate(zip(is_open, wanted, strict=True))
    ]
    return b.mb.reshape(x=x, shape=b.mb.concat(values=parts, axis=0))


@says("Flatten")
def flatten(b: Builder, o: Operator) -> Var:
    return b.mb.flatten2d(x=b.read(o, 0), axis=int(o.options.get("axis", 1)))


def _axes(b: Builder, o: Operator, place: int = 1) -> list[int] | None:
    """Axes of an operand, or of an option in older op sets; None for all."""
    if "axes" in o.options:
        return whole(o.options["axes"])
    return whole(b.known(o, place, "which axes")) if b.has(o, place) else None


@says("Squeeze")
def squeeze(b: Builder, o: Operator) -> Var:
    x, axes = b.read(o, 0), _axes(b, o)
    if axes is None:
        axes = [a for a, n in enumerate(b.sizes(x)) if n == 1]
    if not axes:
        return b.mb.identity(x=x)
    if len(axes) == len(x.shape):
        # MIL squeezes to a scalar only where it knows that nothing else is left.
        return b.mb.squeeze(x=x, axes=axes)
    return b.mb.squeeze(x=x, axes=axes)


@says("Unsqueeze")
def unsqueeze(b: Builder, o: Operator) -> Var:
    axes = _axes(b, o)
    if not axes:
        raise UnsupportedOp("its axes are absent")
    return b.mb.expand_dims(x=b.read(o, 0), axes=axes)


@says("Concat")
def concat(b: Builder, o: Operator) -> Var:
    values = [b.read(o, place) for place in range(len(o.inputs))]
    return b.mb.concat(values=values, axis=int(o.options["axis"]))


@says("Split")
def split(b: Builder, o: Operator) -> list[Var]:
    x, axis = b.read(o, 0), int(o.options.get("axis", 0))
    sizes = b.maybe_known(o, 1) if b.has(o, 1) else o.options.get("split")
    if len(o.outputs) == 1:
        return [b.mb.identity(x=x)]
    if sizes is None and b.has(o, 1):
        raise UnsupportedOp("the sizes of its parts depend on what is fed")
    if sizes is None:
        return list(b.mb.split(x=x, num_splits=len(o.outputs), axis=axis))
    return list(b.mb.split(x=x, split_sizes=np.array(whole(sizes), np.int32), axis=axis))


@says("Slice")
def slice_(b: Builder, o: Operator) -> Var:
    """Beginnings and ends beyond an end stand for it, which masks say."""
    x = b.read(o, 0)
    rank = len(x.shape)
    axes = whole(b.known(o, 3, "its axes")) if b.has(o, 3) else None
    steps = whole(b.known(o, 4, "its step")) if b.has(o, 4) else None
    begins, ends = b.maybe_known(o, 1), b.maybe_known(o, 2)
    if begins is None or ends is None:
        return _computed_slice(b, o, x, axes, steps)
    shape = b.shape(x)
    begin, end, stride = [0] * rank, [0] * rank, [1] * rank
    from_start, to_end = [True] * rank, [True] * rank
    for i, axis in enumerate(axes if axes is not None else range(begins.size)):
        step = 1 if steps is None else steps[i]
        first, last, size = int(begins.reshape(-1)[i]), int(ends.reshape(-1)[i]), shape[axis]
        stride[axis] = step
        if size is not None:
            first, last = _within(first, last, size, step)
            begin[axis], from_start[axis] = first, False
            end[axis], to_end[axis] = max(last, 0), last < 0
            if step > 0 and last >= size:
                to_end[axis] = True
            continue
        is_first = first == 0 if step > 0 else first in (-1, _FAR) or first >= _FAR
        is_last = last >= _FAR if step > 0 else last <= -_FAR
        begin[axis], from_start[axis] = (0 if is_first else first), is_first
        end[axis], to_end[axis] = (0 if is_last else last), is_last
    return b.mb.slice_by_index(
        x=x, begin=begin, end=end, stride=stride, begin_mask=from_start, end_mask=to_end
    )


def _within(first: int, last: int, size: int, step: int) -> tuple[int, int]:
    """Beginning and end as places of a known size; the end is -1 for the place before the first.

    Raises:
        UnsupportedOp: nothing would be left.
    """
    first, last = (n + size if n < 0 else n for n in (first, last))
    low, high = (0, size) if step > 0 else (-1, size - 1)
    first, last = (min(max(n, low), high) for n in (first, last))
    if len(range(first, last, step)) == 0:
        raise UnsupportedOp("it makes a tensor without elements, which Core ML does not have")
    return first, last


def _computed_slice(b: Builder, o: Operator, x: Var, axes: list[int] | None, steps: list[int] | None) -> Var:
    """A slice whose ends are computed, along leading axes or all."""
    rank = len(x.shape)
    sizes = b.sizes(b.read(o, 1))
    wanted = axes if axes is not None else list(range(sizes[0]))
    if [a % rank for a in wanted] != list(range(len(wanted))):
        raise UnsupportedOp("its ends depend on what is fed, along axes that are not the first ones")
    rest = rank - len(wanted)
    begin, end = b.read(o, 1), b.read(o, 2)
    if rest:
        none = np.zeros(rest, np.int32)
        begin, end = (b.mb.concat(values=[v, none], axis=0) for v in (begin, end))
    masks = [a >= len(wanted) for a in range(rank)]
    stride = [*(steps or [1] * len(wanted)), *[1] * rest]
    return b.mb.slice_by_index(x=x, begin=begin, end=end, stride=stride, begin_mask=masks, end_mask=masks)


@says("Gather")
def gather(b: Builder, o: Operator) -> Var:
    x, indices = b.read(o, 0), b.read(o, 1)
    axis = int(o.options.get("axis", 0))
    # MIL gathers numbers only.
    if b.type(x) == "bool":
        return b.mb.cast(
            x=b.mb.gather(x=b.mb.cast(x=x, dtype="int32"), indices=indices, axis=axis), dtype="bool"
        )
    return b.mb.gather(x=x, indices=indices, axis=axis)


@says("GatherElements")
def gather_elements(b: Builder, o: Operator) -> Var:
    return b.mb.gather_along_axis(x=b.read(o, 0), indices=b.read(o, 1), axis=int(o.options.get("axis", 0)))


@says("GatherND")
def gather_nd(b: Builder, o: Operator) -> Var:
    batch = int(o.options.get("batch_dims", 0))
    if not batch:
        return b.mb.gather_nd(x=b.read(o, 0), indices=b.read(o, 1))
    if b.target < 16:
        raise UnsupportedOp("batches of it need iOS16", hint="--deployment-target iOS16")
    return b.mb.gather_nd(x=b.read(o, 0), indices=b.read(o, 1), batch_dims=batch)


_SCATTERS = {"none": "update", "add": "add", "mul": "mul", "max": "max", "min": "min"}


@says("ScatterND")
def scatter_nd(b: Builder, o: Operator) -> Var:
    mode = _SCATTERS[o.options.get("reduction", "none")]
    data, indices, updates = (b.read(o, i) for i in range(3))
    return b.mb.scatter_nd(data=data, indices=indices, updates=updates, mode=mode)


@says("Pad")
def pad(b: Builder, o: Operator) -> Var:
    """x with more around it, or less where pads are negative."""
    x, amounts = b.read(o, 0), whole(b.known(o, 1, "how much it pads"))
    mode = o.options.get("mode", "constant")
    fill = b.known(o, 2, "what it pads with") if b.has(o, 2) else np.zeros((), np.float32)
    if any(n < 0 for n in amounts):
        raise UnsupportedOp("its pads are negative")
    if mode not in ("constant", "reflect", "edge"):
        raise UnsupportedOp(f"its mode is {mode}")
    kind = b.type(x)
    # MIL pads floats; whole numbers up to 2^24 come back as they were.
    value = x if b.is_float(x) else b.mb.cast(x=x, dtype="fp32")
    if mode == "constant":
        y = b.mb.pad(x=value, pad=pairs(amounts), mode=mode, constant_val=np.float32(fill.reshape(-1)[0]))
    else:
        y = _mirrored(b, value, pairs(amounts), "replicate" if mode == "edge" else mode)
    return y if b.is_float(x) else b.mb.cast(x=y, dtype=kind)


def _mirrored(b: Builder, x: Var, amounts: list[int], mode: str) -> Var:
    """Core ML mirrors the last two axes; others take their turn there."""
    rank = len(x.shape)
    touched = [a for a in range(rank) if amounts[2 * a] or amounts[2 * a + 1]]
    if all(a >= rank - 2 for a in touched):
        last = amounts[-4:] if rank > 1 else amounts
        return b.mb.pad(x=x, pad=last, mode=mode)
    for axis in touched:
        order = [a for a in range(rank) if a != axis] + [axis]
        y = b.mb.pad(
            x=b.mb.transpose(x=x, perm=order), pad=[amounts[2 * axis], amounts[2 * axis + 1]], mode=mode
        )
        x = b.mb.transpose(x=y, perm=whole(np.argsort(order)))
    return x


@says("Tile")
def tile(b: Builder, o: Operator) -> Var:
    return b.mb.tile(x=b.read(o, 0), reps=whole(b.known(o, 1, "how often it repeats")))


@says("Expand")
def expand(b: Builder, o: Operator) -> Var:
    """Sizes of 1 as often as is wanted."""
    x, wanted = b.read(o, 0), b.maybe_known(o, 1)
    if wanted is None:
        kind = b.type(x)
        ones = b.mb.fill(shape=b.read(o, 1), value=np.float32(1))
        y = b.mb.mul(x=b.cast(x, "fp32"), y=ones)
        return b.cast(y, kind)
    sizes, target = list(b.sizes(x)), whole(wanted)
    sizes = [1] * (len(target) - len(sizes)) + sizes
    target = [1] * (len(sizes) - len(target)) + target
    if len(sizes) != len(x.shape):
        x = b.mb.reshape(x=x, shape=np.array(sizes, np.int32))
    reps = [max(n, m) // n for n, m in zip(sizes, target, strict=True)]
    return b.mb.tile(x=x, reps=reps) if any(n != 1 for n in reps) else b.mb.identity(x=x)


@says("Shape")
def shape(b: Builder, o: Operator) -> Var:
    sizes = b.mb.shape(x=b.read(o, 0))
    start, end = int(o.options.get("start", 0)), o.options.get("end")
    if not start and end is None:
        return sizes
    rank = len(b.read(o, 0).shape)
    first, last = _within(start, rank if end is None else int(end), rank, 1)
    return b.mb.slice_by_index(x=sizes, begin=[first], end=[last])


@says("Size")
def size(b: Builder, o: Operator) -> Var:
    return b.mb.reduce_prod(x=b.mb.shape(x=b.read(o, 0)), axes=[0], keep_dims=False)


@says("ConstantOfShape")
def constant_of_shape(b: Builder, o: Operator) -> Var:
    value = o.options.get("value")
    element = o.outputs[0].dtype
    number = np.zeros(1, np.float32) if value is None else np.asarray(value.array())
    kind = mil_type(element)
    y = b.mb.fill(shape=b.read(o, 0), value=np.float32(number.reshape(-1)[0]))
    return b.cast(y, kind)


@says("Range")
def range_(b: Builder, o: Operator) -> Var:
    start, end, step = (b.read(o, i) for i in range(3))
    return b.mb.range_1d(start=start, end=end, step=step)


@says("NonZero")
def non_zero(b: Builder, o: Operator) -> Var:
    """[rank, n]; MIL's own is [n, rank]."""
    return b.mb.transpose(x=b.mb.non_zero(x=b.read(o, 0)), perm=[1, 0])


@says("ReverseSequence")
def reverse_sequence(b: Builder, o: Operator) -> Var:
    return b.mb.reverse_sequence(
        x=b.read(o, 0),
        lengths=b.read(o, 1),
        seq_axis=int(o.options.get("time_axis", 0)),
        batch_axis=int(o.options.get("batch_axis", 1)),
    )


@says("OneHot")
def one_hot(b: Builder, o: Operator) -> Var:
    values = b.known(o, 2, "what it is made of").reshape(-1)
    kind = mil_type(o.outputs[0].dtype)
    number = np.int32 if kind == "int32" else np.float32
    return b.cast(
        b.mb.one_hot(
            indices=b.cast(b.read(o, 0), "int32"),
            one_hot_vector_size=int(b.known(o, 1, "how many there are").reshape(-1)[0]),
            axis=int(o.options.get("axis", -1)),
            on_value=number(values[1]),
            off_value=number(values[0]),
        ),
        kind,
    )
