"""The way of a layer's channels to the next layer, and what is known of each on it.

A channel may be the same number for all inputs: because its weights are zero, or because all of what they add
is cut off by a ReLU.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import DTypeLike

from thinflow.ir.graph import Node, Value
from thinflow.ops import registry
from thinflow.ops.registry import call_kernel
from thinflow.ops.traits import Trait, has
from thinflow.rewrite.pattern import constant_tensor
from thinflow.rewrite.rule import Refuse
from thinflow.transforms.fold.producers import Producer, find_producer, weights_of
from thinflow.transforms.shared.constants import numbers
from thinflow.typing import Array

_ADDITIONS = Trait.BIAS_ADD | Trait.ADD


def is_layer(node: Node) -> bool:
    """True for an ordinary convolution or product of matrices, whose channels nothing else counts."""
    kind = weights_of(node.op)
    is_known = has(node.op, Trait.CONVOLUTION | Trait.MATMUL) and not has(
        node.op, Trait.CONV_TRANSPOSE | Trait.FUSED_CONV | Trait.QUANTIZED
    )
    return is_known and kind is not None and len(kind.axes) == 1 and len(node.inputs) == 2


@dataclass
class State:
    """What is known of the channels [C] at one place between two layers.

    Attributes:
        fixed: which are the same number for all inputs.
        values: float64, these numbers.
        limit: float64, what the others do not exceed.
    """

    fixed: Array
    values: Array
    limit: Array

    def add(self, b: Array) -> None:
        self.values, self.limit = self.values + b, self.limit + b

    def multiply(self, s: Array) -> None:
        self.fixed = self.fixed | (s == 0)
        self.values = self.values * s
        self.limit = np.full_like(self.values, np.inf)

    def through(self, node: Node, element: DTypeLike) -> None:
        """What an elementwise function of one input makes of it."""
        definition = registry.find(node.op)
        assert definition is not None
        if _is_rectifier(node):
            cut = self.limit <= 0
            self.fixed, self.values = self.fixed | cut, np.where(cut, 0.0, self.values)
        given = np.where(self.fixed, self.values, 0.0).astype(element)
        # Of what is not fixed, 0 stands in, which a logarithm for one does not like.
        with np.errstate(all="ignore"):
            (made,) = call_kernel(definition, [given], dict(node.attrs))
        self.values = np.asarray(made, np.float64).reshape(-1)
        self.fixed = self.fixed & np.isfinite(self.values)
        self.limit = np.full_like(self.values, np.inf)


@dataclass
class Path:
    """The way from a layer to the next one.

    Attributes:
        steps: what lies between.
        slices: (node, input number, axis) of constants that have an entry per channel.
    """

    producer: Producer
    state: State
    reader: Producer | None = None
    steps: list[Node] = field(default_factory=list)
    slices: list[tuple[Node, int, int]] = field(default_factory=list)


def made_by(producer: Producer) -> State:
    """What is known of a layer's results."""
    w = numbers(producer.tensor, producer.node)
    rows = np.moveaxis(w, producer.axes[0], -1).reshape(-1, producer.channels.count)
    fixed: Array = np.logical_not(rows.any(axis=0))
    limit = np.full(len(fixed), np.inf)
    if _is_not_negative(producer.node.inputs[producer.kind.data]):
        limit[(rows <= 0).all(axis=0)] = 0.0
    return State(fixed, np.zeros(len(fixed)), limit)


def _is_not_negative(value: Value) -> bool:
    while has(value.node.op, Trait.POOL | Trait.IDENTITY) and value.node.inputs:
        value = value.node.inputs[0]
    return _is_rectifier(value.node)


def _is_rectifier(node: Node) -> bool:
    """True for functions that make 0 of what is negative."""
    return has(node.op, Trait.RECTIFIER) and has(node.op, Trait.NOT_NEGATIVE)


def followed(producer: Producer, state: State) -> Path:
    """The way to the next layer.

    Raises:
        Refuse: there is none, or channels are not all that is told apart on it.
    """
    path = Path(producer, state)
    node = producer.node
    rank = producer.channels.rank or 2
    while True:
        if node.is_protected or any(v.uses for v in node.outputs[1:]):
            raise Refuse(f"its channels are wanted: '{node.name}' is an output", producer.node)
        uses = node.output().uses
        if len(uses) != 1:
            raise Refuse(f"'{node.name}' has {len(uses)} readers", producer.node)
        reader, index = uses[0]
        kind = weights_of(reader.op)
        if kind is not None and index == kind.data and is_layer(reader):
            path.reader = _next_layer(reader, path, rank)
            return path
        rank = _step(reader, index, path, rank)
        path.steps.append(reader)
        node = reader


def _next_layer(node: Node, path: Path, rank: int) -> Producer:
    reader = find_producer(node)
    size = reader.tensor.shape[input_axis(reader)]
    turned = any(node.get(name, False) for name in ("transpose_a", "adj_x"))
    # Behind a mean over the picture there is no layout any more; a product sums over the last axis.
    other = channels_first(path) and rank > 2
    if reader.kind.layout:
        other = channels_first(node) != channels_first(path)
    if size != path.producer.channels.count or turned or other:
        raise Refuse(f"'{node.name}' reads them otherwise than by channel", path.producer.node)
    return reader


def channels_first(of: Node | Path) -> bool:
    node = of.producer.node if isinstance(of, Path) else of
    return str(node.get("data_format", "")).startswith("NC")


