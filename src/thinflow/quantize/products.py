"""Layers as matrix products: rows of their inputs times the columns of constant weights.

A convolution multiplies the window around each position of its output by its weights: a row of taps times
channels. What rounding does to the output of a layer is X (W - Wq)^T, for X [rows, inputs] of such rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from thinflow.onnx import program as onnx
from thinflow.ops._shapes import same_padding
from thinflow.program.model import Tensor
from thinflow.quantize.kernels import Operator, input_at, is_float
from thinflow.tflite import model as tflite
from thinflow.typing import Array


@dataclass(frozen=True, eq=False)
class Product:
    """A layer whose groups g give out[g] = rows[g] @ matrix[g].T.

    Attributes:
        operator: the layer.
        x, weights: its input and its constant weights, float32.
        has_bias: whether one number can be added to all of an output channel, by a constant bias.
        in_loop: whether what is seen of the input are all turns of a loop, one behind the other.
    """

    operator: Operator
    x: Tensor
    weights: Tensor
    has_bias: bool
    in_loop: bool = field(default=False, kw_only=True)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Those of the weights."""
        return tuple(self.weights.array().shape)

    def matrix(self, w: Array) -> Array:
        """[groups, outputs of each, inputs of each] of an array of the weights' shape; a view if possible."""
        raise NotImplementedError

    def restored(self, matrix: Array) -> Array:
        """What `matrix` came from."""
        raise NotImplementedError

    def mean(self, w: Array, inputs: Array) -> Array:
        """float64 [groups, outputs of each] of means [groups, inputs of each] of inputs; without bias."""
        return np.asarray(np.einsum("gok,gk->go", self.matrix(w), inputs))

    def corrected_bias(self, bias: Array, w: Array, mean: Array, real: Array, read: Array) -> Array:
        """The bias by which stored weights give the means of outputs that the layer has in float.

        b + W E[x] - Wq E[xq]

        Args:
            bias: of the layer, in any shape.
            w, mean: its weights, and the means [groups, inputs of each] of what it reads in float.
            real, read: the numbers that stored weights stand for, and the means of what these read.
        """
        shift = self.mean(np.asarray(w), mean) - self.mean(real, read)
        corrected: Array = bias + shift.reshape(bias.shape)
        return corrected

    def fits(self, values: Array) -> bool:
        """True if an array is an input; those with values that are not finite come without their shape."""
        shape = self.x.shape
        if shape is None:
            return values.ndim > 1
        if len(shape) != values.ndim:
            return False
        sizes = [*zip(shape, values.shape, strict=True)]
        return all(n in (None, found) for n, found in sizes[self.in_loop :])

    def count(self, values: Array) -> int:
        """The number of rows of an input."""
        raise NotImplementedError

    def rows(self, values: Array, chosen: Array) -> Array:
        """[groups, chosen, inputs of each]: some rows of an input, by number."""
        raise NotImplementedError


_P = TypeVar("_P", bound=Callable[[Operator], "Product | None"])
_READERS: dict[str, Callable[[Operator], Product | None]] = {}


def _reads(code: str) -> Callable[[_P], _P]:
    """Register the reader of an op's operators; it gives None for forms that are no such product."""

    def register(reader: _P) -> _P:
        _READERS[code] = reader
        return reader

    return register


def products(program: tflite.Program | onnx.Program) -> Iterator[Product]:
    """Layers with constant weights in the part of a program that is not called by others."""
    block = program if isinstance(program, onnx.Program) else program.subgraphs[0]
    return _products_of(block.operators)


def products_in_loop(body: tflite.Subgraph) -> Iterator[Product]:
    """The same in the body of a loop."""
    return (replace(product, in_loop=True) for product in _products_of(body.operators))


def _products_of(operators: Iterable[Operator]) -> Iterator[Product]:
    for operator in operators:
        reader = _READERS.get(operator.code)
        found = None if reader is None else reader(operator)
        if found is not None:
            yield found


class _Parts(NamedTuple):
    x: Tensor
    weights: Tensor
    has_bias: bool
    sizes: tuple[int, ...]


def _parts(operator: Operator, x: int, w: int, bias: int, axis: int) -> _Parts | None:
    """Input, weights and whether there is a bias; None unless a float product of constant weights.

    Args:
        axis: of the weights, with the output channels.
    """
    data, weights, added = (input_at(operator, number) for number in (x, w, bias))
    if data is None or data.is_constant or not is_float(data):
        return None
    if weights is None or not weights.is_constant or not is_float(weights) or not weights.shape:
        return None
    sizes = weights.array().shape
    if not -len(sizes) <= axis < len(sizes) or not all(sizes):
        return None
    is_row = added is not None and added.is_constant and is_float(added)
    return _Parts(data, weights, is_row and added.array().size == sizes[axis], sizes)


