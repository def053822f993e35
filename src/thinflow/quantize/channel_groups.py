"""Channel groups: tensors whose channels can be rescaled together without a change of any answer.

    op(s * x) = s * op(x)        with a factor s[c] > 0 for each channel, the last dimension

ReLU, pooling, sums and most ops that move numbers about are of this kind: they carry factors on. Layers with
constant weights take factors of their input into the weights, and give their output any others. What is
neither has to see the very numbers that it saw before. So the tensors of a model fall into groups that share
their factors, and a group is free if only layers border on it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from thinflow.ir.disjoint_sets import DisjointSets
from thinflow.quantize.kernels import is_float
from thinflow.quantize.weights import memory_key
from thinflow.tflite.model import Operator, Program, Subgraph, Tensor
from thinflow.typing import Array


@dataclass(frozen=True)
class Layout:
    """Where a layer has its operands, and where the channels lie in its weights.

    Attributes:
        x, weights, bias: input numbers.
        gives, takes: axes of the weights along which output and input channels lie.
        rank: of the weights.
    """

    x: int
    weights: int
    bias: int
    gives: int
    takes: int
    rank: int = 4


# OHWI; 1HWC, where a channel is input and output at once; OI. TRANSPOSE_CONV has the output's sizes first.
LAYERS = {
    "CONV_2D": Layout(0, 1, 2, gives=0, takes=3),
    "DEPTHWISE_CONV_2D": Layout(0, 1, 2, gives=3, takes=3),
    "TRANSPOSE_CONV": Layout(2, 1, 3, gives=0, takes=3),
    "FULLY_CONNECTED": Layout(0, 1, 2, gives=0, takes=1, rank=2),
}
# relu(s * x) = s * relu(x) for s > 0. RELU6 is none of them: its limit would be 6 / s in each channel.
_HOMOGENEOUS = frozenset(("NONE", "RELU"))


@dataclass(frozen=True, eq=False)
class Group:
    """Tensors that share their factors.

    Attributes:
        channels: number of factors. The last size of a tensor is that, or a multiple if factors repeat in it,
            as behind a flattened picture.
        tensors: in the order they are made.
        writers, readers: layers, and products with a constant, that border on it.
        watched: those of the tensors whose sizes matter: what layers give and take.
    """

    channels: int
    tensors: tuple[Tensor, ...]
    writers: tuple[Operator, ...]
    readers: tuple[Operator, ...]
    watched: tuple[Tensor, ...]

    @property
    def into_depthwise(self) -> bool:
        """True if each channel is read with a weight scale of its own alone."""
        return all(o.code == "DEPTHWISE_CONV_2D" for o in self.readers)


def find_groups(program: Program) -> list[Group]:
    """The free groups of the main subgraph with layers, or products with constants, at both sides."""
    return _Search(program.subgraphs[0]).groups()


class _Search:
    """Joins tensors that share factors, and notes those that may have none."""

    def __init__(self, main: Subgraph) -> None:
        self.main = main
        self.sets: DisjointSets[Tensor] = DisjointSets()
        self.bound: set[Tensor] = set()
        self._shared = _shared_constants(main)
        self._products: list[Operator] = []
        self._bind(*main.inputs, *main.outputs)
        for operator in main.operators:
            for tensor in operator.touched():
                if is_float(tensor) and not tensor.is_constant:
                    self.sets.find(tensor)
            if not self._carries(operator):
                self._bind(*operator.touched())
        self._settle_products()

    # --------------------------------------------------------------------------------------- what ops do

    def _bind(self, *tensors: Tensor) -> None:
        """Note tensors whose numbers must stay what they are."""
        self.bound.update(t for t in tensors if is_float(t) and not t.is_constant)

    def _tie(self, *tensors: Tensor) -> bool:
        """Let tensors share factors; False if their last sizes do not allow that."""
        sizes = [_last(t) for t in tensors]
        # Row-major order: number i of a tensor belongs to channel i modulo its last size, so the factors of
        # the smaller repeat in the larger.
        if any(not n for n in sizes) or any(max(sizes) % n for n in sizes):
            return False
        self.sets.join(tensors)
        return True

    def _carries(self, operator: Operator) -> bool:
        """Note what an operator does with factors; False if nothing is known of it."""
        if any(t.is_variable for t in operator.touched()) or len(operator.outputs) < 1:
            return False
        if operator.code in LAYERS:
            return self._layer(operator)
        fused = operator.options.get("fused_activation_function", "NONE")
        rule = _RULES.get(operator.code)
        return rule is not None and fused in _HOMOGENEOUS and rule(self, operator)

    def _layer(self, operator: Operator) -> bool:
        weights = layer_weights(operator)
        if weights is None or self._is_shared(operator):
            return False
        layout, (y,) = LAYERS[operator.code], operator.outputs
        x = operator.inputs[layout.x]
        takes = weights.shape[layout.takes] // multiplier(operator)
        # A layer of several groups has fewer columns than its input has channels.
        if x is None or x.is_constant or _last(x) != takes:
            self._bind(*(t for t in (x,) if t is not None))
        fused = operator.options.get("fused_activation_function", "NONE")
        if fused not in _HOMOGENEOUS or _last(y) != weights.shape[layout.gives]:
            self._bind(y)
        return True

    def _is_shared(self, operator: Operator) -> bool:
        return any(t.is_constant and memory_key(t.array()) in self._shared for t in operator.reads())

    def passes(self, operator: Operator) -> bool:
        """What changes each channel alone, or leaves the numbers as they are."""
        return self._tie(_first(operator), *operator.outputs)

    def reduces(self, operator: Operator) -> bool:
        """Sums, means and extremes over axes that are not the last one."""
        x, axes = _first(operator), operator.inputs[1]
        if axes is None or not axes.is_constant or x.shape is None:
            return False
        reduced = {int(a) % len(x.shape) for a in np.asarray(axes.array()).ravel()}
        return len(x.shape) - 1 not in reduced and self._tie(x, operator.outputs[0])

    def pads(self, operator: Operator) -> bool:
        """Zeros around, which any factor leaves alone, but none beside the channels."""
        margins = operator.inputs[1]
        if margins is None or not margins.is_constant:
            return False
        return not np.asarray(margins.array())[-1].any() and self.passes(operator)

    def turns(self, operator: Operator) -> bool:
        """A transpose that leaves the last axis where it is."""
        order = operator.inputs[1]
        if order is None or not order.is_constant:
            return False
        axes = np.asarray(order.array()).ravel()
        return int(axes[-1]) == len(axes) - 1 and self.passes(operator)

    def joins(self, operator: Operator) -> bool:
        """Tensors side by side along another axis than the last."""
        y = operator.outputs[0]
        rank = len(y.shape or ())
        axis = int(operator.options.get("axis", 0))
        inputs = list(operator.reads())
        if not rank or axis % rank == rank - 1 or any(t.is_constant for t in inputs):
            return False
        return self._tie(*inputs, y)

    def adds(self, operator: Operator) -> bool:
        """Sums, differences and extremes: all operands are rescaled alike; a row of constants follows."""
        y = operator.outputs[0]
        for tensor in operator.reads():
            if tensor.is_constant:
                row = np.asarray(tensor.array())
                if (
                    not is_float(tensor)
                    or not row.ndim
                    or row.shape[-1] != _last(y)
                    or self._is_shared(operator)
                ):
                    return False
            elif _last(tensor) != _last(y) or not self._tie(tensor, y):
                return False
        return True

    def multiplies(self, operator: Operator) -> bool:
        """By one constant, which carries factors on; by a row of them, which takes and gives factors as a
        layer does; by another tensor, which is settled once all else is known.
        """
        y = operator.outputs[0]
        constants = [t for t in operator.reads() if t.is_constant]
        computed = [t for t in operator.reads() if not t.is_constant]
        if not constants:
            self._products.append(operator)
            return True
        if len(computed) != 1 or not is_float(constants[0]):
            return False
        if np.asarray(constants[0].array()).size == 1:
            return self._tie(computed[0], y)
        return product_row(operator) is not None and not self._is_shared(operator)

    def matrices(self, operator: Operator) -> bool:
        """A product of matrices that are computed: columns of the second are columns of the result."""
        x, matrix = operator.inputs[:2]
        if x is None or matrix is None or matrix.is_constant or operator.options.get("adj_y", False):
            return False
        self._bind(x)
        return self._tie(matrix, operator.outputs[0])

    def _settle_products(self) -> None:
        """Let one side of each product carry its factors on, and the other have none."""
        left = list(self._products)
        while left:
            # Where one side is bound anyway, the other may go on; else the first of them is bound, once.
            known = [o for o in left if any(self._is_bound(t) for t in o.reads())]
            operator = known[0] if known else left[0]
            left.remove(operator)
            x, other = operator.reads()
            if not self._is_bound(x) and self._is_bound(other):
                x, other = other, x
            self._bind(x)
            # A narrow side is spread over the channels: it cannot carry factors of its own.
            y = operator.outputs[0]
            if x is other or _last(other) != _last(y) or not self._tie(other, y):
                self._bind(other, y)

    def _is_bound(self, tensor: Tensor) -> bool:
        root = self.sets.find(tensor)
        return any(self.sets.find(t) is root for t in self.bound)

    # ---------------------------------------------------------------------------------------- what is found

    def groups(self) -> list[Group]:
        bound = {self.sets.find(t) for t in self.bound}
        borders = [o for o in self.main.operators if o.code in LAYERS or product_row(o) is not None]
        found = []
        for members in self.sets.sets():
            if self.sets.find(members[0]) in bound:
                continue
            inside = set(members)
            writers = tuple(o for o in borders if o.outputs[0] in inside)
            readers = tuple(o for o in borders if scaled_input(o) in inside)
            channels = math.gcd(*(_last(t) for t in members))
            if writers and readers and channels > 1:
                found.append(Group(channels, tuple(members), writers, readers, _watched(writers, readers)))
        return found


def _watched(writers: Sequence[Operator], readers: Sequence[Operator]) -> tuple[Tensor, ...]:
    """What layers give, and what is read; what products with a constant give may be a mere factor."""
    given = [o.outputs[0] for o in writers if o.code in LAYERS]
    taken = [t for o in readers if (t := scaled_input(o)) is not None]
    return tuple(dict.fromkeys([*given, *taken]))


def _first(operator: Operator) -> Tensor:
    x = operator.inputs[0]
    assert x is not None, "its first operand is not optional"
    return x


def _last(tensor: Tensor | None) -> int:
    """The number of channels; 0 if it is not known."""
    return (tensor.shape[-1] or 0) if tensor is not None and tensor.shape else 0


def _shared_constants(main: Subgraph) -> set[tuple[Any, ...]]:
    """Constants that several operators use."""
    uses: Counter[tuple[Any, ...]] = Counter()
    for operator in main.operators:
        uses.update({memory_key(t.array()) for t in operator.reads() if t.is_constant and is_float(t)})
    return {key for key, count in uses.items() if count > 1}


_Rule = Callable[[_Search, Operator], bool]
_RULES: dict[str, _Rule] = {
    code: rule
    for codes, rule in {
        "RELU LEAKY_RELU MAX_POOL_2D AVERAGE_POOL_2D RESHAPE SQUEEZE EXPAND_DIMS RESIZE_BILINEAR"
        " RESIZE_NEAREST_NEIGHBOR SPACE_TO_BATCH_ND BATCH_TO_SPACE_ND NEG": _Search.passes,
        "MEAN SUM REDUCE_MAX REDUCE_MIN": _Search.reduces,
        # PADV2 may pad with another number than 0.
        "PAD MIRROR_PAD": _Search.pads,
        "TRANSPOSE": _Search.turns,
        "CONCATENATION PACK": _Search.joins,
        "ADD SUB MAXIMUM MINIMUM": _Search.adds,
        "MUL": _Search.multiplies,
        "BATCH_MATMUL": _Search.matrices,
    }.items()
    for code in codes.split()
}


# ---------------------------------------------------------------------------------- operators at the border


def layer_weights(operator: Operator) -> Array | None:
    """Float weights of a layer with a constant bias or none; None for other operators."""
    layout = LAYERS.get(operator.code)
    if layout is None:
        return None
    inputs = [*operator.inputs, None]
    tensor, bias = inputs[layout.weights], inputs[min(layout.bias, len(inputs) - 1)]
    if tensor is None or not tensor.is_constant or not is_float(tensor):
        return None
    if bias is not None and not (bias.is_constant and is_float(bias)):
        return None
    data = np.asarray(tensor.array())
    return data if data.ndim == layout.rank else None


def product_row(operator: Operator) -> int | None:
    """The number of the input of a MUL that is a row of constants, one a channel; None if there is none."""
    if (
        operator.code != "MUL"
        or operator.options.get("fused_activation_function", "NONE") not in _HOMOGENEOUS
    ):
        return None
    for number, tensor in enumerate(operator.inputs):
        other = operator.inputs[1 - number]
        if tensor is None or other is None or not tensor.is_constant or other.is_constant:
            continue
        row = np.asarray(tensor.array())
        # A row of one channel each is made by other operands, too: [N, 1] times a row gives channels.
        if row.ndim and row.size > 1 and row.shape[-1] == _last(operator.outputs[0]) and is_float(tensor):
            return number
    return None


def scaled_input(operator: Operator) -> Tensor | None:
    """The tensor whose factors go into an operator's constants."""
    layout = LAYERS.get(operator.code)
    if layout is not None:
        return operator.inputs[layout.x]
    row = product_row(operator)
    return None if row is None else operator.inputs[1 - row]


def multiplier(operator: Operator) -> int:
    """Output channels per input channel of a depthwise layer; 1 for others."""
    if operator.code != "DEPTHWISE_CONV_2D":
        return 1
    # 0 is the schema's default, which a file has that does not state it.
    return int(operator.options.get("depth_multiplier", 1)) or 1


def constants_to_divide(operator: Operator) -> Iterator[int]:
    """Numbers of the constants that follow the factors of a sum's or an extreme's tensors."""
    if operator.code in ("ADD", "SUB", "MAXIMUM", "MINIMUM"):
        yield from (n for n, t in enumerate(operator.inputs) if t is not None and t.is_constant)