def _step(node: Node, index: int, path: Path, rank: int) -> int:
    """Take what lies between two layers into account; the rank of what it gives.

    Raises:
        Refuse: channels cannot be followed through it.
    """
    state, count = path.state, path.producer.channels.count
    others = [n for n in range(len(node.inputs)) if n != index]
    if has(node.op, Trait.ELEMENTWISE) and not others and not has(node.op, Trait.FAKE_QUANT):
        state.through(node, path.producer.tensor.dtype.numpy())
    elif has(node.op, _ADDITIONS | Trait.MULTIPLY) and len(others) == 1:
        vector = _vector(node, others[0], path, rank)
        (state.add if has(node.op, _ADDITIONS) else state.multiply)(vector)
    elif has(node.op, Trait.POOL) and not others and len(node.outputs) == 1:
        _refuse_other_layout(node, path)
        window = node.get("ksize", ())
        if not isinstance(window, (list, tuple)) or len(window) != rank or window[_axis(path, rank)] != 1:
            raise Refuse(f"'{node.name}' pools across channels", path.producer.node)
        state.limit = np.full(count, np.inf)
    elif has(node.op, Trait.CONVOLUTION) and index == 0 and len(others) == 1:
        _depthwise(node, path)
    elif node.op == "Mean" and index == 0 and len(others) == 1:
        state.limit = np.full(count, np.inf)
        return _mean(node, path, rank)
    else:
        raise Refuse(f"its channels go into '{node.name}' ({node.op})", path.producer.node)
    return rank


def _vector(node: Node, number: int, path: Path, rank: int) -> Array:
    """float64 [C] of a constant that is added or multiplied; noted where it has an entry per channel."""
    tensor = constant_tensor(node.inputs[number])
    if tensor is None:
        raise Refuse(f"'{node.name}' ({node.op}) joins them with others", path.producer.node)
    count, sizes = path.producer.channels.count, tensor.shape
    vector = numbers(tensor, node).reshape(-1)
    if len(sizes) > rank or not np.isfinite(vector).all():
        raise Refuse(f"'{node.name}' gives them more axes, or infinite numbers", path.producer.node)
    if tensor.size != 1:
        # Constants have as many axes as what they meet or fewer; a BiasAdd's is one row for any layout.
        first = channels_first(path) and rank > 2
        axis = 0 if has(node.op, Trait.BIAS_ADD) else len(sizes) - rank + 1 if first else len(sizes) - 1
        if axis < 0 or tensor.size != count or sizes[axis] != count:
            raise Refuse(f"'{node.name}' has other numbers than one per channel", path.producer.node)
        path.slices.append((node, number, axis))
    return np.broadcast_to(vector, (count,))


def _axis(path: Path, rank: int) -> int:
    return 1 if channels_first(path) else rank - 1


def _depthwise(node: Node, path: Path) -> None:
    """A depthwise convolution with a filter for each channel."""
    state, count = path.state, path.producer.channels.count
    tensor = constant_tensor(node.inputs[1])
    is_depthwise = len((weights_of(node.op) or path.producer.kind).axes) == 2
    if tensor is None or not is_depthwise or len(tensor.shape) != 4 or tensor.shape[2:] != (count, 1):
        raise Refuse(f"its channels go into '{node.name}' ({node.op})", path.producer.node)
    _refuse_other_layout(node, path)
    w = numbers(tensor, node).reshape(-1, count)
    silent = ~w.any(axis=0)
    # At a border with padding, a number that is not 0 meets fewer weights.
    state.fixed = silent | (state.fixed & ((state.values == 0) | (not pads(node))))
    state.values = np.where(silent, 0.0, state.values * w.sum(axis=0))
    state.limit = np.full(count, np.inf)
    path.slices.append((node, 1, 2))


def _refuse_other_layout(node: Node, path: Path) -> None:
    if channels_first(node) != channels_first(path):
        raise Refuse(f"'{node.name}' has another data_format", path.producer.node)


def _mean(node: Node, path: Path, rank: int) -> int:
    """A mean over the picture; the rank behind it."""
    axes = constant_tensor(node.inputs[1])
    picture = set(range(2, rank) if channels_first(path) else range(1, rank - 1))
    found = None if axes is None else {int(a) % rank for a in axes.numpy().reshape(-1)}
    if found != picture or not picture:
        raise Refuse(f"'{node.name}' is no mean over the picture", path.producer.node)
    if node.get("keep_dims", False):
        return rank
    return 2


def pads(node: Node) -> bool:
    """True if places of a convolution's output see fewer inputs than others."""
    kind, tensor = weights_of(node.op), constant_tensor(node.inputs[1])
    if kind is None or not kind.layout:
        return False
    pointwise = tensor is not None and all(size == 1 for size in tensor.shape[:-2])
    padding = str(node.get("padding", ""))
    return padding != "VALID" and not (padding == "SAME" and pointwise)


def input_axis(producer: Producer) -> int:
    # Given transposed, the weights of a matrix product are [outputs, inputs].
    turned = not producer.kind.layout and producer.axes == (0,)
    return 1 if turned else producer.kind.input_axis


def by_input(reader: Producer, *, total: bool = False) -> Array:
    """float64 [inputs, weights of each]; or [inputs, outputs], summed over the picture."""
    w = numbers(reader.tensor, reader.node)
    if not total:
        return np.moveaxis(w, input_axis(reader), 0).reshape(w.shape[input_axis(reader)], -1)
    turned = np.moveaxis(w, (input_axis(reader), reader.axes[0]), (0, 1))
    return np.asarray(turned.reshape(*turned.shape[:2], -1).sum(axis=2))
