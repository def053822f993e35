"""Layer normalization as one operator.

TensorFlow has none, so a layer that was one comes as ten operators, which ONNX Runtime takes for one only if
they are spelled in its way and no quantization lies between them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np

from thinflow.ir.types import FLOAT
from thinflow.lower.onnx.wiring import Match, Rewrite, Wiring, new_constant
from thinflow.onnx.program import Operator, Tensor
from thinflow.program.fusion import const, need, only_if, op, value
from thinflow.program.wiring import constant_of, with_constant
from thinflow.typing import Array


class _Norm(NamedTuple):
    """(x - mean) / sqrt(variance + epsilon), over all axes from one on."""

    x: Tensor
    axis: int
    epsilon: float


_Found: TypeAlias = tuple[_Norm, Array | None, Array | None]  # with scale and offset


def _fuse(m: Match, find: Callable[[Match], _Found | None]) -> None:
    found = find(m) if m.output.dtype is FLOAT else None
    only_if(found is not None)
    assert found is not None
    _become(m, *found)


class FuseLayerNorm(Rewrite):
    """(x - mean) * (1 / sqrt(variance + epsilon)), or a quotient -> LayerNormalization(x, ones)."""

    patterns = (op("Mul|Div", value("first"), value("second")),)

    def replace(self, m: Match) -> None:
        _fuse(m, _centred)


class FuseAppliedNorm(Rewrite):
    """x * f + (b - mean * f), with f = g / sqrt(variance + epsilon) -> LayerNormalization(x, g, b).

    `tf.nn.batch_normalization` says it so, which older Keras calls; Keras 3 adds -mean * f. The offset may be
    missing.
    """

    patterns = (op("Add|Sub", value("first"), value("second")),)

    def replace(self, m: Match) -> None:
        _fuse(m, _applied)


class FuseNormScale(Rewrite):
    """LayerNormalization(x, ones) * g -> LayerNormalization(x, g)."""

    patterns = (
        op("Mul", op("LayerNormalization", value("x"), const("s"), name="norm"), const("g"), any_order=True),
    )

    def replace(self, m: Match) -> None:
        norm = m.operator("norm")
        only_if(len(norm.inputs) == 2 and bool((m.array("s") == 1).all()))
        _take(m, norm, 1, m.array("g"))


class FuseNormOffset(Rewrite):
    """LayerNormalization(x, g) + b -> LayerNormalization(x, g, b)."""

    patterns = (
        op("Add", op("LayerNormalization", value("x"), const("s"), name="norm"), const("b"), any_order=True),
    )

    def replace(self, m: Match) -> None:
        norm = m.operator("norm")
        only_if(len(norm.inputs) == 2)
        _take(m, norm, 2, m.array("b"))


def _take(m: Match, norm: Operator, place: int, numbers: Array) -> None:
    row = _row(numbers, m.tensor("x"), m.tensor("s").array().shape)
    need(row is not None, "it differs along axes that are not normalized")
    assert row is not None
    m.wiring.set_input(norm, place, new_constant(f"{m.output.name}/numbers", row, FLOAT))
    m.wiring.absorb(m.head, norm)


def _become(m: Match, norm: _Norm, scale: Array | None, offset: Array | None) -> None:
    sizes, constants = _sizes(norm), []
    scale = np.ones(sizes, np.float32) if scale is None else scale
    need(m.output.shape == norm.x.shape, "its numbers broadcast to another shape")
    for name, numbers in (("scale", scale), ("offset", offset)):
        row = None if numbers is None else _row(numbers, norm.x, sizes)
        need(numbers is None or row is not None, f"its {name} differs along axes that are not normalized")
        if row is not None:
            constants.append(new_constant(f"{m.output.name}/{name}", row, FLOAT))
    options = {"axis": norm.axis - len(norm.x.shape or ()), "epsilon": norm.epsilon}
    m.wiring.become(m.head, "LayerNormalization", norm.x, *constants, **options)


def _row(numbers: Array, x: Tensor, sizes: tuple[int, ...]) -> Array | None:
    """Numbers of an operand of x as one for each place that is normalized; None if it has others."""
    ahead = max(numbers.ndim - len(sizes), 0)
    if numbers.ndim > len(x.shape or ()) or any(n != 1 for n in numbers.shape[:ahead]):
        return None
    left = numbers.reshape(numbers.shape[ahead:])
    if any(n not in (1, size) for n, size in zip(left.shape[::-1], sizes[::-1], strict=False)):
        return None
    return np.ascontiguousarray(np.broadcast_to(left, sizes).astype(np.float32))


def _sizes(norm: _Norm) -> tuple[int, ...]:
    """Of the axes that are normalized; they are known."""
    return tuple(int(n or 0) for n in (norm.x.shape or ())[norm.axis :])


def _centred(m: Match) -> _Found | None:
    """What a product or quotient normalizes; None if it is another one."""
    wiring, orders = m.wiring, [m.head.inputs, m.head.inputs[::-1]]
    for difference, factor in orders if m.head.code == "Mul" else orders[:1]:
        centred = wiring.producer(difference, "Sub")
        if centred is not None:
            (x, mean), find = centred.inputs, _root if m.head.code == "Div" else _under_root
            if (norm := _norm(wiring, x, mean, find(wiring, factor))) is not None:
                return norm, None, None
    return None


def _applied(m: Match) -> _Found | None:
    """The norm that a sum applies, with its scale and offset; None if it is another one."""
    wiring, orders = m.wiring, [m.head.inputs, m.head.inputs[::-1]]
    for first, second in orders if m.head.code == "Add" else orders[:1]:
        product = wiring.producer(first, "Mul")
        for x, factor in () if product is None else (product.inputs, product.inputs[::-1]):
            mean, offset = _shift(wiring, m.head.code, second, factor)
            made = wiring.producer(factor, "Mul")
            inverse, scale = (factor, None) if made is None else with_constant(made)
            norm = _norm(wiring, x, mean, _under_root(wiring, inverse))
            if norm is not None:
                return norm, scale, offset
    return None


def _shift(
    wiring: Wiring, code: str, tensor: Tensor | None, factor: Tensor | None
) -> tuple[Tensor | None, Array | None]:
    """The mean and the offset of what is added to, or taken from, a product with this factor."""
    offset, is_minus = None, code == "Sub"
    if not is_minus and (made := wiring.producer(tensor, "Sub")) is not None:
        offset, tensor, is_minus = constant_of(made.inputs[0]), made.inputs[1], True
        if offset is None:
            return None, None
    elif not is_minus and (made := wiring.producer(tensor, "Add")) is not None:
        tensor, offset = with_constant(made)
    product = wiring.producer(tensor, "Mul")
    if product is None or factor not in product.inputs:
        return None, None
    mean = product.inputs[1 if product.inputs[0] is factor else 0]
    if not is_minus:
        turned = wiring.producer(mean, "Neg")
        mean = None if turned is None else turned.inputs[0]
    return mean, offset


def _root(wiring: Wiring, tensor: Tensor | None) -> Tensor | None:
    root = wiring.producer(tensor, "Sqrt")
    return None if root is None else root.inputs[0]


def _under_root(wiring: Wiring, tensor: Tensor | None) -> Tensor | None:
    """v of 1 / sqrt(v)."""
    turned = wiring.producer(tensor, "Reciprocal")
    if turned is not None:
        return _root(wiring, turned.inputs[0])
    quotient = wiring.producer(tensor, "Div")
    if quotient is None or (one := constant_of(quotient.inputs[0])) is None or not (one == 1).all():
        return None
    return _root(wiring, quotient.inputs[1])


def _norm(wiring: Wiring, x: Tensor | None, mean: Tensor | None, total: Tensor | None) -> _Norm | None:
    """The norm of x that takes this mean, and the root of this sum; None if they do not belong together."""
    added = wiring.producer(total, "Add")
    variance, epsilon = (None, None) if added is None else with_constant(added)
    axis = _mean_from(wiring, x, mean)
    squares = wiring.producer(variance, "ReduceMean")
    if x is None or axis is None or squares is None or epsilon is None or epsilon.size != 1:
        return None
    if _mean_from(wiring, squares.inputs[0], variance) != axis or float(epsilon.reshape(())) < 0:
        return None
    square = wiring.producer(squares.inputs[0], "Mul", "Pow")
    centred = None if square is None else wiring.producer(square.inputs[0], "Sub")
    if square is None or centred is None or list(centred.inputs) != [x, mean]:
        return None
    if square.code == "Mul" and square.inputs[0] is not square.inputs[1]:
        return None
    if square.code == "Pow" and not np.array_equal(_numbers(square.inputs[1]), [2]):
        return None
    return _Norm(x, axis, float(epsilon.reshape(())))


def _numbers(tensor: Tensor | None) -> list[float]:
    array = constant_of(tensor)
    return [] if array is None else [float(n) for n in array.reshape(-1)]


def _mean_from(wiring: Wiring, x: Tensor | None, mean: Tensor | None) -> int | None:
    """The axis from which on a tensor is the mean of x, axes kept and sizes known; None if it is none."""
    found = wiring.producer(mean, "ReduceMean")
    if x is None or x.shape is None or found is None or found.inputs[0] is not x:
        return None
    stated = found.options.get("axes") or (_numbers(found.inputs[1]) if len(found.inputs) > 1 else ())
    rank = len(x.shape)
    axes = sorted(int(a) % rank for a in stated) if rank else []
    if not axes or axes != list(range(axes[0], rank)) or not found.options.get("keepdims", 1):
        return None
    known = [n for n in x.shape[axes[0] :] if n]
    return axes[0] if len(known) == len(axes) and math.prod(known) > 1 else None
