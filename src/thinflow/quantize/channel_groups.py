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
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from thinflow.ir.disjoint_sets import DisjointSets
from thinflow.quantize.kernels import input_at, is_float
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
class Border:
    """A layer, or a product with a row of constants: what lies between the factors of two groups.

    Attributes:
        operator: the layer or product.
        x: the tensor whose factors go into the constants.
        number: of the input that holds the constants.
        constants: weights, or the row.
        gives, takes: axes of the constants along which the channels of the result, and those of x, lie.
        repeats: columns of the constants for each channel of x, side by side; 1 but in depthwise layers.
        added: numbers of the inputs that are added to the result: of a bias, or none.
    """

    operator: Operator
    x: Tensor
    number: int
    constants: Array
    gives: int
    takes: int
    repeats: int = 1
    added: tuple[int, ...] = ()

    @property
    def y(self) -> Tensor:
        return self.operator.outputs[0]


@dataclass(frozen=True, eq=False)
class Group:
    """Tensors that share their factors.

    Attributes:
        channels: number of factors. The last size of a tensor is that, or a multiple if factors repeat in it,
            as behind a flattened picture.
        tensors: in the order they are made.
        writers, readers: what borders on it.
    """

    channels: int
    tensors: tuple[Tensor, ...]
    writers: tuple[Border, ...]
    readers: tuple[Border, ...]

    @property
    def into_depthwise(self) -> bool:
        """True if each channel is read with a weight scale of its own alone."""
        return all(b.operator.code == "DEPTHWISE_CONV_2D" for b in self.readers)

    @property
    def watched(self) -> list[Tensor]:
        """The tensors whose sizes matter: what layers give, and what is read."""
        # What a product with a row of constants gives may be a mere factor, as in a norm.
        given = [b.y for b in self.writers if b.operator.code in LAYERS]
        return list(dict.fromkeys([*given, *(b.x for b in self.readers)]))


def find_groups(program: Program) -> list[Group]:
    """The free groups of the main subgraph with layers, or products with constants, at both sides."""
    return _Search(program.subgraphs[0]).groups()


class _Search:
    """Joins tensors that share factors, and notes those that may have none."""

    def __init__(self, main: Subgraph) -> None:
        self.main = main
        self.sets: DisjointSets[Tensor] = DisjointSets()
        self._bound: set[Tensor] = set()  # those that stand for the sets of bound tensors
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
        self._bound.update(self.sets.find(t) for t in tensors if is_float(t) and not t.is_constant)

    def _tie(self, *tensors: Tensor) -> bool:
        """Let tensors share factors; False if their last sizes do not allow that."""
        sizes = [_last(t) for t in tensors]
        # Row-major order: number i of a tensor belongs to channel i modulo its last size, so the factors of
        # the smaller repeat in the larger.
        if any(not n for n in sizes) or any(max(sizes) % n for n in sizes):
            return False
        is_bound = any(self._is_bound(t) for t in tensors)
        self.sets.join(tensors)
        if is_bound:
            self._bound.add(self.sets.find(tensors[0]))
        return True

    def _is_bound(self, tensor: Tensor) -> bool:
        return self.sets.find(tensor) in self._bound

    def _carries(self, operator: Operator) -> bool:
        """Note what an operator does with factors; False if nothing is known of it."""
        if any(t.is_variable for t in operator.touched()) or len(operator.outputs) < 1:
            return False
        if operator.code in LAYERS:
            return self._layer(operator)
        rule = _RULES.get(operator.code)
        return rule is not None and _is_homogeneous(operator) and rule(self, operator)

    def _layer(self, operator: Operator) -> bool:
        border = border_of(operator)
        if border is None or self._is_shared(operator):
            return False
        # A layer of several groups has fewer columns than its input has channels.
        if _last(border.x) * border.repeats != border.constants.shape[border.takes]:
            self._bind(border.x)
        if not _is_homogeneous(operator) or _last(border.y) != border.constants.shape[border.gives]:
            self._bind(border.y)
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
        return border_of(operator) is not None and not self._is_shared(operator)

    def matrices(self, operator: Operator) -> bool:
        """A product of matrices that are computed: columns of the second are columns of the result."""
        x, matrix = operator.inputs[:2]
        if x is None or matrix is None or matrix.is_constant or operator.options.get("adj_y", False):
            return False
        self._bind(x)
        return self._tie(matrix, operator.outputs[0])

    def _settle_products(self) -> None:
        """Let one side of each product carry its factors on, and the other have none."""
        left = self._products
        while left:
            # Where one side is bound anyway, the other may go on; only if none is, one is bound for that.
            waiting = [o for o in left if not self._settle(o)]
            if len(waiting) == len(left):
                self._bind(_first(waiting[0]))
            left = waiting

    def _settle(self, product: Operator) -> bool:
        """Settle a product of which one side is bound; False if none is."""
        x, other = product.reads()
        if not self._is_bound(x):
            x, other = other, x
        if not self._is_bound(x):
            return False
        # A narrow side is spread over the channels: it cannot carry factors of its own.
        y = product.outputs[0]
        if x is other or _last(other) != _last(y) or not self._tie(other, y):
            self._bind(other, y)
        return True

    # ---------------------------------------------------------------------------------------- what is found

    def groups(self) -> list[Group]:
        writers: dict[Tensor, list[Border]] = {}
        readers: dict[Tensor, list[Border]] = {}
        for border in filter(None, map(border_of, self.main.operators)):
            writers.setdefault(self.sets.find(border.y), []).append(border)
            readers.setdefault(self.sets.find(border.x), []).append(border)
        found = []
        for members in self.sets.sets():
            root = self.sets.find(members[0])
            channels = math.gcd(*map(_last, members))
            if channels > 1 and root not in self._bound and root in writers and root in readers:
                found.append(Group(channels, tuple(members), tuple(writers[root]), tuple(readers[root])))
        return found