# ------------------------------------------------------------------------------------------- matrix products


@dataclass(frozen=True, eq=False)
class Dense(Product):
    """Rows are the last dimension of the input.

    Attributes:
        is_turned: whether the weights are [inputs, outputs].
    """

    is_turned: bool = False

    def matrix(self, w: Array) -> Array:
        matrix: Array = (w.T if self.is_turned else w)[None]
        return matrix

    def restored(self, matrix: Array) -> Array:
        w: Array = matrix[0].T if self.is_turned else matrix[0]
        return w

    def count(self, values: Array) -> int:
        return values.size // self.sizes[0 if self.is_turned else 1]

    def rows(self, values: Array, chosen: Array) -> Array:
        rows: Array = values.reshape(-1, self.sizes[0 if self.is_turned else 1])[chosen][None]
        return rows


@_reads("FULLY_CONNECTED")
def _fully_connected(operator: Operator) -> Product | None:
    parts = _parts(operator, 0, 1, 2, 0)
    return None if parts is None or len(parts.sizes) != 2 else Dense(operator, *parts[:3])


@_reads("BATCH_MATMUL")
def _batch_matmul(operator: Operator) -> Product | None:
    parts = _parts(operator, 0, 1, 2, -1)
    if parts is None or operator.options.get("adj_x") or len(parts.sizes) != 2:
        return None
    return Dense(operator, parts.x, parts.weights, False, not operator.options.get("adj_y"))


@_reads("MatMul")
def _matmul(operator: Operator) -> Product | None:
    parts = _parts(operator, 0, 1, 2, -1)
    return (
        None
        if parts is None or len(parts.sizes) != 2
        else Dense(operator, parts.x, parts.weights, False, True)
    )


@_reads("Gemm")
def _gemm(operator: Operator) -> Product | None:
    parts = _parts(operator, 0, 1, 2, 0 if operator.options.get("transB") else -1)
    if parts is None or operator.options.get("transA") or len(parts.sizes) != 2:
        return None
    return Dense(operator, *parts[:3], not operator.options.get("transB"))


# ---------------------------------------------------------------------------------------------- convolutions


