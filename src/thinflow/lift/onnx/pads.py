"""ONNX's Pad: borders of a number, of what is at the edge, mirrored, or from the other side."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from thinflow.decompose.terms import Term, concat
from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import INT32
from thinflow.lift.lifter import Call
from thinflow.lift.onnx.formulas import Formula, Size, counted, scalar, size
from thinflow.lift.onnx.values import bounded, integers, like, numbers, opset, rank, text
from thinflow.lift.rules import lifts

_MODES = frozenset({"constant", "reflect", "edge", "wrap"})
_PADS = 2
"""The version of ONNX's op set in which Pad's `paddings` became `pads`."""


@lifts("onnx.Pad", ignores=("value",), unread=(2,))
def _pad(c: Call) -> Value:
    """Pads come as all begins, then all ends; negative ones cut off."""
    mode = text(c, "mode", "constant")
    if mode not in _MODES:
        raise UnsupportedOp(f"it pads in the mode '{mode}'")
    axes = _axes(c)
    if c.has(1) and c[1].node.tensor is None and c[1].spec.ints is None:
        return _computed(c, mode, axes)
    pads = numbers(c, "paddings" if opset(c) < _PADS else "pads", 1) or ()
    if len(pads) != 2 * len(axes):
        raise UnsupportedOp(f"it has {len(pads)} pads for {len(axes)} axes")
    # Of 32 bits: TensorFlow fuses pads with convolutions, and stops at others.
    table = np.zeros((rank(c), 2), np.int32)
    table[axes] = np.array(pads, np.int32).reshape(2, -1).T
    x = _cut(c, table)
    table = np.maximum(table, 0)
    if not table.any():
        return c.emit("Identity", x) if x is c[0] else x
    if mode == "constant":
        return _bordered(c, x, c.constant(table))
    known = x.spec.shape or ()
    fits = all(
        n is None or most < n or not most for n, most in zip(known, table.max(1).tolist(), strict=True)
    )
    if mode == "reflect" and fits:
        return c.emit("MirrorPad", x, c.constant(table), mode="REFLECT")
    return _taken(Formula(c).term(x), mode, {a: (b, e) for a, (b, e) in enumerate(table.tolist()) if b or e})


def _axes(c: Call) -> list[int]:
    """The axes that pads are given for.

    Raises:
        UnsupportedOp: one is named twice, or is none of the operand's.
    """
    count = rank(c)
    given = numbers(c, "", 3) if c.has(3) else None
    axes = [axis % count for axis in given] if given is not None else list(range(count))
    if len(set(axes)) < len(axes) or not all(-count <= axis < count for axis in given or ()):
        raise UnsupportedOp(f"its axes {list(given or ())} are not those of {count} dimensions")
    return axes


def _cut(c: Call, table: np.ndarray) -> Value:
    """The operand without what negative pads take away."""
    if not (table < 0).any():
        return c[0]
    taken = np.minimum(table, 0).sum(1).tolist()
    if any(n is not None and n + t < 0 for n, t in zip(c[0].spec.shape or (), taken, strict=False)):
        raise UnsupportedOp("its pads take more away than there is")
    parts = {
        axis: (int(max(-before, 0)), int(behind) if behind < 0 else None, 1)
        for axis, (before, behind) in enumerate(table.tolist())
        if min(before, behind) < 0
    }
    return Formula(c).operand(0).slice(parts).value


def _bordered(c: Call, x: Value, widths: Value) -> Value:
    """A border of one number."""
    fill = c[2] if c.has(2) else like(c, c.get("value", 0.0), x)
    tensor = fill.node.tensor
    # TensorFlow writes Pad for zeros.
    if tensor is not None and tensor.numpy().dtype.kind in "fiu" and not tensor.numpy().any():
        return c.emit("Pad", x, widths)
    return c.emit("PadV2", x, widths, c.emit("Reshape", fill, integers(c, ())))


def _computed(c: Call, mode: str, axes: Sequence[int]) -> Value:
    """With pads that the model computes."""
    count, f = rank(c), Formula(c)
    pads = f.operand(1)
    if mode in {"edge", "wrap"}:
        at = [pads.at(0, i).cast(INT32) for i in range(2 * len(axes))]
        return _taken(f.operand(0), mode, dict(zip(axes, zip(at[: len(axes)], at[len(axes) :], strict=True),
                                                   strict=True)))  # fmt: skip
    table = pads.cast(INT32).reshape([2, len(axes)]).transpose((1, 0))
    if list(axes) != list(range(count)):
        # Axes without pads take the row of zeros behind the others.
        rows = [axes.index(axis) if axis in axes else len(axes) for axis in range(count)]
        table = concat([table, f.constant(np.zeros((1, 2)), INT32)], 0).gather(f.constant(rows, INT32))
    if mode == "reflect":
        return c.emit("MirrorPad", c[0], table.value, mode="REFLECT")
    return _bordered(c, c[0], table.value)


def _taken(x: Term, mode: str, pads: dict[int, tuple[Size, Size]]) -> Value:
    """Axis by axis, the elements that stand inside and in the border."""
    for axis, (before, behind) in pads.items():
        length = size(x, axis)
        known = [n for n in (length, before, behind) if isinstance(n, int)]
        if len(known) == 3:
            x = x.gather(x.body.constant(_places(mode, *known), INT32), axis)
            continue
        if mode == "reflect":
            raise UnsupportedOp("it mirrors an axis of open size more than once")
        places = counted(x.body, scalar(x.body, before) + behind + length) - before
        last = length - 1
        places = places.apply("FloorMod", scalar(x.body, length)) if mode == "wrap" else places.clip(0, last)
        x = x.gather(places, axis)
    return x.value


def _places(mode: str, length: int, before: int, behind: int) -> np.ndarray:
    """Indices of the elements of a padded axis in the axis itself."""
    bounded(before + length + behind)
    if not length:
        raise UnsupportedOp(f"there is nothing to pad with in the mode '{mode}'")
    places: np.ndarray = np.pad(np.arange(length), (before, behind), mode=mode)  # type: ignore[call-overload]
    return places