def _is_homogeneous(operator: Operator) -> bool:
    """True if nothing is fused into an operator that would cut at a limit."""
    return operator.options.get("fused_activation_function", "NONE") in _HOMOGENEOUS


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


def border_of(operator: Operator) -> Border | None:
    """What an operator with constants is between groups; None if it carries factors on, or can take none."""
    return _product(operator) if operator.code == "MUL" else _layer(operator)


def _layer(operator: Operator) -> Border | None:
    layout = LAYERS.get(operator.code)
    if layout is None:
        return None
    x, weights = operator.inputs[layout.x], operator.inputs[layout.weights]
    bias = input_at(operator, layout.bias)
    if x is None or x.is_constant or weights is None or not weights.is_constant or not is_float(weights):
        return None
    if bias is not None and not (bias.is_constant and is_float(bias)):
        return None
    data = np.asarray(weights.array())
    if data.ndim != layout.rank:
        return None
    # 0 is the schema's default, which a file has that does not state it.
    times = int(operator.options.get("depth_multiplier", 1)) or 1
    repeats = times if operator.code == "DEPTHWISE_CONV_2D" else 1
    added = () if bias is None else (layout.bias,)
    return Border(operator, x, layout.weights, data, layout.gives, layout.takes, repeats, added)


def _product(operator: Operator) -> Border | None:
    for number, row in enumerate(operator.inputs):
        x = operator.inputs[1 - number]
        if row is None or x is None or not row.is_constant or x.is_constant or not is_float(row):
            continue
        data = np.asarray(row.array())
        # x may be narrower, [N, 1]: it is spread over the channels, and has no factors of its own.
        if data.ndim and data.size > 1 and data.shape[-1] == _last(operator.outputs[0]):
            return Border(operator, x, number, data, data.ndim - 1, data.ndim - 1)
    return None


def constants_to_divide(operator: Operator) -> Iterator[int]:
    """Numbers of the constants that follow the factors of a sum's or an extreme's tensors."""
    if operator.code in ("ADD", "SUB", "MAXIMUM", "MINIMUM"):
        yield from (n for n, t in enumerate(operator.inputs) if t is not None and t.is_constant)