@dataclass(frozen=True, eq=False)
class Windows(Product):
    """Rows are the windows of a convolution of any number of dimensions; groups are those of its channels.

    Attributes:
        kernel, strides, dilations: one number per dimension of the picture.
        padding: "SAME", "SAME_LOWER", "VALID", or zeros in front of and behind each dimension.
        groups: of channels.
        channels_first: whether channels come before the picture, in the input and in the weights.
        is_depthwise: whether weights are [1, picture, channels], of as many groups as the input has channels.
    """

    kernel: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    dilations: tuple[int, ...] = ()
    padding: str | tuple[tuple[int, int], ...] = "VALID"
    groups: int = 1
    channels_first: bool = False
    is_depthwise: bool = False

    def matrix(self, w: Array) -> Array:
        if self.is_depthwise:
            # 1HWC with C * multiplier entries: those of one input channel lie together.
            turned: Array = w.reshape(math.prod(self.kernel), self.groups, -1).transpose(1, 2, 0)
            return turned
        return w.reshape(self.groups, w.shape[0] // self.groups, -1)

    def restored(self, matrix: Array) -> Array:
        if self.is_depthwise:
            matrix = matrix.transpose(2, 0, 1)
        return matrix.reshape(self.sizes)

    def _picture(self, values: Array) -> Array:
        picture: Array = np.moveaxis(values, 1, -1) if self.channels_first else values
        return picture

    def _borders(self, sizes: tuple[int, ...]) -> list[tuple[int, int]]:
        axes = zip(sizes, self.kernel, self.strides, self.dilations, strict=True)
        if not isinstance(self.padding, str):
            return list(self.padding)
        if self.padding == "VALID":
            return [(0, 0) for _ in sizes]
        pairs = [same_padding(*axis) for axis in axes]
        return [pair[::-1] for pair in pairs] if self.padding == "SAME_LOWER" else pairs

    def _places(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        """Sizes of the output."""
        axes = zip(sizes, self._borders(sizes), self.kernel, self.strides, self.dilations, strict=True)
        return tuple(max((n + sum(p) - (k - 1) * d - 1) // s + 1, 0) for n, p, k, s, d in axes)

    def count(self, values: Array) -> int:
        picture = self._picture(values)
        return len(picture) * math.prod(self._places(picture.shape[1:-1]))

    def rows(self, values: Array, chosen: Array) -> Array:
        picture = self._picture(values)
        sizes = picture.shape[1:-1]
        number, *places = np.unravel_index(chosen, (len(picture), *self._places(sizes)))
        taps = np.indices(self.kernel).reshape(len(self.kernel), -1)
        index: list[Array] = [number[:, None]]
        inside = np.ones((len(chosen), taps.shape[1]), bool)
        borders = self._borders(sizes)
        for axis, size in enumerate(sizes):
            start = places[axis] * self.strides[axis] - borders[axis][0]
            at = start[:, None] + taps[axis] * self.dilations[axis]
            inside &= (at >= 0) & (at < size)
            index.append(at.clip(0, size - 1))
        # [rows, taps, channels]; what lies outside is 0.
        seen = picture[tuple(index)] * inside[:, :, None]
        split = seen.reshape(*seen.shape[:2], self.groups, -1)
        # Inputs of a group in the order that weights have them: channels before taps, or behind them.
        order = (2, 0, 3, 1) if self.channels_first else (2, 0, 1, 3)
        rows: Array = split.transpose(order).reshape(self.groups, len(chosen), -1)
        return rows


def _strided(operator: Operator) -> dict[str, Any]:
    """Fields of `Windows` that LiteRT's convolutions share."""
    options = operator.options
    return {
        "strides": (options.get("stride_h", 0), options.get("stride_w", 0)),
        "dilations": (options.get("dilation_h_factor", 1), options.get("dilation_w_factor", 1)),
        "padding": options.get("padding", "SAME"),
    }


@_reads("CONV_2D")
def _conv_2d(operator: Operator) -> Product | None:
    parts = _parts(operator, 0, 1, 2, 0)
    channels = None if parts is None or not parts.x.shape else parts.x.shape[-1]
    if parts is None or channels is None or len(parts.sizes) != 4 or channels % parts.sizes[3]:
        return None
    groups = channels // parts.sizes[3]
    if parts.sizes[0] % groups:
        return None
    return Windows(operator, *parts[:3], parts.sizes[1:3], groups=groups, **_strided(operator))


@_reads("DEPTHWISE_CONV_2D")
def _depthwise_conv_2d(operator: Operator) -> Product | None:
    parts = _parts(operator, 0, 1, 2, 3)
    channels = None if parts is None or not parts.x.shape else parts.x.shape[-1]
    if parts is None or not channels or len(parts.sizes) != 4 or parts.sizes[3] % channels:
        return None
    geometry = _strided(operator)
    return Windows(operator, *parts[:3], parts.sizes[1:3], groups=channels, is_depthwise=True, **geometry)


@_reads("Conv")
def _conv(operator: Operator) -> Product | None:
    parts = _parts(operator, 0, 1, 2, 0)
    if parts is None or len(parts.sizes) < 3:
        return None
    options, kernel = operator.options, tuple(parts.sizes[2:])
    ones = [1] * len(kernel)
    groups = int(options.get("group", 1))
    named = {"SAME_UPPER": "SAME", "SAME_LOWER": "SAME_LOWER", "VALID": "VALID"}
    pads = list(options.get("pads") or [0] * (2 * len(kernel)))
    around = tuple(zip(pads[: len(kernel)], pads[len(kernel) :], strict=True))
    padding = named.get(str(options.get("auto_pad", "NOTSET")), around)
    strides, dilations = (tuple(options.get(name) or ones) for name in ("strides", "dilations"))
    if parts.sizes[0] % groups or not len(kernel) == len(strides) == len(dilations):
        return None
    return Windows(operator, *parts[:3], kernel, strides, dilations, padding, groups, channels_first=True)


@dataclass(frozen=True, eq=False)
class Transposed(Dense):
    """A transposed convolution; weights are [outputs, picture, inputs], and each tap is a product of its own.

    Taps that meet in one place of the output are taken for unrelated.
    """

    def matrix(self, w: Array) -> Array:
        return w.reshape(1, -1, w.shape[-1])

    def restored(self, matrix: Array) -> Array:
        return matrix.reshape(self.sizes)

    def count(self, values: Array) -> int:
        return values.size // self.sizes[-1]

    def rows(self, values: Array, chosen: Array) -> Array:
        rows: Array = values.reshape(-1, self.sizes[-1])[chosen][None]
        return rows


@_reads("TRANSPOSE_CONV")
def _transpose_conv(operator: Operator) -> Product | None:
    parts = _parts(operator, 2, 1, 3, 0)
    # With strides, other weights reach each place of the output: no one number makes up for them.
    return (
        None
        if parts is None or len(parts.sizes) != 4
        else Transposed(operator, parts.x, parts.weights, False)
    )
